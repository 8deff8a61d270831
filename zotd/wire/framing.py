"""Owns where one JSON value ends and the next begins, in bytes, for both framings we speak.

Two framings exist: one value per LF line, and the LSP base protocol (`Content-Length` headers).
`Framer` tells them apart from the first bytes of a connection. Damage becomes a value in the output
(`Oversize`, `BadFrame`), never an exception, and the frames after it are still read.
"""

# No postponed annotations here: NamedTuple would compile each of them again at import.
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

HEAD_BYTES = 512
"""How much of a dropped frame is kept: enough to quote it in a log and to find its `id`."""
HEADER_BLOCK_BYTES = 4096
"""All headers of one frame together; real ones take 60 bytes."""
INCREDIBLE_FRAMES = 64
"""A declared length beyond this many times the limit is damage, not a large frame: skipping it by count
would swallow everything the peer sends for minutes, so the next header is looked for instead."""

_PLAIN_HEADER = b"Content-Length: "
_PLAIN_END = b"\r\n\r\n"
_HEADER_START = b"content-"
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_RESYNC_OVERLAP = 256
"""Bytes kept while looking for the next header, so that one cut between two reads is still found."""


class Oversize(NamedTuple):
    """A frame longer than the limit was dropped. `limit` in bytes; `head` is how it began."""

    limit: int
    head: bytes

    @property
    def message(self) -> str:
        return f"frame larger than {self.limit} bytes was dropped"


class BadFrame(NamedTuple):
    """Headers that cannot be understood were dropped. `message` says why; `head` is how they began."""

    message: str
    head: bytes


Frame: TypeAlias = bytes | Oversize | BadFrame
Framing: TypeAlias = Literal["lines", "headers"]


class LineBuffer:
    """One value per LF line. A trailing CR is not part of the value; blank lines are no values.

    Only LF ends a line: U+2028 and U+2029 are data. `limit` is the longest line in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail = bytearray()
        self._dropping = False

    @property
    def between(self) -> bool:
        """Whether the next byte begins a line."""
        return not self._tail and not self._dropping

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that `data` completes. A line that passes the limit is reported once, at that moment."""
        head, newline, rest = data.partition(b"\n")
        out: list[bytes | Oversize] = []
        if not newline:
            self._grow(head, out)
            return out
        if self._dropping:
            self._dropping = False
        elif self._tail:
            self._tail += head
            self._line(bytes(self._tail), out)
            self._tail.clear()
        else:
            self._line(head, out)
        if rest:
            lines = rest.split(b"\n")
            last = lines.pop()
            for line in lines:
                self._line(line, out)
            if last:
                self._grow(last, out)
        return out

    def end(self) -> list[bytes | Oversize]:
        """At the end of the stream: an unfinished last line is a line."""
        out: list[bytes | Oversize] = []
        if not self._dropping:
            self._line(bytes(self._tail), out)
        self._tail.clear()
        self._dropping = False
        return out

    def _line(self, line: bytes, out: list[bytes | Oversize]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self._limit:
            out.append(Oversize(self._limit, line[:HEAD_BYTES]))
        elif line and not line.isspace():
            out.append(line)

    def _grow(self, piece: bytes, out: list[bytes | Oversize]) -> None:
        if self._dropping:
            return
        tail = self._tail
        tail += piece
        # One byte over the limit may still turn out to be the CR of a line that fits.
        if len(tail) > self._limit + 1 or (len(tail) > self._limit and not tail.endswith(b"\r")):
            out.append(Oversize(self._limit, bytes(tail[:HEAD_BYTES])))
            tail.clear()
            self._dropping = True


class HeaderBuffer:
    """The LSP base protocol: headers, a blank line, then exactly `Content-Length` bytes.

    Names are case-insensitive, a lone LF ends a header line too, other headers are ignored. After bad
    headers everything up to the next `Content-Length: N` line is skipped: a JSON string cannot hold a raw
    line end, so that text is never found inside a value.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._start = 0
        self._body: int | None = None
        self._skip = 0
        self._lost = False

    @property
    def between(self) -> bool:
        """Whether the next byte begins a frame's headers."""
        return self._body is None and not self._skip and not self._lost

    @property
    def skipping(self) -> bool:
        """Whether the next byte belongs to a frame that was too large."""
        return self._skip > 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes, and one value for each that was damaged or too large."""
        self.add(data)
        out: list[Frame] = []
        while (frame := self.take()) is not None:
            out.append(frame)
        return out

    def add(self, data: bytes) -> None:
        """Keep `data` for `take`."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data
        self._advance_skip()

    def take(self) -> Frame | None:
        """The next frame in what was added, or None when more bytes are needed."""
        if self._lost:
            self._advance_lost()
        if self._skip or self._lost:
            return None
        if self._body is None:
            damage = self._read_headers()
            if damage is not None:
                return damage
        if self._body is None or len(self._buffer) - self._start < self._body:
            return None
        start, stop = self._start, self._start + self._body
        self._start, self._body = stop, None
        if start == stop:
            return BadFrame("Content-Length is 0: a frame holds one JSON value", b"")
        with memoryview(self._buffer) as view:
            return bytes(view[start:stop])

    def rest(self) -> bytes:
        """Takes back every byte that is not part of a frame yet."""
        rest = bytes(self._buffer[self._start :])
        self._buffer.clear()
        self._start = 0
        return rest

    def end(self) -> list[Frame]:
        """At the end of the stream: a frame that was cut off is damage."""
        cut = bool(self._body or self._skip or self.rest().strip(_BLANK))
        bad = cut and not self._lost and not self._skip
        self._body, self._skip, self._lost = None, 0, False
        return [BadFrame("the stream ended inside a frame", b"")] if bad else []

    def _advance_skip(self) -> None:
        step = min(self._skip, len(self._buffer) - self._start)
        self._skip -= step
        self._start += step

    def _advance_lost(self) -> None:
        found = _find_header(self._buffer, self._start)
        if found is None:
            self._start = max(self._start, len(self._buffer) - _RESYNC_OVERLAP)
        else:
            self._start = found
            self._lost = False

    def _read_headers(self) -> Frame | None:
        """Sets `_body` when the headers are complete. Returns what is wrong with them, if anything."""
        buffer, start = self._buffer, self._start
        if buffer.startswith(_PLAIN_HEADER, start):
            digits = start + len(_PLAIN_HEADER)
            stop = buffer.find(_PLAIN_END, digits, digits + 20)
            if stop > 0 and buffer[digits:stop].isdigit():
                self._start = stop + len(_PLAIN_END)
                return self._declare(int(buffer[digits:stop]))
        return self._read_unusual_headers()

    def _read_unusual_headers(self) -> Frame | None:
        buffer = self._buffer
        while self._start < len(buffer) and buffer[self._start] in _BLANK:
            self._start += 1
        at, length = self._start, None
        while True:
            stop = buffer.find(b"\n", at)
            if max(stop, len(buffer) if stop < 0 else 0) - self._start > HEADER_BLOCK_BYTES:
                return self._lose(f"headers are longer than {HEADER_BLOCK_BYTES} bytes", self._start + 1)
            if stop < 0:
                return None
            line = bytes(buffer[at:stop]).strip(_BLANK)
            at = stop + 1
            if not line:
                break
            name, colon, value = line.partition(b":")
            if not colon:
                return self._lose("a header has no colon; expected `Content-Length: N`", at)
            if name.strip().lower() == b"content-length":
                value = value.strip()
                if not value.isdigit() or len(value) > 20:
                    return self._lose("Content-Length is not a number of bytes", at)
                length = int(value)
        if length is None:
            return self._lose("headers without Content-Length", at)
        self._start = at
        return self._declare(length)

    def _declare(self, length: int) -> Frame | None:
        if length <= self._limit:
            self._body = length
            return None
        if length > self._limit * INCREDIBLE_FRAMES:
            return self._lose(
                f"Content-Length {length} is beyond belief; the limit is {self._limit}", self._start
            )
        head = bytes(self._buffer[self._start : self._start + min(length, HEAD_BYTES)])
        self._skip = length
        self._advance_skip()
        return Oversize(self._limit, head)

    def _lose(self, message: str, resume: int) -> BadFrame:
        head = bytes(self._buffer[self._start : self._start + HEAD_BYTES])
        self._start = resume
        self._lost = True
        return BadFrame(message, head)


class Framer:
    """Tells the framing of a connection from its first bytes, then reads and writes in it.

    A frame that begins with `Content-` (any case) has headers; anything else is a line. Detection goes on,
    frame by frame, until the first one that is JSON, so that a bad start can be mended by the client.

    decides: whether a first JSON value ends detection; by default each does.
    """

    def __init__(self, limit: int, decides: Callable[[Any], bool] | None = None) -> None:
        self._decides = decides
        self._lines = LineBuffer(limit)
        self._headers = HeaderBuffer(limit)
        self._undecided = b""
        self._at = 0
        self._settled = False
        self.framing: Framing = "lines"

    def settle(self) -> None:
        """Ends detection in the framing of the last frame. `feed` does so itself at the first JSON value."""
        self._settled = True

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes, in order, with a value for each damaged or oversize one."""
        if not self._settled:
            return self._feed_undecided(data)
        if self._undecided:
            data = self._take_undecided() + data
        if self.framing == "lines":
            return [*self._lines.feed(data)]
        return self._headers.feed(data)

    def end(self) -> list[Frame]:
        """At the end of the stream: an unfinished last line is a frame, cut-off headers are damage."""
        left = self._take_undecided()
        self._settled = True
        if self.framing == "lines":
            return [*self._lines.feed(left), *self._lines.end()]
        return [*self._headers.feed(left), *self._headers.end()]

    def wrap(self, payload: bytes, framing: Framing | None = None) -> bytes:
        """One frame to send, in the framing the peer uses unless another is named."""
        if (framing or self.framing) == "lines":
            return payload + b"\n"
        return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)

    def _take_undecided(self) -> bytes:
        left = self._undecided[self._at :]
        self._undecided, self._at = b"", 0
        return left

    def _feed_undecided(self, data: bytes) -> list[Frame]:
        self._undecided = self._take_undecided() + data
        out: list[Frame] = []
        while (frame := self._next()) is not None:
            out.append(frame)
            if isinstance(frame, bytes) and self._is_decisive(frame):
                self.settle()
                return out + self.feed(b"")
        return out

    def _is_decisive(self, payload: bytes) -> bool:
        try:
            value = orjson.loads(payload)
        except orjson.JSONDecodeError:
            return False
        return self._decides is None or self._decides(value)

    @property
    def _between(self) -> bool:
        return self._lines.between and self._headers.between

    def _detect(self) -> bool:
        """Whether the framing of the next frame is known. Only asked where a frame begins."""
        data, at = self._undecided, self._at
        while at < len(data) and (data[at] in _BLANK or data.startswith(_BOM, at)):
            at += 1 if data[at] in _BLANK else len(_BOM)
        self._at = at
        start = data[at : at + len(_HEADER_START)].lower()
        if start == _HEADER_START:
            self.framing = "headers"
            return True
        if _HEADER_START.startswith(start) or _BOM.startswith(start):
            return False
        self.framing = "lines"
        return True

    def _next(self) -> Frame | None:
        """Goes on one frame, or one line, at a time: what follows may be in the other framing."""
        while not self._between or self._detect():
            if self.framing == "headers":
                skipping = self._headers.skipping
                self._headers.add(self._take_undecided())
                if not skipping or self._headers.skipping:
                    return self._next_headers()
                self._undecided = self._headers.rest()
                continue
            if self._at == len(self._undecided):
                return None
            stop = self._undecided.find(b"\n", self._at) + 1 or len(self._undecided)
            frames = self._lines.feed(self._undecided[self._at : stop])
            self._at = stop
            if frames:
                self._unread_header(frames[0])
                return frames[0]
        return None

    def _unread_header(self, line: Frame) -> None:
        """Junk without a line end may stand right before the first header; then that is where to go on."""
        found = _find_header(line + b"\n") if isinstance(line, bytes) and line[-1:].isdigit() else None
        if found is not None and isinstance(line, bytes):
            self._undecided = line[found:] + b"\n" + self._take_undecided()

    def _next_headers(self) -> Frame | None:
        frame = self._headers.take()
        if self._headers.between:
            self._undecided = self._headers.rest()
        return frame


def _find_header(data: bytes | bytearray, start: int = 0) -> int | None:
    """Where the next complete `Content-Length: N` line begins. The pattern is compiled when damage comes."""
    import re

    found = re.compile(rb"content-length[ \t]*:[ \t]*\d{1,20}[ \t]*\r?\n", re.IGNORECASE).search(data, start)
    return None if found is None else found.start()
