"""Owns how it is said that somebody else has a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal


class Shadow:
    """A name that an extension cannot have. `by`: the extension that has it, empty when it is built in.

    how: by what right that extension has it.
    """

    def __init__(
        self, kind: Literal["command", "tool"], name: str, by: str = "", how: str = "has it"
    ) -> None:
        self.kind = kind
        self.name = name
        self.by = by
        self._how = how

    def __str__(self) -> str:
        name = f"/{self.name}" if self.kind == "command" else self.name
        owner = f"extension {self.by} {self._how}" if self.by else "it is built in"
        return f"{self.kind} {name} is shadowed: {owner}"
