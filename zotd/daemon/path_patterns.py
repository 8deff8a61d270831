"""Owns patterns of paths: `*` is anything inside one name, `**` any number of names. No I/O of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from zotd.daemon.shell_words import fits


class Surroundings(Protocol):
    """What a pattern is relative to, and how links are resolved."""

    @property
    def cwd(self) -> Path: ...
    @property
    def user_home(self) -> str: ...

    def real(self, path: str, /) -> str: ...


class PathPattern:
    """A path: absolute, from `~`, or relative to a session's folder. One that ends in `/` is all below it.

    Raises ValueError with what is expected.
    """

    __slots__ = ("_base", "_names")

    def __init__(self, text: str) -> None:
        if not text or "\0" in text:
            raise ValueError("expected a path")
        text += "**" if text.endswith("/") else ""
        self._base, rest = ("", text)
        if text.startswith("/"):
            self._base = "/"
        elif text.startswith("~/"):
            self._base, rest = "~", text[2:]
        elif text.startswith("~"):
            raise ValueError("expected a path that is absolute, relative or begins with ~/")
        self._names = [name for name in rest.split("/") if name not in ("", ".")]
        if ".." in self._names:
            raise ValueError("expected a path without ..")

    def is_at(self, real: str, around: Surroundings) -> bool:
        """Whether a path without links is one of the pattern's.

        Links in the pattern itself are not followed: whoever may write a folder could lead it anywhere.
        """
        return _matches(_names(around.real(self._start(around))) + self._names, _names(real))

    def may_mean(self, path: str, around: Surroundings) -> bool:
        """Whether a path can be one of the pattern's: as it is written, or with links in it followed."""
        start = self._start(around)
        fixed = next((at for at, name in enumerate(self._names) if "*" in name), len(self._names))
        led = around.real("/".join((start, *self._names[:fixed])))
        return any(
            _matches(pattern, _names(path))
            for pattern in (
                _names(start) + self._names,
                _names(around.real(start)) + self._names,
                _names(led) + self._names[fixed:],
            )
        )

    def _start(self, around: Surroundings) -> str:
        return {"": str(around.cwd), "~": around.user_home}.get(self._base, self._base)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _matches(pattern: list[str], names: list[str]) -> bool:
    """Whether names are those of a pattern, in time that grows with the product of both."""
    # Of the pattern so far: which beginnings of the names it can be.
    ends = [True, *(False for _ in names)]
    for part in pattern:
        if part == "**":
            first = ends.index(True) if True in ends else len(ends)
            ends = [at >= first for at in range(len(ends))]
        else:
            pieces = part.split("*")
            ends = [False, *(ends[at] and fits(pieces, name) for at, name in enumerate(names))]
    return ends[-1]
