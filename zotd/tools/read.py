"""Owns the `read` tool: a window of a text file, or a picture."""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import maxsize
from typing import Annotated, BinaryIO

from msgspec import Meta, Struct

from zotd.agent.ports import ToolFailed, ToolOutcome
from zotd.base.files import open_regular
from zotd.base.limits import Limits
from zotd.protocol.content import Image, Text
from zotd.tools.typed import FileTool, quoted, size_of

_HEAD_BYTES = 8192
_CHUNK = 1 << 20
_TEXT_CONTROLS = b"\b\t\n\f\r\x1b"
_BINARY_SHARE = 0.1  # of control characters in the head: no text in any 8-bit encoding has so many
BOM = b"\xef\xbb\xbf"


class ReadArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="File to read: absolute, from ~, or relative to the working directory")
    ]
    offset: Annotated[int, Meta(ge=1, description="First line to read, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines to read")] | None = None


class ReadTool(FileTool[ReadArguments]):
    """Reads a file for the model."""

    name = "read"
    description = (
        "Read a text file, or look at a picture (png, jpeg, gif, webp). Long files come in parts: "
        "the answer says which lines it shows and how to go on with offset."
    )
    arguments = ReadArguments

    def __init__(self, cwd: Path, env: Mapping[str, str], limits: Limits) -> None:
        super().__init__(cwd, env.get("HOME", ""), limits.off_loop_bytes)
        self._limits = limits

    async def work(self, arguments: ReadArguments, progress: Callable[[str], None]) -> ToolOutcome:
        path = self.locate(arguments.path)
        return await self.on_file(path, size_of(path), _read, path, arguments, self._limits)


def _read(path: Path, arguments: ReadArguments, limits: Limits) -> ToolOutcome:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed(f"{path} is a directory; list it with bash: ls -la {quoted(path)}")
    if not stat.S_ISREG(status.st_mode):  # opening a pipe that nobody writes to would wait for ever
        raise ToolFailed(f"{path} is not a regular file; use bash for devices and pipes")
    with os.fdopen(open_regular(path), "rb") as file:
        head = file.read(_HEAD_BYTES)
        if mime_type := picture_type(head):
            return _picture(path, file, head, mime_type, status.st_size, limits)
        if is_binary(head):
            raise ToolFailed(
                f"{path} is a binary file ({status.st_size} bytes); "
                f"use bash, such as: xxd {quoted(path)} | head"
            )
        file.seek(0)
        lines = min(arguments.limit or limits.read_lines, limits.read_lines)
        sizes = limits.read_bytes, limits.read_count_bytes, limits.read_reach_bytes
        try:
            window = read_window(file, arguments.offset, lines, *sizes)
        except TooFar:
            raise ToolFailed(
                f"$.offset: {path} has no line {arguments.offset} in its first {limits.read_reach_bytes} "
                f"bytes; use bash: sed -n {arguments.offset}p {quoted(path)}"
            ) from None
    return ToolOutcome([Text(_shown(path, arguments.offset, window))])


def picture_type(head: bytes) -> str:
    """The MIME type of a picture that models take, by its first bytes; "" for anything else."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are no text in any encoding that extends ASCII."""
    if b"\0" in head:
        return True
    controls = sum(head.count(bytes([code])) for code in range(32) if code not in _TEXT_CONTROLS)
    return controls > len(head) * _BINARY_SHARE


def _picture(
    path: Path, file: BinaryIO, head: bytes, mime_type: str, size: int, limits: Limits
) -> ToolOutcome:
    if size > limits.image_bytes:
        raise ToolFailed(
            f"{path} is a picture of {size} bytes; at most {limits.image_bytes} can be shown: "
            "make a smaller copy with bash"
        )
    data = head
    while len(data) <= limits.image_bytes and (more := file.read(_CHUNK)):
        data += more
    caption = Text(f"{path} ({mime_type}, {len(data)} bytes)")
    return ToolOutcome([caption, Image(mime_type, b64encode(data).decode())])


class TooFar(Exception):
    """A line lies further into its file than is looked for it."""


@dataclass(frozen=True, slots=True)
class Window:
    """Some lines of a file.

    data: their bytes. lines: how many they are. total: lines of the file, None when it is too large to count.
    cut_line: bytes of the only line shown, when that line alone was too long and is shown in part; else 0.
    """

    data: bytes
    lines: int
    total: int | None
    cut_line: int = 0


def read_window(
    file: BinaryIO, offset: int, lines: int, size: int, count_size: int, reach: int = maxsize
) -> Window:
    """At most `lines` whole lines and `size` bytes from line `offset` (from 1) on.

    The rest of the file is counted as long as the file has at most `count_size` bytes. Raises TooFar for a
    line that is not in the first `reach` bytes.
    """
    newlines, last, kept = _skip_lines(file, offset - 1, reach)
    while len(kept) <= size and (chunk := file.read(_CHUNK)):
        kept += chunk
    data, shown, cut_line = _cut(kept, lines, size)
    if len(kept) > size and os.fstat(file.fileno()).st_size > count_size:
        return Window(data, shown, None, cut_line)
    newlines += kept.count(b"\n")
    last = kept[-1:] or last
    while chunk := file.read(_CHUNK):
        if (count_size := count_size - len(chunk)) < 0:  # some files have more in them than they say
            return Window(data, shown, None, cut_line)
        newlines += chunk.count(b"\n")
        last = chunk[-1:]
    return Window(data, shown, newlines + (last not in (b"", b"\n")), cut_line)


def _skip_lines(file: BinaryIO, count: int, reach: int) -> tuple[int, bytes, bytes]:
    """Newlines passed, the last byte passed, and what was read beyond them. Raises TooFar."""
    passed, last = 0, b""
    while passed < count and (chunk := file.read(_CHUNK)):
        if (reach := reach - len(chunk)) < 0:
            raise TooFar
        newlines = chunk.count(b"\n")
        if passed + newlines >= count:
            at = 0
            for _ in range(count - passed):
                at = chunk.index(b"\n", at) + 1
            return count, b"\n", chunk[at:]
        passed += newlines
        last = chunk[-1:]
    return passed, last, b""


def _cut(kept: bytes, lines: int, size: int) -> tuple[bytes, int, int]:
    """The whole lines of `kept` that fit, how many they are, and the size of a first line cut short, or 0."""
    end = shown = 0
    while shown < lines and end < len(kept):
        stop = kept.find(b"\n", end) + 1 or len(kept)
        if stop > size:
            break
        end = stop
        shown += 1
    if kept and not shown:
        return kept[:size], 1, size
    return kept[:end], shown, 0


def _shown(path: Path, offset: int, window: Window) -> str:
    if window.total == 0:
        return f"[{path} is empty]"
    if not window.lines:
        raise ToolFailed(f"$.offset: {offset} is past the end of {path}, which has {window.total} lines")
    text = window.data.removeprefix(BOM if offset == 1 else b"").decode("utf-8", "replace")
    last = offset + window.lines - 1
    if window.cut_line:
        text += (
            f"\n\n[line {last} is too long: its first {window.cut_line} bytes are shown; for more use bash: "
        )
        text += f"sed -n {last}p {quoted(path)} | cut -b {window.cut_line + 1}-]"
    if window.total is None or last < window.total:
        of = "" if window.total is None else f" of {window.total}"
        text = (
            text.removesuffix("\n") + f"\n\n[lines {offset}-{last}{of} shown; go on with offset={last + 1}]"
        )
    return text
