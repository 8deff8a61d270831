"""What is written down of a turn, and when: before anybody is told of it, or the turn fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from zotd.agent.loop import Loop, Model, Outcome
from zotd.agent.ports import Finish, ModelRequest, NotKept, ProviderEvent, ToolOutcome
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Transcript
from zotd.protocol.content import Block, Message, StopReason, Text, ToolCall, ToolResult, Usage
from zotd.protocol.events import (
    AssistantMessage,
    Event,
    TextDelta,
    ToolCalled,
    ToolResulted,
    ToolUseArgs,
    ToolUseEnd,
    ToolUseStart,
    UsageReport,
    UserMessage,
)

Step = list[ProviderEvent]


class Book:
    """A record. full: it takes nothing, as a disk does; what it could not write comes first once it can."""

    def __init__(self, full: Callable[[Book], bool] = lambda book: False) -> None:
        self.rows: list[Message | Usage | ToolResult | list[Message]] = []
        self.tried = 0
        self._full = full
        self._waiting: list[Any] = []

    def _put(self, row: Any) -> None:
        self.tried += 1
        self._waiting.append(row)
        if self._full(self):
            raise NotKept(Path("/disk/a.jsonl"), "No space left on device")
        self.rows += self._waiting
        self._waiting = []

    def message(self, message: Message) -> None:
        self._put(message)

    def result(self, result: ToolResult) -> None:
        self._put(result)

    def usage(self, usage: Usage, cumulative: Usage) -> None:
        self._put(cumulative)

    def compaction(self, messages: Sequence[Message], *, or_never: bool = False) -> None:
        self._put(list(messages))

    def blocks(self) -> list[Block]:
        messages = [row for row in self.rows if isinstance(row, Message)]
        return [block for message in messages for block in message.content]

    def has(self, event: Event) -> bool:
        """Whether what an event tells of could be read back."""
        match event:
            case UserMessage(content=content) | AssistantMessage(content=content):
                return all(block in self.blocks() for block in content)
            case ToolCalled():
                return ToolCall(event.id, event.name, event.args) in self.blocks()
            case ToolResulted():
                result = ToolResult(event.id, event.is_error, event.content)
                return result in self.rows or result in self.blocks()
            case UsageReport(cumulative=cumulative):
                return cumulative in self.rows
            case _:
                return True


class Reader:
    """A sink that reads the record back at each event."""

    full = False

    def __init__(self, book: Book) -> None:
        self._book = book
        self.events: list[Event] = []
        self.early: list[Event] = []

    def publish(self, event: Event) -> None:
        self.events.append(event)
        if not self._book.has(event):
            self.early.append(event)

    async def drained(self) -> None:
        """Nobody is behind."""

    def names(self) -> list[str]:
        return [str(event.__struct_config__.tag) for event in self.events]


class Script:
    id = "script"

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        for event in self._steps.pop(0):
            yield event

    async def close(self) -> None:
        """Nothing is held."""


class Clock:
    """A tool. The call `t9` of it waits for its abort."""

    name = "clock"
    description = "the time"

    def __init__(self) -> None:
        self.schema: dict[str, Any] = {"type": "object"}
        self.ran: list[str] = []

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        self.ran.append(call.id)
        if call.id == "t9":
            aborting = asyncio.current_task()
            assert aborting is not None
            aborting.cancel()
            await asyncio.Event().wait()
        return ToolOutcome([Text(f"noon for {call.id}")])


def says(text: str, *calls: str, stop: StopReason = "end_turn") -> Step:
    events: Step = [TextDelta(delta=text)]
    for name in calls:
        events += [ToolUseStart(id=name, name="clock"), ToolUseArgs(id=name, delta="{}"), ToolUseEnd(id=name)]
    return [*events, Finish("tool_use" if calls else stop, Usage(input=1, output=2))]


class Stage:
    def __init__(self, book: Book, *steps: Step) -> None:
        self.clock = Clock()
        self.reader = Reader(book)
        self.transcript = Transcript(lambda: "2026-11-30T00:00:00.000Z")
        self.transcript.record = book
        self._loop = Loop(self.transcript, Toolbox({"clock": self.clock}), self.reader, 10)
        self._model = Model(Script(*steps), "m")

    async def turn(self, turn_id: str = "turn", key: str = "") -> Outcome:
        return await self._loop.run(turn_id, [Text("go")], self._model, key=key)


async def test_whatever_is_told_was_written_down_before() -> None:
    book = Book()
    stage = Stage(book, says("one", "t1", "t2", "t3"), says("two"), says("three", "t4", "t9", "t5"))
    assert (await stage.turn(key="k")).stop == "end_turn"
    assert (await stage.turn("other")).stop == "aborted"
    assert stage.reader.early == []
    assert stage.reader.names().count("tool_result") == 6
    assert [row for row in book.rows if isinstance(row, Message)] == stage.transcript.messages
    first, second = stage.transcript.messages[:2]
    assert (first.meta, second.meta) == ({"turn_id": "turn", "key": "k"}, {"turn_id": "turn"})
    assert stage.transcript.messages[-1].meta == {"turn_id": "other"}


@pytest.mark.parametrize("refused", range(1, 8))
async def test_a_turn_that_cannot_be_written_down_fails_and_forgets_nothing(refused: int) -> None:
    """The disk is full at one write after the other: prompt, usage, message, results, row of results, ..."""
    book = Book(lambda book: book.tried >= refused and not mended)
    mended = False
    stage = Stage(book, says("one", "t1", "t2"), says("two"), says("three"))
    outcome = await stage.turn()
    assert (outcome.stop, outcome.kind) == ("error", "storage")
    assert outcome.error == "/disk/a.jsonl cannot be written: No space left on device"
    assert stage.reader.names()[-3:] == ["turn_end", "error", "done"]
    assert stage.reader.early == []
    mended = True
    before = len(stage.clock.ran)
    assert stage.clock.ran == ["t1", "t2"][:before]
    stage = _again(stage, says("last"))
    assert (await stage.turn("next")).stop == "end_turn"
    assert [row for row in book.rows if isinstance(row, Message)] == stage.transcript.messages
    assert _unanswered(stage.transcript.messages) == []


def _again(stage: Stage, *steps: Step) -> Stage:
    """The same conversation, with a model that says this."""
    stage._model = Model(Script(*steps), "m")
    return stage


def _unanswered(messages: list[Message]) -> list[str]:
    """Calls without exactly one result."""
    blocks = [block for message in messages for block in message.content]
    calls = [block.id for block in blocks if isinstance(block, ToolCall)]
    results = [block.call_id for block in blocks if isinstance(block, ToolResult)]
    return [name for name in calls if results.count(name) != 1]
