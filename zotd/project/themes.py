"""Owns which themes there are: files of the user and of extensions, read and checked for front ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from zotd.base.files import BadFile, is_file, read_whole
from zotd.base.misfit import misfit
from zotd.protocol.theme import Palette, Theme

PLACES = ("theme.json", "themes/theme.json")
"""Where an extension keeps its theme; the first that is there counts."""

BACKGROUNDS = ("background", "user_bubble_bg")


@dataclass(frozen=True, slots=True)
class Located:
    """A good theme and where it was found. extension: whose it is, empty for the user's own."""

    name: str
    theme: Theme
    path: Path
    extension: str = ""


@dataclass(frozen=True, slots=True)
class Themes:
    """All that was found: usable ones in order, names unique, and what is wrong with the others."""

    found: tuple[Located, ...] = ()
    complaints: list[BadFile] = field(default_factory=list)


def find_themes(zot_home: Path, extensions: Sequence[tuple[str, Path]], size: int) -> Themes:
    """The user's themes by file name, then those of extensions, given as names and directories.

    The first of a name wins. A file has at most `size` bytes; a bad one becomes a complaint.
    """
    complaints: list[BadFile] = []
    found: dict[str, Located] = {}
    for path, extension in _candidates(zot_home / "themes", extensions, complaints):
        try:
            theme = read_theme(path, size)
        except BadFile as bad:
            complaints.append(bad)
            continue
        name = theme.name or extension or path.stem
        found.setdefault(name, Located(name, theme, path, extension))
    return Themes(tuple(found.values()), complaints)


def _candidates(
    place: Path, extensions: Sequence[tuple[str, Path]], complaints: list[BadFile]
) -> Iterator[tuple[Path, str]]:
    try:
        files = sorted(place.iterdir())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        files = []
    except OSError as error:
        files = []
        complaints.append(BadFile(place, f"cannot be listed: {error.strerror}"))
    for file in files:
        if file.suffix == ".json" and not file.name.startswith("."):
            yield file, ""
    for extension, directory in extensions:
        there = [directory / name for name in PLACES if is_file(directory / name)]
        if there:
            yield there[0], extension


def read_theme(path: Path, size: int) -> Theme:
    """The theme in a file. Raises BadFile naming the key and what was expected."""
    text = read_whole(path, size)
    if text is None:
        raise BadFile(path, "is not there any more")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadFile(path, f"expected JSON: {error}") from None
    try:
        return msgspec.convert(value, Theme)
    except msgspec.ValidationError as error:
        raise BadFile(path, _explained(error, value)) from None


def _explained(error: msgspec.ValidationError, value: Any) -> str:
    """`colors.dark.fg: expected ...` in the words of somebody who writes themes."""
    wrong = misfit(error, Theme)
    if not isinstance(value, dict):
        return "expected a JSON object"
    parts = wrong.key.split(".")
    if parts[0] == "syntax" and len(parts) == 2:
        return f'{wrong.key}: expected a style such as "#c678dd bold italic underline"'
    if any(part in BACKGROUNDS for part in parts):
        colors = '0 to 255, "#rrggbb", {"mode": "256" or "ansi", "index"} or {"mode": "rgb", "r", "g", "b"}'
        return f"{wrong.key}: expected a colour: {colors}"
    if parts[-1] in Palette.__struct_fields__:
        return f"{wrong.key}: expected a colour: a whole number from 0 to 255"
    return f"{wrong.key}: {wrong.fault}"
