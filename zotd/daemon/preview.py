"""Owns what a person is shown of a call before it runs: a diff, a command, or just the arguments."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from msgspec import convert

from zotd.agent.ports import ToolFailed
from zotd.base.files import open_regular
from zotd.base.limits import Limits
from zotd.daemon.permissions import SHELL, Subject
from zotd.protocol.session import Preview
from zotd.tools.changes import Changes
from zotd.tools.diff import apply
from zotd.tools.edit import EditArguments, plan
from zotd.tools.write import WriteArguments

_BOM = "\ufeff"
_ARGUMENTS = Preview(kind="args")


async def preview_of(
    subject: Subject, args: dict[str, Any], limits: Limits, changes: Changes | None = None
) -> Preview:
    """What a call would do. changes: knows which files the tools leave alone.

    Where that cannot be told, or is more than `Limits.preview_bytes`, the arguments have to do: then the tool
    itself says what is wrong.
    """
    most = limits.preview_bytes
    if subject.tool == SHELL and 0 < len(subject.text.encode("utf-8", "replace")) <= most:
        return Preview(kind="command", command=subject.text)
    if subject.real and subject.tool in _TEXTS:
        try:
            if changes is not None:
                changes.refuse_unsaved(Path(subject.real))
            return await asyncio.to_thread(_diff, subject, args, most)
        except (OSError, ValueError, ToolFailed):
            return _ARGUMENTS
    return _ARGUMENTS


def _diff(subject: Subject, args: dict[str, Any], most: int) -> Preview:
    """Raises OSError, ValueError and ToolFailed where that cannot be told."""
    path = Path(subject.real)
    old, new = _TEXTS[subject.tool](path, args, most)
    if "\0" in old or len(old.encode()) + len(new.encode()) > most:
        return _ARGUMENTS
    return Preview(kind="diff", path=subject.real, old_text=old, new_text=new)


def _written(path: Path, args: dict[str, Any], most: int) -> tuple[str, str]:
    new = convert(args, WriteArguments, strict=False).content
    try:
        return _text(path, most), new
    except FileNotFoundError:
        return "", new


def _edited(path: Path, args: dict[str, Any], most: int) -> tuple[str, str]:
    edits = convert(args, EditArguments, strict=False).edits
    if sum(len(edit.old_text) + len(edit.new_text) for edit in edits) > most:
        raise ValueError("more than anybody reads")
    old = _text(path, most)
    text = old.removeprefix(_BOM)
    bom = old[: len(old) - len(text)]
    return old, bom + apply(text, plan(path, text, edits))


def _text(path: Path, most: int) -> str:
    """Of a regular file, as it is. Raises OSError, and ValueError where it is too long or no UTF-8."""
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError("more than anybody reads")
    return data.decode()


_TEXTS = {"write": _written, "edit": _edited}
