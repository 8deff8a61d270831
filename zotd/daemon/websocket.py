"""Owns where clients come from over WebSockets. Imported only when one is listened for."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from zotd.base.limits import Limits
from zotd.daemon.connection import Connection
from zotd.daemon.place import SocketInUse
from zotd.daemon.streams import Connect, SocketClient
from zotd.wire.websocket import WebSocket


async def listen_websocket(
    address: str, limits: Limits, connect: Connect, gone: Callable[[Connection], None]
) -> tuple[asyncio.AbstractServer, str]:
    """Accept clients on `ws://HOST:PORT`, a loopback address; port 0 has the system choose one.

    Returns the address that clients use. Raises SocketInUse, or OSError for an address that is none of ours.
    """
    host, port = _loopback(address)
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(lambda: _WebSocketClient(limits, connect, gone), host, port)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise SocketInUse(f"{address}: {why}; choose another port, or 0 for any that is free") from None
    chosen = server.sockets[0].getsockname()[1]
    return server, f"ws://{f'[{host}]' if ':' in host else host}:{chosen}"


def _loopback(address: str) -> tuple[str, int]:
    """Raises OSError unless it is `ws://`, a loopback address and a port."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        rest = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    except ValueError as wrong:
        raise OSError(f"{address}: {wrong}") from None
    if port is None or rest:
        raise OSError(f"{address}: expected ws://127.0.0.1:PORT and nothing else; PORT may be 0")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        near = ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = False
    if not near:
        raise OSError(
            f"{address}: only this machine can be listened on, such as ws://127.0.0.1:{port}; "
            "from another one, come through ssh -L"
        )
    return host, port


class _WebSocketClient(SocketClient):
    """One client. A ping asks it for a sign of life; silence, or a request that never ends, cuts it off."""

    def __init__(self, limits: Limits, connect: Connect, gone: Callable[[Connection], None]) -> None:
        super().__init__(limits, connect, gone)
        self._websocket = WebSocket(limits.frame_bytes)
        self._alive = True
        self._unsent = self._taken = self._written = 0
        self._said_last = False
        self._timer: asyncio.TimerHandle | None = None

    def _frames(self) -> WebSocket:
        return self._websocket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._after(self._limits.websocket_open_s, self._beat)

    def data_received(self, data: bytes) -> None:
        self._alive = True
        if self.connection is None or self._websocket.over:
            return
        frames = self._websocket.feed(data)
        self._say()
        self.connection.take(frames)

    def write(self, data: bytes) -> None:
        if not self._said_last:
            self._written += len(data)
            super().write(data)

    def eof_received(self) -> bool:
        return False  # without goodbye, which has a frame of its own

    def close(self) -> None:
        """Answers reach a client that still writes: a socket closed under its data would be reset."""
        self._websocket.close()
        self._say()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _say(self) -> None:
        """Send what the protocol has to say; behind its last word the client has a while to hang up."""
        data, last = self._websocket.output()
        if data:
            self.write(data)
        if last and self._transport is not None:
            self._said_last = True
            if not self._transport.is_closing():
                self._transport.write_eof()
            self._after(self._limits.websocket_close_s, self._cut)

    def _beat(self) -> None:
        """Ask for a sign of life. Who gave none since the last time is gone; where something waits for it,
        that is to take of it, for what we ask comes behind it.
        """
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        taken = self._written - unsent
        lives = taken > self._taken if self._unsent else self._alive or unsent > 0
        if not lives or not self._websocket.open:
            self._cut()
            return
        self._alive, self._unsent, self._taken = False, unsent, taken
        self._websocket.ping()
        self._say()
        self._after(self._limits.websocket_ping_s, self._beat)

    def _cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, action)
