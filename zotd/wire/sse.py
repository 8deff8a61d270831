"""Owns server-sent events: bytes of a `text/event-stream` in, events out, as the WHATWG standard says."""

from __future__ import annotations

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event. `event` is `message` unless the stream named it; `data` is its lines joined by LF.

    id: the last id the stream gave, empty if none. retry: milliseconds, only on the event that carried it.
    """

    event: str
    data: str
    id: str
    retry: int | None


class SseTooLarge(Exception):
    """One event passed the limit. `events` are the complete ones before it; the stream cannot go on."""

    def __init__(self, limit: int, events: list[SseEvent]) -> None:
        super().__init__(f"an event of the stream is larger than {limit} bytes")
        self.events = events


class SseDecoder:
    """Cuts a stream into events. LF, CR and CRLF end lines; reads may be cut anywhere, in characters too.

    `limit` bounds one event in bytes. Bytes that are no UTF-8 become U+FFFD. An event that no blank line
    ended when the stream stops is dropped, as the standard demands.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._start: bytes | None = b""
        self._broken = False
        self._tail = bytearray()
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that `data` completes. Raises SseTooLarge, then and on every later call."""
        if self._broken:
            raise SseTooLarge(self._limit, [])
        if self._start is not None:
            data = self._without_bom(data)
        data = self._lf_only(data)
        lines = data.split(b"\n")
        last = lines.pop()
        if lines and self._tail:
            self._tail += lines[0]
            lines[0] = bytes(self._tail)
            self._tail.clear()
        self._tail += last
        return self._read(lines)

    def _without_bom(self, data: bytes) -> bytes:
        start = (self._start or b"") + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BOM)

    def _lf_only(self, data: bytes) -> bytes:
        """CR and CRLF as LF. A CR ends its line at once; an LF that follows in the next read is dropped."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _read(self, lines: list[bytes]) -> list[SseEvent]:
        out: list[SseEvent] = []
        for line in lines:
            if line.startswith(b"data: "):
                self._data.append(line[6:])
                self._size += len(line)
            elif not line:
                self._dispatch(out)
            else:
                self._field(line)
            if self._size > self._limit:
                break
        self._broken = self._size + len(self._tail) > self._limit
        if self._broken:
            raise SseTooLarge(self._limit, out)
        return out

    def _dispatch(self, out: list[SseEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            out.append(
                SseEvent(self._event or "message", data.decode("utf-8", "replace"), self._id, self._retry)
            )
            self._data.clear()
            self._retry = None
        self._size = 0
        self._event = ""

    def _field(self, line: bytes) -> None:
        """Any line but `data: …`, which is read inline for speed. A colon begins a comment."""
        self._size += len(line)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry = int(value)
