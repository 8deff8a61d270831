"""Owns the `edit` tool: exact replacements in one file, all of them or none."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from zotd.agent.ports import ToolFailed, ToolOutcome
from zotd.base.limits import Limits
from zotd.protocol.content import Text
from zotd.tools.changes import Changes
from zotd.tools.diff import Change, apply, unified
from zotd.tools.typed import FileTool, printable, size_of

_BOM = "\ufeff"
_LINES_NAMED = 5  # of places that match: enough to see which one was meant


class Edit(Struct, frozen=True, kw_only=True, rename="camel"):
    old_text: Annotated[
        str, Meta(description="Text to replace, exactly as it is in the file, and there only once")
    ]
    new_text: Annotated[str, Meta(description="Text to put in its place")]


class EditArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="File to edit: absolute, from ~, or relative to the working directory")
    ]
    edits: Annotated[
        list[Edit],
        Meta(
            min_length=1,
            description="Replacements, each matched against the file as it is now; they must not overlap",
        ),
    ]


class EditTool(FileTool[EditArguments]):
    """Changes parts of a file for the model."""

    name = "edit"
    description = (
        "Replace exact pieces of a text file. Every oldText must be in the file exactly once; "
        "all edits are made or none is. Line endings of the file are kept."
    )
    arguments = EditArguments

    def __init__(self, cwd: Path, env: Mapping[str, str], limits: Limits, changes: Changes) -> None:
        super().__init__(cwd, env.get("HOME", ""), limits.off_loop_bytes)
        self._changes = changes

    async def work(self, arguments: EditArguments, progress: Callable[[str], None]) -> ToolOutcome:
        path = self.locate(arguments.path)
        self._changes.refuse_unsaved(path)
        turn = self._changes.turn
        size = size_of(path)
        try:
            done = await self.on_file(path, size, _edited, path, arguments.edits)
        except Missed as missed:
            from zotd.tools.nearest import nearest

            # Looking for what was meant compares many lines: too long for the loop even in small files.
            near = await asyncio.to_thread(nearest, missed.text, missed.old)
            raise ToolFailed(f"{missed}\n{printable(near)}") from None
        weight = self._changes.weight(path, done.data)
        await self.on_file(path, weight, self._changes.replace, turn, path, done.data)
        count = len(arguments.edits)
        places = "place" if count == 1 else "places"
        return ToolOutcome([Text(f"edited {path} in {count} {places}")], details={"diff": done.diff})


class Missed(ToolFailed):
    """An `oldText` is not in the file. text: of the file. old: what was looked for."""

    def __init__(self, message: str, text: str, old: str) -> None:
        super().__init__(message)
        self.text = text
        self.old = old


@dataclass(frozen=True, slots=True)
class _Edited:
    data: bytes
    diff: str


def _edited(path: Path, edits: Sequence[Edit]) -> _Edited:
    data = _file_bytes(path)
    # Bytes that are no UTF-8 go through unharmed as lone surrogates.
    text = data.decode("utf-8", "surrogateescape")
    bom = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    changes = plan(path, text, edits)
    try:
        new = (bom + apply(text, changes)).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolFailed("$.edits: a newText is no text: it holds half a surrogate pair") from error
    diff = unified(path.name, text, changes)
    return _Edited(new, printable(diff))


def _file_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise ToolFailed(f"{path} is a directory; name a file inside it")
    if path.exists() and not path.is_file():
        raise ToolFailed(f"{path} is not a regular file; use bash for devices and pipes")
    data = path.read_bytes()
    if b"\0" in data:
        raise ToolFailed(f"{path} is a binary file; edit changes text only")
    return data


def plan(path: Path, text: str, edits: Sequence[Edit]) -> list[Change]:
    """Where each of `edits` applies in `text`, in the order of the text.

    Line endings are matched by meaning: `\\n` finds `\\r\\n` and is written as the file writes it.
    Raises Missed, ToolFailed: an oldText is empty, missing, there more than once, or overlaps another.
    """
    plain = text.replace("\r\n", "\n")
    crlf = _crlf_places(text)
    ending = "\r\n" if len(crlf) * 2 > plain.count("\n") else "\n"
    changes: list[tuple[Change, int]] = []
    for number, edit in enumerate(edits):
        old = edit.old_text.replace("\r\n", "\n")
        at = _only_place(path, plain, old, number)
        new = edit.new_text.replace("\r\n", "\n")
        if old == new:
            raise ToolFailed(f"$.edits[{number}]: oldText and newText are the same; nothing to change")
        start, end = _in_file(crlf, at), _in_file(crlf, at + len(old))
        changes.append((Change(start, end, new.replace("\n", ending)), number))
    changes.sort(key=lambda pair: pair[0].start)
    for (before, one), (after, other) in pairwise(changes):
        if after.start < before.end:
            first, second = sorted((one, other))
            raise ToolFailed(f"$.edits[{second}]: it overlaps edit {first}; make one edit of them")
    return [change for change, _ in changes]


def _crlf_places(text: str) -> list[int]:
    """Where in the text with `\\n` only the newlines are that the file writes as `\\r\\n`."""
    places: list[int] = []
    at = text.find("\r\n")
    while at >= 0:
        places.append(at - len(places))
        at = text.find("\r\n", at + 2)
    return places


def _in_file(crlf: list[int], at: int) -> int:
    """The place in the file's text of place `at` in the text with `\\n` only."""
    return at + bisect_left(crlf, at)


def _only_place(path: Path, plain: str, old: str, number: int) -> int:
    where = f"$.edits[{number}].oldText"
    if not old:
        raise ToolFailed(f"{where}: it is empty; give the text to replace, or use write for a whole file")
    at = plain.find(old)
    if at < 0:
        raise Missed(f"{where}: it is not in {path}; nothing was changed", plain, old)
    if plain.find(old, at + 1) < 0:
        return at
    lines: list[str] = []
    count = 0
    while at >= 0:
        count += 1
        if count <= _LINES_NAMED:
            lines.append(str(plain.count("\n", 0, at) + 1))
        at = plain.find(old, at + 1)
    more = ", …" if count > _LINES_NAMED else ""
    raise ToolFailed(
        f"{where}: it is in {path} {count} times (lines {', '.join(lines)}{more}); "
        f"add lines around it until it is there once; nothing was changed"
    )
