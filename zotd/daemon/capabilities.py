"""Owns what clients can say that they show or do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAMES = frozenset({"approvals", "panels", "insert", "submit", "dirty_files"})


def declared(said: Mapping[str, object] | Iterable[object]) -> frozenset[str]:
    """The capabilities in an object of booleans, or in a list of names. Names nobody knows are ignored."""
    names = (name for name, can in said.items() if can is True) if isinstance(said, Mapping) else said
    return frozenset(name for name in names if isinstance(name, str) and name in NAMES)
