"""Owns what a session file says once all its rows are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zotd.protocol.content import Message, ToolResult, Usage


@dataclass(slots=True)
class Saved:
    """A saved session. The id of the first of `messages` is `first_id`; the others follow without a gap.

    meta: the first row as it stands, fields we do not know included.
    provider, model, reasoning: those in use last; reasoning is empty for off, and for what was never said.
    used: tokens of the last request with its answer; 0 where none has held these messages.
    added_tools: deferred tools that were told about once.
    results: by call id, of the last message's calls that were answered before all of them were.
    replaced: rows that a summary, or nothing, stands for; of prompts with a key and what answered them only.
    skipped: lines that are no rows, from 1, with what is wrong with each.
    torn: bytes behind the last whole line, or their beginning; torn_size: how many there are.
    """

    path: Path | None
    meta: dict[str, Any]
    messages: list[Message] = field(default_factory=list)
    first_id: int = 1
    usage: Usage = field(default_factory=Usage)
    used: int = 0
    title: str = ""
    provider: str = ""
    model: str = ""
    reasoning: str = ""
    added_tools: list[str] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    replaced: list[Message] = field(default_factory=list)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    torn: bytes = b""
    torn_size: int = 0

    @property
    def session_id(self) -> str:
        return str(self.meta.get("id", ""))

    @property
    def cwd(self) -> Path:
        return Path(str(self.meta.get("cwd", "")))

    @property
    def started(self) -> str:
        return str(self.meta.get("started", ""))

    @property
    def last_id(self) -> int:
        """The id of the row that came last, whether it is still among them or was replaced."""
        return self.first_id + len(self.messages) - 1
