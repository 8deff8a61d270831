"""Owns the one type that holds a key: it cannot be printed, logged or pickled by accident."""

from __future__ import annotations

from itertools import count
from typing import NoReturn
from weakref import WeakValueDictionary

_made: WeakValueDictionary[int, Secret] = WeakValueDictionary()
"""Those that exist, for whoever has to keep their text out of what is written down."""


_count = count(1)
_newest = 0


def standing() -> tuple[int, int]:
    """Another value whenever one was made or has gone."""
    return _newest, len(_made)


def known() -> list[str]:
    """The texts of all that exist in this process, in the order in which they were made."""
    # The references at once: the log asks in a thread of its own, while others are made.
    return [secret.reveal() for held in _made.valuerefs() if (secret := held()) is not None]


class Secret:
    """A key or token. Only `reveal()` gives the text; everything that formats it shows `***`."""

    __slots__ = ("__weakref__", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        global _newest  # noqa: PLW0603 - who masks them remembers for which ones it knows what to do
        _newest = next(_count)
        _made[id(self)] = self

    def reveal(self) -> str:
        """The text itself: for the header that carries it and nothing else."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is never pickled or copied")
