"""Owns what goes with a prompt: the editor's context as one text for the model, and pictures in files."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from zotd.base.files import BadFile, open_regular, read_bytes
from zotd.base.limits import Limits
from zotd.daemon.calls import Refused
from zotd.daemon.pictures import check_size, picture
from zotd.daemon.surroundings import absolute_path
from zotd.protocol.content import Image
from zotd.protocol.turn_methods import ContextItem, Position, PromptImage
from zotd.tools.read import BOM, TooFar, Window, picture_type, read_window
from zotd.tools.typed import printable, why_not

_NEEDED = {
    "file": ("path",),
    "range": ("path", "start", "end"),
    "diagnostic": ("path", "start", "message"),
    "text": ("text",),
}


class Attached(NamedTuple):
    """context: one text for the model, empty without any."""

    context: str
    images: list[Image]


def needs_disk(context: Sequence[ContextItem], images: Sequence[PromptImage]) -> bool:
    """Whether `attached` reads files."""
    return any(item.path is not None and item.text is None for item in context) or any(
        image.path is not None for image in images
    )


def attached(
    text: str, context: Sequence[ContextItem], images: Sequence[PromptImage], cwd: Path, limits: Limits
) -> Attached:
    """What goes with a prompt in a session that works in `cwd`. Raises Refused."""
    rendered = _rendered(context, cwd, limits)
    found: list[Image] = []
    for number, image in enumerate(images):
        found.append(_image(f"$.images[{number}]", image, limits))
        _check_size([text, rendered], found, limits)
    if not images:
        _check_size([text, rendered], found, limits)
    return Attached(rendered, found)


def checked_dirty(paths: Sequence[str]) -> tuple[str, ...]:
    """Paths of unsaved files. Raises Refused: one that is not understood would protect nothing."""
    return tuple(_dirty(f"$.dirty_files[{number}]", path) for number, path in enumerate(paths))


def _dirty(where: str, path: str) -> str:
    _check_path(where, path)
    if re.match(r"\w+://", path):
        raise _wrong(f"{where}: expected a path, got the address {path!r}")
    return str(absolute_path(path, where)) if path.startswith("~") else path


def checked_key(key: str, limits: Limits) -> str:
    """What a prompt is known by. Raises Refused."""
    if len(key) > limits.prompt_key_chars:
        raise _wrong(f"$.key: expected at most {limits.prompt_key_chars:,} characters, got {len(key):,}")
    return key


# Context


def _rendered(items: Sequence[ContextItem], cwd: Path, limits: Limits) -> str:
    if not items:
        return ""
    if len(items) > limits.context_items:
        raise _wrong(f"$.context: expected at most {limits.context_items} items, got {len(items)}")
    parts = ["Context from the user's editor:"]
    left = limits.context_bytes
    reader = _Reader(cwd, limits)
    for number, item in enumerate(items):
        where = f"$.context[{number}]"
        _check(where, item)
        part = printable(_part(where, item, reader))
        if (left := left - len(part.encode())) < 0:
            raise _wrong(
                f"{where}: expected at most {limits.context_bytes:,} bytes of context together; "
                "name files without their text, the model can read them"
            )
        parts.append(part)
    return "\n\n".join(parts)


def _check(where: str, item: ContextItem) -> None:
    for name in _NEEDED[item.type]:
        if getattr(item, name) is None:
            raise _wrong(f"{where}.{name}: is required for type {item.type!r} and missing")
    if item.path is not None:
        _check_path(f"{where}.path", item.path)
    for name, place in (("start", item.start), ("end", item.end)):
        if place is not None and min(place.line, place.character) < 0:
            raise _wrong(f"{where}.{name}: expected whole numbers from 0 on")
    if item.start is not None and item.end is not None and _order(item.end) < _order(item.start):
        raise _wrong(f"{where}.end: it lies before start")


def _check_path(where: str, path: str) -> None:
    if not path or "\0" in path:
        raise _wrong(f"{where}: expected a path, got {path!r}")


def _part(where: str, item: ContextItem, reader: _Reader) -> str:
    """A header that says what it is and where, from line 1, and its text between fences."""
    at = _one_line(item.path or "")
    if item.type == "text":
        return f"Text:\n{_fenced(item.text or '')}"
    if item.type == "file":
        if item.text is None:
            return f"File {at}"
        return f"File {at}, as it is in the editor:\n{_fenced(item.text)}"
    assert item.start is not None
    first, last = item.start.line + 1, _last_line(item)
    lines = f"{first}" if first == last else f"{first}-{last}"
    if item.type == "diagnostic":
        kind = _one_line(item.severity or "diagnostic")
        header = f"{kind[:1].upper()}{kind[1:]} at {at}:{lines}: {(item.message or '').strip()}"
        return header if item.text is None else f"{header}\n{_fenced(item.text)}"
    if item.text is None and item.start == item.end:
        return f"Cursor at {at}:{first}"
    text = item.text if item.text is not None else reader.range(where, item)
    return f"Lines {at}:{lines}:\n{_fenced(text)}"


def _last_line(item: ContextItem) -> int:
    """The last line that a range has a character of, from 1."""
    assert item.start is not None
    end = item.end or item.start
    return end.line if end.character == 0 and end.line > item.start.line else end.line + 1


class _Reader:
    """Reads the ranges of one prompt, as much of them as `read` shows at once, and not for ever."""

    def __init__(self, cwd: Path, limits: Limits) -> None:
        self._cwd = cwd
        self._limits = limits
        self._reach = limits.context_reach_bytes

    def range(self, where: str, item: ContextItem) -> str:
        """The characters of a range. Raises Refused."""
        assert item.path is not None
        assert item.start is not None
        assert item.end is not None
        path = self._cwd / item.path
        start, last = item.start, _last_line(item)
        wanted = last - start.line
        window = self._window(where, path, start.line, wanted)
        if not window.lines:
            raise _wrong(f"{where}.start: {path} has no line {start.line + 1}")
        data = window.data.removeprefix(BOM) if start.line == 0 else window.data
        lines = re.findall("[^\n]*\n|[^\n]+", data.decode("utf-8", "replace"))
        whole = window.lines == wanted and not window.cut_line
        if whole and item.end.line < last:
            lines[-1] = lines[-1][: _column(lines[-1], item.end.character)]
        lines[0] = lines[0][_column(lines[0], start.character) :]
        more = not whole and (window.total is None or start.line + window.lines < window.total)
        return "".join(lines) + ("\n[cut here: read the file for the rest]" if more else "")

    def _window(self, where: str, path: Path, line: int, wanted: int) -> Window:
        most = self._limits.context_reach_bytes
        shown = min(wanted, self._limits.read_lines)
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                try:
                    return read_window(file, line + 1, shown, self._limits.read_bytes, 0, self._reach)
                finally:
                    self._reach -= file.tell()
        except TooFar:
            raise _wrong(
                f"{where}.start: line {line + 1} of {path} lies behind the {most:,} bytes that are read for "
                "one prompt; send `text` as well"
            ) from None
        except OSError as error:
            raise _wrong(f"{where}.path: {why_not(path, error)}") from None


def _column(line: str, units: int) -> int:
    """The place of a character in a line, given in UTF-16 units; the line's end when it lies beyond that."""
    text = line.rstrip("\r\n")
    if text.isascii():
        return min(units, len(text))
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "ignore"))


def _order(place: Position) -> tuple[int, int]:
    return place.line, place.character


def _fenced(text: str) -> str:
    """The text between fences that are longer than any in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}\n{text}{end}{fence}"


def _one_line(text: str) -> str:
    return re.sub(r"[\r\n]", " ", text)


# Pictures


def _image(where: str, image: PromptImage, limits: Limits) -> Image:
    if (image.data is None) == (image.path is None):
        raise _wrong(f"{where}: expected one of data and path")
    if image.path is None:
        try:
            return picture(where, {"mime_type": image.mime_type, "data": image.data})
        except ValueError as wrong:
            raise _wrong(str(wrong)) from None
    path = absolute_path(image.path, f"{where}.path")
    try:
        data = read_bytes(path, limits.image_bytes)
    except BadFile as bad:
        raise _wrong(f"{where}.path: {printable(str(bad))}") from None
    if data is None:
        raise _wrong(f"{where}.path: {path} does not exist")
    if not (found := picture_type(data)):
        raise _wrong(f"{where}.path: {path} is no picture that models take: png, jpeg, gif or webp")
    return Image(mime_type=found, data=b64encode(data).decode())


def _check_size(texts: Sequence[str], images: Sequence[Image], limits: Limits) -> None:
    try:
        check_size(texts, images, limits)
    except ValueError as wrong:
        raise _wrong(f"$: {wrong}") from None


def _wrong(message: str) -> Refused:
    return Refused(message, kind="invalid_params")
