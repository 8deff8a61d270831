"""Owns what the system knows of a process's memory and descriptors, and giving memory back to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path


class GiveBack:
    """Gives back what is free some seconds after `soon` was called: once, however often it was.

    It holds everything up for up to a tenth of a second, and so waits until nothing is going on, but no
    longer than `at_most_s`: somewhere a turn may always run.
    """

    def __init__(self, after_s: float, at_most_s: float, busy: Callable[[], bool]) -> None:
        self._after_s = after_s
        self._at_most_s = at_most_s
        self._busy = busy
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Much was freed just now, or will be."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            self._timer = loop.call_later(self._after_s, self._give)

    def cancel(self) -> None:
        """The process ends: all of it goes back then."""
        if self._timer is not None:
            self._timer.cancel()

    def _give(self) -> None:
        loop = asyncio.get_running_loop()
        if self._busy() and loop.time() - self._since < self._at_most_s:
            self._timer = loop.call_later(self._after_s, self._give)
        else:
            self._timer = None
            give_back()


def give_back() -> None:
    """Collect cycles, and have the C library return what it holds and nobody uses.

    glibc keeps freed memory below anything that is still in use, which after many sessions is most of it.
    """
    import ctypes
    import gc

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def resident_bytes(pid: int) -> int:
    """What a process holds of the machine's memory; 0 when the system does not tell. May block."""
    try:
        statm = Path(f"/proc/{pid}/statm")
        if statm.parent.is_dir():
            return int(statm.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return _resident_by_ps(pid)
    except (OSError, ValueError, IndexError):
        return 0


def _resident_by_ps(pid: int) -> int:
    import subprocess

    command = ["/bin/ps", "-o", "rss=", "-p", str(pid)]
    try:
        return int(subprocess.run(command, capture_output=True, timeout=2.0, check=True).stdout) * 1024
    except subprocess.SubprocessError:
        return 0


def descriptors() -> tuple[int, int]:
    """How many descriptors this process has open, and may have."""
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        return len(os.listdir("/dev/fd")) - 1, most  # noqa: PTH208 - the listing is one of them
    except OSError:  # none is left to look with
        return most, most
