"""Owns where clients come from: standard input and output, and Unix sockets."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from zotd.base.limits import Limits
from zotd.daemon.connection import Connection, Frames

Connect = Callable[["StreamOutlet | FileOutlet", "Frames | None"], Connection]
"""Makes the connection of an outlet; None for frames whose form is found out from the first bytes."""


class StreamOutlet(asyncio.Protocol):
    """The writing end of a socket or pipe. A client that reads nothing for a while is hung up on."""

    def __init__(self, limits: Limits, lost: Callable[[], None]) -> None:
        self._limits = limits
        self._lost = lost
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._ended = asyncio.Event()
        self._fd = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.client_queue_bytes)
        end = transport.get_extra_info("pipe") or transport.get_extra_info("socket")
        self._fd = end.fileno()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.set()
        self._ended.set()
        self._transport = None
        self._lost()

    @property
    def full(self) -> bool:
        return not self._room.is_set()

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
        try:
            async with asyncio.timeout(self._limits.client_stall_s):
                await self._room.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

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

    def __init__(self, fd: int, lost: Callable[[], None]) -> None:
        self._fd = fd
        self._lost = lost
        self._broken = False

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._broken:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                select.select([], [self._fd], [])
            except OSError as problem:
                if problem.errno not in (errno.EPIPE, errno.EBADF):  # a reader that left is no fault
                    sys.stderr.write(f"zotd: standard output: {problem.strerror}\n")
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
        self._reading: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._reading = cast("asyncio.ReadTransport", transport)
        self.connection = self._connect(self, self._frames())

    def _frames(self) -> Frames | None:
        """What cuts the bytes of this client into frames, where that is known from the start."""
        return None

    def data_received(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.receive(data)
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Who asks on and reads no answers would have them pile up here."""
        if self.connection is not None and self.connection.full and self._reading is not None:
            self._reading.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.resume_reading()

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
        self._reading = None
        super().connection_lost(exc)
        if self.connection is not None:
            self._gone(self.connection)


class SocketInUse(Exception):
    """Another process answers on the socket."""


_SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""What fits into the kernel's address of a Unix socket; no setting of ours could change it."""


async def listen_unix(
    path: Path, limits: Limits, connect: Connect, gone: Callable[[Connection], None]
) -> asyncio.AbstractServer:
    """Accept clients on a Unix socket, mode 0600. A stale socket is replaced, a live one never.

    Raises SocketInUse, or OSError where the path is too long, something else is there, its directory is
    missing or cannot be written.
    """
    if (size := len(os.fsencode(path))) > _SOCKET_PATH_BYTES:
        raise OSError(f"{path}: {size} bytes are too long for a socket's path; at most {_SOCKET_PATH_BYTES}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {path.parent}; make it first")
    if os.path.lexists(path) and not path.is_socket():
        raise FileExistsError(f"{path}: exists and is not a socket; choose another path")
    if path.is_socket():
        try:
            _, writer = await asyncio.open_unix_connection(path)
        except OSError:
            path.unlink(missing_ok=True)
        else:
            writer.close()
            raise SocketInUse(f"{path}: another program is listening there; stop it or choose another path")
    loop = asyncio.get_running_loop()
    before = os.umask(0o177)
    try:
        return await loop.create_unix_server(lambda: SocketClient(limits, connect, gone), str(path))
    finally:
        os.umask(before)


class _StdinReader(asyncio.Protocol):
    def __init__(self, received: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._received = received
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


async def serve_stdio(limits: Limits, connect: Connect, lost: Callable[[], None]) -> Connection:
    """Make standard input and output one client. `lost`: its output broke."""
    both = _one_socket()
    if both is None:
        connection = connect(await open_stdout(limits, lost), None)
        await read_stdin(connection.receive, connection.leave)
        return connection
    client = SocketClient(limits, connect, lambda _: lost(), private=True)
    await asyncio.get_running_loop().create_connection(lambda: client, sock=both)
    assert client.connection is not None
    return client.connection


def _one_socket() -> socket.socket | None:
    """The socket that is both standard input and output, as inetd and socat hand it over."""
    first, second = os.fstat(0), os.fstat(1)
    if not stat.S_ISSOCK(first.st_mode) or (first.st_dev, first.st_ino) != (second.st_dev, second.st_ino):
        return None
    both = socket.socket(fileno=os.dup(0))
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return both


async def read_stdin(received: Callable[[bytes], None], ended: Callable[[], None]) -> None:
    """Hand on what arrives on standard input, whatever it is: pipe, socket, file or terminal."""
    loop = asyncio.get_running_loop()
    if _has_readiness(0):
        await loop.connect_read_pipe(lambda: _StdinReader(received, ended), os.fdopen(os.dup(0), "rb", 0))
        return

    def pump() -> None:
        try:
            while data := os.read(0, 65536):
                loop.call_soon_threadsafe(received, data)
        except OSError:
            pass
        loop.call_soon_threadsafe(ended)

    threading.Thread(target=_quiet(pump), name="stdin", daemon=True).start()


async def open_stdout(limits: Limits, lost: Callable[[], None]) -> StreamOutlet | FileOutlet:
    """Take standard output for frames. From here on, whatever else prints there lands on standard error."""
    fd = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    if not _has_readiness(fd):
        return FileOutlet(fd, lost)
    outlet = StreamOutlet(limits, lost)
    await asyncio.get_running_loop().connect_write_pipe(lambda: outlet, os.fdopen(_own(fd), "wb", 0))
    return outlet


def _has_readiness(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _own(fd: int) -> int:
    """The same pipe with file status flags of our own: non-blocking must not leak to whoever shares it."""
    try:
        fresh = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return fd
    os.close(fd)
    return fresh


def _quiet(pump: Callable[[], None]) -> Callable[[], None]:
    """A pump whose loop has closed has nobody left to tell."""

    def run() -> None:
        try:
            pump()
        except RuntimeError:
            return

    return run
