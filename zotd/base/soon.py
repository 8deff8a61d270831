"""Owns telling of what changes often: at once, and then not again before the event loop has come round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Seldom:
    """Calls `tell` at most twice in one turn of the event loop, the last time after all that turn brought."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._told = False
        self._more = False

    def __call__(self) -> None:
        """There is something to tell."""
        if self._told:
            self._more = True
            return
        self._told = True
        asyncio.get_running_loop().call_soon(self._turn_over)
        self._tell()

    def _turn_over(self) -> None:
        self._told = False
        if self._more:
            self._more = False
            self()
