"""Owns what becomes of a command's output: shown as it comes, its tail for the model, all of it in a file."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from zotd.base.limits import Limits


class Live:
    """Hands text on in pieces, gathered for `Limits.progress_s` seconds; characters are never cut."""

    def __init__(self, progress: Callable[[str], None], limits: Limits) -> None:
        self._progress = progress
        self._limits = limits
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._gathered: list[str] = []
        self._size = 0
        self._skipped = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of output, cut anywhere."""
        self._take(self._decode(data))
        if self._gathered and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limits.progress_s, self._hand_on)

    def end(self) -> None:
        """Hand on what is left, half a character at the end included."""
        self._take(self._decode(b"", True))
        self.cancel()
        self._hand_on()

    def cancel(self) -> None:
        """Hand on nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self, text: str) -> None:
        if not text:
            return
        self._gathered.append(text)
        self._size += len(text)
        # A flood is shown in part: nobody reads megabytes a second, and clients would fall behind.
        while len(self._gathered) > 1 and self._size - len(self._gathered[0]) >= self._limits.read_bytes:
            dropped = self._gathered.pop(0)
            self._size -= len(dropped)
            self._skipped += len(dropped)

    def _hand_on(self) -> None:
        self._timer = None
        text = "".join(self._gathered)
        if self._skipped:
            text = f"[… {self._skipped} characters not shown …]\n{text}"
        self._gathered.clear()
        self._size = self._skipped = 0
        if text:
            self._progress(text)


class Kept:
    """Keeps the tail of output, and all of it in a file once it is more than a model is shown."""

    def __init__(self, limits: Limits, folder: str | None) -> None:
        self._limits = limits
        self._folder = folder
        self._tail = bytearray()
        self._size = 0
        self._lines = 0
        self._file: BinaryIO | None = None
        self._path = ""
        self._fault = ""

    @property
    def size(self) -> int:
        """Bytes of output so far."""
        return self._size

    def feed(self, data: bytes) -> None:
        """Take the next bytes of output."""
        self._size += len(data)
        self._lines += data.count(b"\n")
        self._tail += data
        if self._size > self._limits.read_bytes:
            self._store(data)
            if len(self._tail) > 4 * self._limits.read_bytes:
                del self._tail[: -2 * self._limits.read_bytes]

    def end(self) -> str:
        """The text for the model: everything, or a sentence that names the file, and the tail."""
        lines = self._lines + (self._size > 0 and not self._tail.endswith(b"\n"))
        if self._size <= self._limits.read_bytes and lines <= self._limits.read_lines:
            return self._tail.decode("utf-8", "replace")
        self._store(b"")
        self.close()
        tail, shown = _last_lines(bytes(self._tail), self._limits.read_lines, self._limits.read_bytes)
        what = (
            f"the last {shown} of {lines} lines"
            if shown
            else f"the end of a line, {len(tail)} of {self._size} bytes"
        )
        where = self._fault or f"complete output: {self._path}"
        return f"[{what}; {where}]\n{tail.decode('utf-8', 'replace')}"

    def close(self) -> None:
        """Close the file, which stays for the model to read."""
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError as error:  # the disk was full when the last bytes were written
            self._lost(error)

    def _store(self, data: bytes) -> None:
        if self._fault:
            return
        try:
            if self._file is None:
                self._file = self._begin()
            else:
                self._file.write(data)
        except OSError as error:
            self._lost(error)
            self.close()

    def _lost(self, error: OSError) -> None:
        self._fault = f"the complete output could not be kept: {error}"

    def _begin(self) -> BinaryIO:
        # Only long output pays for this import.
        from tempfile import mkstemp

        folder = self._folder if self._folder and Path(self._folder).is_dir() else None
        fd, self._path = mkstemp(prefix="zotd-bash-", suffix=".log", dir=folder)
        file = os.fdopen(fd, "wb")
        file.write(self._tail)
        return file


def _last_lines(data: bytes, lines: int, size: int) -> tuple[bytes, int]:
    """The last whole lines that fit and their count; the last `size` bytes and 0 when one line fills all."""
    end = len(data) - data.endswith(b"\n")
    start, shown = len(data), 0
    while shown < lines and start > 0:
        at = data.rfind(b"\n", 0, end) + 1
        if len(data) - at > size:
            break
        start, end = at, at - 1
        shown += 1
    if shown:
        return data[start:], shown
    tail = data[-size:]
    # Not in the middle of a character: at most three bytes continue one.
    return tail[next((index for index in range(min(4, len(tail))) if tail[index] & 0xC0 != 0x80), 0) :], 0
