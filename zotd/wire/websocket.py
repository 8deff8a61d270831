"""Owns the server's end of a WebSocket, in bytes: handshake, frames, and what to do with too large ones.

`websockets` does the protocol; what is ours is who may come in, and that an oversize message is skipped
instead of ending the connection. Imported only when somebody listens for WebSockets.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import cast

import orjson
from websockets.frames import DATA_OPCODES, CloseCode
from websockets.frames import Frame as WireFrame
from websockets.http11 import Request
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol
from websockets.typing import Origin

from zotd.wire.framing import HEAD_BYTES, INCREDIBLE_FRAMES, Frame, Framing, LineBuffer, Oversize

HANDSHAKE_BYTES = 16_384
"""The whole HTTP request; browsers send 700 bytes, cookies of other local servers included a few thousand."""

_CONTROL = 0x08
"""The bit of a frame's first byte that close, ping and pong have."""

_LOOPBACK = r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?"
_HOST = re.compile(_LOOPBACK, re.IGNORECASE)
_ORIGINS: list[Origin | re.Pattern[str] | None] = [
    None,  # no browser
    re.compile(rf"https?://{_LOOPBACK}", re.IGNORECASE),
    re.compile(r"vscode-webview://.*", re.IGNORECASE),
]

logging.getLogger("websockets.server").disabled = True  # standard error is for people who run the daemon


class WebSocket:
    """One client. `limit` is the longest message in bytes, however it is cut into frames.

    A message is one JSON value, or several on lines of their own; text and binary count the same. No
    compression is agreed to, so that what is small on the wire is small in memory.
    """

    framing: Framing = "lines"

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # A frame declared longer than this is damage: nobody could skip it in a time that anybody waits.
        incredible = limit * INCREDIBLE_FRAMES
        self._protocol = ServerProtocol(origins=_ORIGINS, max_size=(None, incredible))
        self._gate = _Gate(limit, incredible)
        self._request = bytearray()
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def over(self) -> bool:
        """Whether the closing of this connection has begun, by either end."""
        return self._protocol.close_expected() or self._protocol.state is State.CLOSED

    @property
    def open(self) -> bool:
        """Whether the handshake succeeded and nobody closes yet."""
        return self._protocol.state is State.OPEN

    def feed(self, data: bytes) -> list[Frame]:
        """The JSON values that `data` completes. Take `output` after each call."""
        out: list[Frame] = []
        if self._protocol.state is State.CONNECTING:
            data = self._shake_hands(data)
        if self.open:
            for piece, dropped in self._gate.feed(data):
                if dropped and self._size <= self._limit:
                    self._pieces.append(dropped)
                    self._size = self._limit + 1
                self._protocol.receive_data(piece)
                self._take(out)
                if self.over:
                    break
        return out

    def end(self) -> list[Frame]:
        """At the end of the stream: half a message is none."""
        return []

    def settle(self) -> None:
        """There is nothing to find out about the framing."""

    def wrap(self, payload: bytes, framing: Framing | None = None) -> bytes:
        """One message to send: frames of a server have no mask, so that a header makes one."""
        size = len(payload)
        if size < 126:
            return b"\x81%c%b" % (size, payload)
        if size < 1 << 16:
            return b"\x81\x7e%b%b" % (size.to_bytes(2, "big"), payload)
        return b"\x81\x7f%b%b" % (size.to_bytes(8, "big"), payload)

    def output(self) -> tuple[bytes, bool]:
        """What the protocol itself has to say, and whether that is the last: then the sending end closes."""
        written = self._protocol.data_to_send()
        return b"".join(written), SEND_EOF in written

    def ping(self) -> None:
        """Ask for a sign of life."""
        self._protocol.send_ping(b"")

    def close(self) -> None:
        """Say goodbye; nothing that comes later counts."""
        if self._protocol.state is State.OPEN:
            self._protocol.fail(CloseCode.NORMAL_CLOSURE)

    def _shake_hands(self, data: bytes) -> bytes:
        """Answers the request once it is whole. Returns what came behind it."""
        self._request += data
        request, end, rest = bytes(self._request).partition(b"\r\n\r\n")
        if not end and len(request) <= HANDSHAKE_BYTES:
            return b""
        self._protocol.receive_data(request + end)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                host = event.headers.get_all("Host")
                if len(host) == 1 and _HOST.fullmatch(host[0]):
                    response = self._protocol.accept(event)
                else:  # a page whose name was made to point here would say its own
                    response = self._protocol.reject(403, "expected a Host that is this machine: 127.0.0.1\n")
                self._protocol.send_response(response)
        if self._protocol.state is State.CONNECTING and not self._protocol.eof_sent:
            response = self._protocol.reject(431, f"the request is longer than {HANDSHAKE_BYTES} bytes\n")
            self._protocol.send_response(response)
        self._request.clear()
        return rest

    def _take(self, out: list[Frame]) -> None:
        for event in self._protocol.events_received():
            frame = cast("WireFrame", event)
            if frame.opcode not in DATA_OPCODES:
                continue
            self._size += len(frame.data)
            if self._size <= self._limit:
                self._pieces.append(bytes(frame.data))
            elif self._pieces:
                self._pieces = [b"".join(self._pieces)[:HEAD_BYTES]]
            if frame.fin:
                message, size = b"".join(self._pieces), self._size
                self._pieces, self._size = [], 0
                if size > self._limit:
                    out.append(Oversize(self._limit, message[:HEAD_BYTES]))
                else:
                    out += _values(message, self._limit)


class _Gate:
    """Finds the frames in a stream, so that a payload which is too large never gets to the protocol.

    In its place comes an empty one: the frames of a message still follow each other as they should.
    """

    def __init__(self, limit: int, incredible: int) -> None:
        self._limit = limit
        self._incredible = incredible
        self._header = bytearray()
        self._passing = 0
        self._dropping = 0

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pieces to hand on, and with each what it stands for: nothing, or a note on a payload left out."""
        at = 0
        while at < len(data):
            if self._dropping:
                step = min(self._dropping, len(data) - at)
                self._dropping -= step
                at += step
            elif self._passing:
                piece = data[at : at + self._passing]
                self._passing -= len(piece)
                at += len(piece)
                yield piece, b""
            else:
                need = self._need()
                piece = data[at : at + need - len(self._header)]
                self._header += piece
                at += len(piece)
                if len(self._header) == self._need():
                    yield self._header_done()

    def _need(self) -> int:
        """Bytes of the header, as far as is known from those that are here."""
        if len(self._header) < 2:
            return 2
        second = self._header[1]
        return 2 + {126: 2, 127: 8}.get(second & 0x7F, 0) + (4 if second & 0x80 else 0)

    def _header_done(self) -> tuple[bytes, bytes]:
        header = bytes(self._header)
        self._header.clear()
        size, mask = header[1] & 0x7F, header[-4:] if header[1] & 0x80 else b""
        if size > 125:
            size = int.from_bytes(header[2 : len(header) - len(mask)], "big")
        if header[0] & _CONTROL and size > 125:
            # A fault of the client's, which the protocol would see behind the payload only: without the bit
            # that says it is whole, such a frame is as wrong at once.
            self._dropping = size
            return bytes((header[0] & 0x7F, header[1] & 0x80)) + mask, b""
        if not self._limit < size <= self._incredible:
            self._passing = size
            return header, b""
        self._dropping = size
        return bytes((header[0], header[1] & 0x80)) + mask, b"(%d bytes)" % size


def _values(message: bytes, limit: int) -> list[Frame]:
    """One JSON value, were it written over many lines, or one on each line."""
    if b"\n" in message:
        try:
            orjson.loads(message)
        except orjson.JSONDecodeError:
            lines = LineBuffer(limit)
            return [*lines.feed(message), *lines.end()]
    return [] if message.isspace() or not message else [message]
