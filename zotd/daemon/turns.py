"""Owns what a prompt or command is between its acceptance and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zotd.agent.loop import Outcome
from zotd.base.limits import Limits
from zotd.extensions.host import CommandAnswer
from zotd.protocol.content import Block, Text
from zotd.protocol.session import QueuedTurn

State: TypeAlias = Literal["started", "queued", "steered", "command"]


@dataclass(slots=True, eq=False)
class Turn:
    """A prompt that was accepted, or a command. `finished` gets its outcome, whatever happens.

    answered: for a command: what became of it, before the turn it may start.
    key: the client's own name for it, "" without one.
    compact: set for one that summarises the conversation instead: what the summary should look after.
    steer: whether it waits for the next model call of the turn that runs.
    announced: whether clients were told that it waits.
    """

    id: str
    content: list[Block]
    client: str
    started: Callable[[], None] = field(repr=False)
    finished: asyncio.Future[Outcome] = field(repr=False)
    answered: asyncio.Future[CommandAnswer] = field(repr=False)
    key: str = ""
    dirty_files: tuple[str, ...] = ()
    compact: str | None = None
    may_run: bool = False
    steer: bool = False
    announced: bool = False

    @property
    def text(self) -> str:
        """What was typed: context that came with it is no part of that."""
        first = self.content[0] if self.content else None
        return first.text if isinstance(first, Text) else ""

    @property
    def size(self) -> int:
        """Bytes of its text, with context."""
        return sum(
            len(block.text.encode("utf-8", "replace")) for block in self.content if isinstance(block, Text)
        )

    def row(self) -> QueuedTurn:
        """The turn as clients see it while it waits."""
        return QueuedTurn(turn_id=self.id, text=self.text, client=self.client, steer=self.steer)


class QueueFull(Exception):
    """No further prompt can wait. The message is for a person."""


def check_room(waiting: Collection[Turn], turn: Turn, limits: Limits) -> None:
    """Raises QueueFull when a turn cannot wait beside those that do."""
    if len(waiting) >= limits.queued_turns:
        raise QueueFull(f"{len(waiting)} prompts wait already")
    if sum(each.size for each in (*waiting, turn)) > limits.queued_bytes:
        raise QueueFull(f"the prompts that wait would have more than {limits.queued_bytes:,} bytes together")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a prompt or command: `position` counts from 1 in the queue.

    Nothing happens before `begin` is called, so that an answer can leave ahead of the events.
    """

    turn_id: str
    state: State
    begin: Callable[[], None] = field(repr=False)
    answered: asyncio.Future[CommandAnswer] = field(repr=False)
    position: int = 0
