"""Owns what a prompt or command is between its acceptance and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

from zotd.agent.loop import Outcome
from zotd.base.limits import Limits
from zotd.extensions.host import CommandAnswer
from zotd.protocol.content import Block, Text


@dataclass(slots=True, eq=False)
class Turn:
    """A prompt that was accepted, or a command. `finished` gets its outcome, whatever happens.

    answered: for a command: what became of it, before the turn it may start.
    announced: whether clients were told that it waits.
    """

    id: str
    content: list[Block]
    client: str
    started: Callable[[], None] = field(repr=False)
    finished: asyncio.Future[Outcome] = field(repr=False)
    answered: asyncio.Future[CommandAnswer] = field(repr=False)
    may_run: bool = False
    announced: bool = False

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Text))


class QueueFull(Exception):
    """No further prompt can wait. The message is for a person."""


def check_room(waiting: Collection[Turn], turn: Turn, limits: Limits) -> None:
    """Raises QueueFull when a turn cannot wait beside those that do."""
    if len(waiting) >= limits.queued_turns:
        raise QueueFull(f"{len(waiting)} prompts wait already")
    if sum(len(each.text.encode("utf-8", "replace")) for each in (*waiting, turn)) > limits.queued_bytes:
        raise QueueFull(f"the prompts that wait would have more than {limits.queued_bytes:,} bytes together")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a prompt or command: `position` counts from 1 in the queue.

    Nothing happens before `begin` is called, so that an answer can leave ahead of the events.
    """

    turn_id: str
    state: Literal["started", "queued", "command"]
    begin: Callable[[], None] = field(repr=False)
    answered: asyncio.Future[CommandAnswer] = field(repr=False)
    position: int = 0
