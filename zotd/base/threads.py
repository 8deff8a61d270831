"""Owns the threads of a daemon's loop, which do what waits for a disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


class Threads(ThreadPoolExecutor):
    """As many as are useful, and one from the start: where the system gives no more, it does all the work.

    The library's own would say that work was not taken, and do it all the same once it has a thread.
    """

    def __init__(self) -> None:
        """Raises RuntimeError where not even one can be had."""
        super().__init__(thread_name_prefix="disk")
        self.submit(int)
        if not self._threads:
            raise RuntimeError("no thread can be started")

    def _adjust_thread_count(self) -> None:
        with suppress(RuntimeError):
            super()._adjust_thread_count()
