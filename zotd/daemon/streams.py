"""Owns the ends of a client: what is written to it, and for a socket what is read, without ever blocking."""

from __future__ import annotations

import asyncio
import errno
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from zotd.base.limits import Limits
from zotd.base.log import say
from zotd.daemon.connection import Connection, Frames

Connect = Callable[["StreamOutlet | FileOutlet", "Frames | None"], Connection]
"""Makes the connection of an outlet; None for frames whose form is found out from the first bytes."""


class StreamOutlet(asyncio.Protocol):
    """The writing end of a socket or pipe."""

    def __init__(self, limits: Limits, lost: Callable[[], None]) -> None:
        self._limits = limits
        self._lost = lost
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._ended = asyncio.Event()
        self._fd = -1
        self._roomy: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.client_unsent_bytes)
        end = transport.get_extra_info("pipe") or transport.get_extra_info("socket")
        self._fd = end.fileno()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
        self._roomy()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.set()
        self._ended.set()
        self._transport = None
        self._roomy()
        self._lost()

    def when_roomy(self, call: Callable[[], None]) -> None:
        self._roomy = call

    def peer(self) -> dict[str, int]:
        """Uid and pid of the other end, as far as the system tells."""
        end = None if self._transport is None else self._transport.get_extra_info("socket")
        if end is None:
            return {}
        from zotd.daemon.peer_uid import peer_of

        return peer_of(end)

    @property
    def full(self) -> bool:
        return not self._room.is_set()

    @property
    def waiting(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not transport.get_write_buffer_size():
            data = data[self._write_now(data) :]
        if data:
            transport.write(data)

    def _write_now(self, data: bytes) -> int:
        """Bytes that the system took at once: uvloop's own write waits for the next round of its loop.

        Errors are left to the transport, which meets them too and knows how to end.
        """
        try:
            return os.write(self._fd, data)
        except OSError:
            return 0

    async def drained(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.client_stall_s):
                await self._room.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def ended(self) -> None:
        """After `close`: until what was written is on its way, for a reader that keeps reading."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.client_stall_s):
                await self._ended.wait()


class FileOutlet:
    """Standard output that is a file or a terminal: written at once, for it has no useful readiness."""

    full = False
    waiting = 0

    def __init__(self, fd: int, lost: Callable[[], None]) -> None:
        self._fd = fd
        self._lost = lost
        self._broken = False

    def when_roomy(self, call: Callable[[], None]) -> None:
        """It always is."""

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._broken:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                select.select([], [self._fd], [])
            except OSError as problem:
                if problem.errno not in (errno.EPIPE, errno.EBADF):  # a reader that left is no fault
                    say(f"standard output: {problem.strerror}", "standard output is lost")
                self._broken = True
                self._lost()

    async def drained(self) -> None:
        return

    def close(self) -> None:
        return

    async def ended(self) -> None:
        return


class SocketClient(StreamOutlet):
    """Both ends of one socket connection. private: sessions end with it, so that it is always heard out."""

    def __init__(
        self, limits: Limits, connect: Connect, gone: Callable[[Connection], None], *, private: bool = False
    ) -> None:
        super().__init__(limits, lambda: None)
        self._connect = connect
        self._gone = gone
        self._private = private
        self.connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.connection = self._connect(self, self._frames())
        self.connection.reads_from(cast("asyncio.ReadTransport", transport))

    def _frames(self) -> Frames | None:
        """What cuts the bytes of this client into frames, where that is known from the start."""
        return None

    def data_received(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.receive(data)

    def eof_received(self) -> bool:
        """Whether to stay open for writing: who has only ended its input gets the answers to it."""
        if self.connection is None or not (self._private or self._reads_on()):
            return False
        self.connection.leave()
        return True

    def _reads_on(self) -> bool:
        """Whether the other end is still open for reading, as far as the system knows."""
        poll = select.poll()
        poll.register(self._fd, 0)
        return not poll.poll(0)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.connection is not None:
            self._gone(self.connection)
