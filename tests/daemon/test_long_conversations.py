"""A turn costs the same however long the conversation is: nothing of ours reads the messages before it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from zotd.agent.ports import Finish, ModelRequest, ProviderEvent
from zotd.base.limits import Limits
from zotd.base.tasks import Independent
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.protocol.content import Message, Text, Usage
from zotd.protocol.events import TextDelta, ToolUseArgs, ToolUseEnd, ToolUseStart
from zotd.providers.registry import Providers

LONG = 5_000
A_FEW = 20


class Counted(list[Message]):
    """Messages that count how often one of them is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Message]:
        for message in super().__iter__():
            self.looks += 1
            yield message

    def __reversed__(self) -> Iterator[Message]:
        for message in super().__reversed__():
            self.looks += 1
            yield message

    def __getitem__(self, at: Any) -> Any:
        self.looks += len(range(*at.indices(len(self)))) if isinstance(at, slice) else 1
        return super().__getitem__(at)


class Caller:
    """A model that calls a tool, and then says that this is done; it reads nothing of what it is sent."""

    id = "caller"

    def __init__(self) -> None:
        self.lengths: list[int] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self.lengths.append(len(request.messages))
        if len(self.lengths) % 2:
            yield ToolUseStart(id=f"call_{len(self.lengths)}", name="read")
            yield ToolUseArgs(id=f"call_{len(self.lengths)}", delta='{"path": "small.txt"}')
            yield ToolUseEnd(id=f"call_{len(self.lengths)}")
            yield Finish("tool_use", Usage(input=1000, output=10))
        else:
            yield TextDelta(delta="done")
            yield Finish("end_turn", Usage(input=1000, output=10))

    async def close(self) -> None:
        return


async def turn(session: Session) -> None:
    accepted = await session.submit("go on")
    accepted.begin()
    assert (outcome := await session.wait(accepted.turn_id)) is not None
    assert (outcome.stop, outcome.text) == ("end_turn", "done")


async def test_a_turn_with_a_tool_reads_no_more_of_a_long_conversation_than_of_a_short_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "small.txt").write_text("one line\n")
    spec = SessionSpec(
        cwd=tmp_path, home=tmp_path / "zot", user_home=tmp_path, environ={}, provider="scripted"
    )
    limits = Limits()
    async with Independent() as tasks:
        house = Sessions(limits, tasks, Providers(limits))
        session = house.open(spec)
        model = Caller()
        session.model = replace(session.model, provider=model, window=1_000_000)
        looks = []
        for length in (0, LONG):
            rows = Counted(
                Message("user", [Text(f"row {at}")], "2026-11-30T03:43:15Z") for at in range(length)
            )
            session.transcript.messages = rows
            await turn(session)
            session.info()
            looks.append(rows.looks)
        assert model.lengths == [1, 3, LONG + 1, LONG + 3]
        assert looks[0] == looks[1] <= A_FEW
        await house.close_all()
