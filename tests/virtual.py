"""An event loop whose clock is not the world's: where others wait, it jumps to the next timer.

Nothing outside can wake it, no descriptor and no thread, so it is for logic with scripted peers. What takes
a minute for a user takes a millisecond here, and takes exactly a minute by `loop.time()`.
"""

from __future__ import annotations

import asyncio
import selectors


class NothingLeftToHappen(Exception):
    """Every task waits, and no timer is set: what is awaited can never come."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 and moves only when nothing is ready."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Leap(self))

    def time(self) -> float:
        return self._now

    def leap(self, seconds: float) -> None:
        """Move the clock on."""
        self._now += seconds


class _Leap(selectors.SelectSelector):
    """Keeps what is registered and never looks at it: waiting is moving the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingLeftToHappen
        self._loop.leap(max(timeout, 0.0))
        return []


async def later(seconds: float) -> None:
    """So much later by the loop's clock, which takes no time: whatever happens until then has happened."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    moment = loop.create_future()
    loop.call_later(seconds, moment.set_result, None)
    await moment
