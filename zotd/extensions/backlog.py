"""Owns what an extension said while its listener was behind: in order, bounded, told once that caught up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from zotd.protocol.frames import FromExtension, Notify
from zotd.wire.codec import encode_frame

if TYPE_CHECKING:
    from zotd.extensions.extension import Extension

_OVERHEAD = 256  # bytes that a short frame takes in memory beside its text
_AT_ONCE = 64 * 1024  # bytes told before the listener is looked at again: what a pipe holds


class Listener(Protocol):
    """Whoever an extension belongs to.

    full: it is behind; it hears nothing more before `drained` returns, which it does in bounded time.
    """

    @property
    def full(self) -> bool: ...
    async def drained(self) -> None: ...

    def hear(self, extension: Extension, frame: FromExtension) -> None:
        """A frame that is neither an answer nor part of the handshake."""
        ...

    def changed(self, extension: Extension) -> None:
        """Its `state` is another one."""
        ...


class Backlog:
    """Frames that wait for a listener. `flow` tells them; somebody has to run it while `holding`.

    holding: whether frames have to be put here, because the listener or others of them wait.
    """

    def __init__(self, listener: Listener, tell: Callable[[FromExtension], None], most: int) -> None:
        """tell: what becomes of each frame. most: bytes that may wait."""
        self.holding = False
        self._listener = listener
        self._tell = tell
        self._most = most
        self._waiting: deque[tuple[FromExtension | asyncio.Future[None], int]] = deque()
        self._bytes = 0
        self._hurry: asyncio.Event | None = None
        self._hurried = False

    @property
    def full(self) -> bool:
        """Whether more waits than should: read nothing further."""
        return self._bytes > self._most

    def look(self) -> bool:
        """Begin to hold if the listener is behind. Whether it holds now."""
        if not self.holding and not self._hurried and self._listener.full:
            self.holding = True
        return self.holding

    def put(self, frame: FromExtension) -> None:
        """Keep a frame until the listener has caught up."""
        size = len(frame.message) if type(frame) is Notify else len(encode_frame(frame))
        size += _OVERHEAD
        self._waiting.append((frame, size))
        self._bytes += size

    async def passed(self) -> None:
        """Until all that waits at this moment was told."""
        if self.holding:
            mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((mark, 0))
            await mark

    async def flow(self) -> None:
        """Tell what waits as the listener catches up, until nothing is left and it is not behind."""
        while self.holding:
            await self._room()
            told = 0
            while self._waiting and told < _AT_ONCE:
                told += self._next()
            if not self._waiting:
                self.holding = self._listener.full and not self._hurried
            await asyncio.sleep(0)

    def hurry(self) -> None:
        """Wait for nobody any more: what is held is told at once, for the extension ends."""
        self._hurried = True
        if self._hurry is not None:
            self._hurry.set()

    def flush(self) -> None:
        """Tell what waits at once, whether or not the listener has caught up."""
        self.hurry()
        while self._waiting:
            self._next()
        self.holding = False

    def _next(self) -> int:
        waiting, size = self._waiting.popleft()
        self._bytes -= size
        if not isinstance(waiting, asyncio.Future):
            self._tell(waiting)
        elif not waiting.done():
            waiting.set_result(None)
        return size

    async def _room(self) -> None:
        if self._hurried or not self._listener.full:
            return
        self._hurry = asyncio.Event()
        await first_of(self._listener.drained(), self._hurry.wait())


async def first_of(*awaited: Awaitable[object]) -> None:
    """Until one of these is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
