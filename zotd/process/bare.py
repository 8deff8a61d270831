"""Starts programs straight from this process, where no keeper can run: macOS, or a system without /proc.

What leaves the process group of its program gets away; see docs/support.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.process.group import group_exists

if TYPE_CHECKING:
    from subprocess import Popen


class Bare:
    """Programs that this process started itself, and that end together."""

    def __init__(self) -> None:
        self._groups: dict[int, asyncio.Future[int]] = {}

    def spawn(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], fds: Sequence[int]
    ) -> tuple[int, asyncio.Future[int]]:
        """Start one with `fds` as its standard input, output and error. Its pid, and its exit to come.

        Raises OSError, and ValueError for what no program can be given.
        """
        from subprocess import Popen

        child_in, child_out, child_err = fds
        process = Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=child_in,
            stdout=child_out,
            stderr=child_err,
            start_new_session=True,
        )
        exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            _watch(process, exited)
        except OSError:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        self._groups = {pid: its for pid, its in self._groups.items() if not its.done() or group_exists(pid)}
        self._groups[process.pid] = exited
        return process.pid, exited

    def signal(self, group: int, number: int) -> None:
        """Signal a group, as long as it is still the one that was started here."""
        exited = self._groups.get(group)
        if exited is not None and (not exited.done() or group_exists(group)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    async def close(self, seconds: float) -> None:
        """Kill every group, and wait up to `seconds` for the programs that led them."""
        for group in self._groups:
            self.signal(group, signal.SIGKILL)
        if self._groups:
            await asyncio.wait(self._groups.values(), timeout=seconds)


def _watch(process: Popen[bytes], exited: asyncio.Future[int]) -> None:
    """Set `exited` when the process ends, and collect it."""
    loop = asyncio.get_running_loop()

    def end(code: int) -> None:
        if not exited.done():
            exited.set_result(code)

    if hasattr(os, "pidfd_open"):
        pidfd = os.pidfd_open(process.pid)

        def readable() -> None:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            end(process.wait())

        loop.add_reader(pidfd, readable)
        return

    def wait() -> None:
        code = process.wait()
        with contextlib.suppress(RuntimeError):  # the loop closed first: nobody waits any more
            loop.call_soon_threadsafe(end, code)

    import threading

    threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()
