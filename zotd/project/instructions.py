"""Owns what a project tells every agent: `AGENTS.md` and `CLAUDE.md`, and the user's own `SYSTEM.md`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from zotd.base.files import BadFile, read_start, read_whole

NAMES = ("AGENTS.md", "CLAUDE.md")
SYSTEM = "SYSTEM.md"


class Instructions(Struct, frozen=True):
    """Texts by their absolute path, outermost first, and what is wrong with the others."""

    texts: dict[Path, str] = field(default_factory=dict)
    complaints: list[BadFile] = field(default_factory=list)


def find_instructions(cwd: Path, user_home: Path, size: int) -> Instructions:
    """The instructions for work in `cwd`: one file of each directory, `AGENTS.md` if it is there.

    From `cwd` up to the root of its repository; where it is in none, to the user's home or the top. All
    together have `size` bytes; the nearest get theirs first.
    """
    nearest: dict[Path, str] = {}
    complaints: list[BadFile] = []
    left = size
    for directory in _upward(cwd, user_home):
        try:
            if (taken := _of(directory, cwd, left)) is None:
                continue
        except BadFile as bad:
            complaints.append(bad)
            continue
        path, text, there = taken
        used = len(text.encode())
        if there > left:
            complaints.append(
                BadFile(
                    path, f"has {there} bytes, of which {used} are used: instructions get {size} together"
                )
            )
        left = max(0, left - used)
        if text.strip():
            nearest[path] = text.strip("\n")
    return Instructions(dict(reversed(nearest.items())), complaints)


def _upward(cwd: Path, user_home: Path) -> Iterator[Path]:
    for directory in (cwd, *cwd.parents):
        yield directory
        if directory == user_home or os.path.lexists(directory / ".git"):
            return


def _of(directory: Path, cwd: Path, left: int) -> tuple[Path, str, int] | None:
    """The file of a directory, its text within `left` bytes, and its size; None when it has none."""
    for name in NAMES:
        path = directory / name
        if not os.path.lexists(path):
            continue
        if directory != cwd and not _ours(path, cwd):
            raise BadFile(path, "was not read: it belongs to another user")
        if (start := read_start(path, left)) is not None:
            text, there = start
            if there > left:  # half a line, or half a character, could say something else
                text = text[: text.rfind("\n") + 1]
            return path, text, there
    return None


def _ours(path: Path, cwd: Path) -> bool:
    """Anybody may write to a directory such as /tmp; only the user may tell the user's agent what to do."""
    try:
        return path.stat().st_uid in (0, os.geteuid(), cwd.stat().st_uid)
    except OSError:
        return True  # reading it says what is wrong


def read_system(zot_home: Path, size: int) -> str:
    """The user's own system prompt, empty when there is none. Raises BadFile."""
    return (read_whole(zot_home / SYSTEM, size) or "").strip()
