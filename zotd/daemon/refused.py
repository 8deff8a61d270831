"""Owns the refusal of what a client asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zotd.base.files import MORE_DESCRIPTORS
from zotd.protocol.rpc_errors import ERROR_KINDS


class Refused(Exception):
    """An error answer. `kind` is a stable word that has a code, `hint` says what to do.

    A message about one of the params begins with the JSON path of it and a colon; that is its `path` then.
    then: what happens once the answer is on its way. paths: files it is about; data: what clients get of
    both kinds of path.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        hint: str = "",
        then: Callable[[], None] | None = None,
        paths: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.code = ERROR_KINDS[kind].code
        self.kind = kind
        self.hint = hint
        place, colon, _ = message.partition(": ")
        self.then = then
        self.path = place if colon and place.startswith("$") else ""
        self.data: dict[str, Any] = {
            **({"path": self.path} if self.path else {}),
            **({"paths": [*paths]} if paths else {}),
        }


def exhausted() -> Refused:
    """The answer where no file can be opened any more."""
    return Refused("zotd has no file descriptors left for this", kind="overloaded", hint=MORE_DESCRIPTORS)


def draining() -> Refused:
    """The answer of a daemon that finishes what it has."""
    hint = "connect again: the next daemon has your saved sessions"
    return Refused("this daemon ends and takes nothing new", kind="draining", hint=hint)
