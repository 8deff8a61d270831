"""Owns the `skill` tool: instructions for a kind of task, read when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from zotd.agent.ports import ToolFailed, ToolOutcome
from zotd.protocol.content import Text
from zotd.tools.typed import TypedTool, printable


class Shelf(Protocol):
    """The skills of a session: names in order, and what one says."""

    def names(self) -> list[str]: ...
    def load(self, name: str) -> tuple[Path, str]:
        """The skill's directory and its instructions. Raises ValueError saying why it cannot be read."""
        ...


class SkillArguments(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="The skill's name, as the system prompt lists it")]


class SkillTool(TypedTool[SkillArguments]):
    """Hands a skill's instructions to the model."""

    name = "skill"
    description = "Load a skill: instructions for a kind of task. Do it before you begin such a task."
    arguments = SkillArguments

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def work(self, arguments: SkillArguments, progress: Callable[[str], None]) -> ToolOutcome:
        names = self._shelf.names()
        if arguments.name not in names:
            there = f"there are: {', '.join(names)}" if names else "there are none"
            raise ToolFailed(f"$.name: no skill is named {arguments.name!r}; {there}")
        try:
            directory, text = self._shelf.load(arguments.name)
        except ValueError as wrong:
            raise ToolFailed(str(wrong)) from wrong
        head = f"Skill {arguments.name}. Paths in it are relative to {directory}.\n\n"
        return ToolOutcome([Text(printable(head + text))])
