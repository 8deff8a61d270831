"""Owns the one client on standard input and output."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable

from zotd.base.limits import Limits
from zotd.daemon.connection import Connection
from zotd.daemon.sending import Input
from zotd.daemon.streams import Connect, FileOutlet, SocketClient, StreamOutlet


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
        connection.reads_from(await read_stdin(connection.receive, connection.leave))
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


async def read_stdin(received: Callable[[bytes], None], ended: Callable[[], None]) -> Input:
    """Hand on what arrives on standard input, whatever it is: pipe, socket, file or terminal. Returns what
    stops that for a while.
    """
    loop = asyncio.get_running_loop()
    if _has_readiness(0):
        end = os.fdopen(os.dup(0), "rb", 0)
        transport, _ = await loop.connect_read_pipe(lambda: _StdinReader(received, ended), end)
        return transport
    gate = _Gate()

    def pump() -> None:
        try:
            while data := os.read(0, 65536):
                loop.call_soon_threadsafe(received, data)
                gate.open.wait()
        except OSError:
            pass
        loop.call_soon_threadsafe(ended)

    threading.Thread(target=_quiet(pump), name="stdin", daemon=True).start()
    return gate


class _Gate:
    """Stops a thread that reads."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()

    def pause_reading(self) -> None:
        self.open.clear()

    def resume_reading(self) -> None:
        self.open.set()

    def is_closing(self) -> bool:
        return False


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
