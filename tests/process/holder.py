"""A process with a scope: `holder.py LOOP MODE` runs `escapes.py MODE` in it and passes on what it prints.

LOOP is `asyncio` or `uvloop`. With a path as MODE no keeper can be started, because that takes the place of
the interpreter; the program prints a greeting.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import uvloop

from zotd.base.limits import Limits
from zotd.process.spawn import Scope

ESCAPES = str(Path(__file__).with_name("escapes.py"))


async def hold(mode: str) -> None:
    argv = [sys.executable, "-S", ESCAPES, mode]
    if "/" in mode:
        argv = ["echo", "good day"]
        sys.executable = mode
    child = await Scope(Limits()).spawn(
        argv, cwd=Path("/"), env=dict(os.environ), stdin="null", stderr="merge"
    )
    while data := await child.read():
        os.write(1, data)
    await asyncio.Event().wait()


if __name__ == "__main__":
    factory = uvloop.new_event_loop if sys.argv[1] == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(hold(sys.argv[2]))
