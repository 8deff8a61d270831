"""An extension that leaves processes behind and stops dead at a point of its life: `lingerer.py PHASE`.

It writes the pids of what it left, and then a line `at PHASE`, to the named pipe `marks` beside its manifest.
What it leaves are processes of their own sessions, forked twice, with no environment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

PHASE = sys.argv[1]


def send(**frame: Any) -> None:
    print(json.dumps(frame), flush=True)


def linger(marks: int) -> None:
    """Leave a process behind that nobody knows."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.write(marks, f"{os.getpid()}\n".encode())
            os.close(writing)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        os._exit(0)
    os.wait()
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)


def reach(phase: str, marks: int) -> None:
    """Go no further when this is where to stop."""
    if phase == PHASE:
        os.write(marks, f"at {phase}\n".encode())
        while True:
            signal.pause()


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    marks = os.open("marks", os.O_RDWR)
    linger(marks)
    reach("before hello", marks)
    send(type="hello", name=Path.cwd().name, version="1")
    reach("after hello", marks)
    sys.stdin.readline()
    send(type="register_command", name="hang", description="never answers")
    reach("registering", marks)
    send(type="register_tool", name="hang_tool", description="never answers", schema={"type": "object"})
    send(type="subscribe", events=["turn_start"], intercept=["turn_start"] if PHASE == "intercepting" else [])
    send(type="ready")
    reach("running", marks)
    for line in sys.stdin:
        kind = json.loads(line)["type"]
        linger(marks)
        reach(
            {
                "command_invoked": "in a command",
                "tool_call": "in a tool call",
                "event_intercept": "intercepting",
                "shutdown": "shutting down",
            }.get(kind, ""),
            marks,
        )


main()
