"""The rules of a client that is behind: decisions are heard at once, the rest in order and bounded."""

from __future__ import annotations

import asyncio

from tests.extensions.conftest import Stage, run
from tests.extensions.test_rules_interception import Judge
from tests.peers import Frame, Peer
from tests.virtual import VirtualLoop, later
from zotd.agent.ports import Refused
from zotd.protocol.content import ToolCall
from zotd.protocol.events import ExtNotify, ExtState

CALL = ToolCall("c1", "dig", {})
COMMAND: Frame = {"type": "register_command", "name": "go"}


class Talks(Judge):
    """Says notes, and then decides; runs a command in between."""

    def asked(self, frame: Frame) -> None:
        self.say(type="notify", message="thinking")
        asyncio.get_running_loop().call_later(1, super().asked, frame)

    def invoked(self, frame: Frame) -> None:
        self.say(type="notify", message="before")
        super().invoked(frame)
        self.say(type="notify", message="after")


def notes(stage: Stage) -> list[str]:
    return [note.message for note in stage.seen(ExtNotify)]


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_decision_is_heard_though_no_client_reads(stage: Stage) -> None:
    stage.enter("guard", Talks("tool_call", block=True, reason="no"))
    async with stage.running() as host:
        stage.stall()
        assert await host.interception.tool_call(CALL) == Refused("no", "guard")
        assert now() < 5
        stage.peers["guard"].say(type="notify", message="decided")
        await later(20)
        assert "decided" not in notes(stage)
        stage.read()
        await stage.event(ExtNotify, message="decided")
        assert notes(stage) == ["thinking", "decided"]


async def test_who_decides_may_join_though_no_client_reads(stage: Stage) -> None:
    stage.enter("guard", peer := Judge(block=True, reason="no"))
    async with stage.running() as host:
        stage.stall()
        peer.say(type="notify", message="one")
        await stage.event(ExtNotify, message="one")
        peer.say(type="subscribe", intercept=["tool_call"])
        await later(1)
        assert await host.interception.tool_call(CALL) == Refused("no", "guard")
        stage.read()


async def test_the_answer_of_a_command_keeps_its_place_and_its_time_is_not_counted(stage: Stage) -> None:
    stage.enter("talker", peer := Talks())
    peer.offers.append(COMMAND)
    async with stage.running() as host:
        stage.stall()
        peer.say(type="notify", message="first")
        await stage.event(ExtNotify, message="first")
        running = asyncio.ensure_future(run(host, "/go"))
        await later(100)
        assert not running.done()
        assert notes(stage) == ["first"]
        stage.read()
        assert (await running).text == "done"
        await stage.event(ExtNotify, message="after")
        assert notes(stage) == ["first", "before", "after"]


async def test_a_flood_waits_in_its_pipe_and_nothing_of_it_is_lost(stage: Stage) -> None:
    stage.enter("talker", peer := Peer())
    async with stage.running(held_bytes=100_000) as host:
        stage.stall()
        for number in range(3_000):
            peer.say(type="notify", message=f"{number} {'x' * 100}")
        await later(20)
        assert len(peer._output) > 100_000
        stage.read()
        await stage.event(ExtNotify, message=f"2999 {'x' * 100}")
        assert [int(note.split()[0]) for note in notes(stage)] == [*range(3_000)]
        assert host.states()[0].state == "ready"


async def test_time_in_which_nothing_is_read_does_not_count_against_an_answer(stage: Stage) -> None:
    class Floods(Judge):
        def asked(self, frame: Frame) -> None:
            for _ in range(3_000):
                self.say(type="notify", message="x" * 100)
            super().asked(frame)

    stage.enter("guard", Floods("tool_call", block=True, reason="no"))
    async with stage.running(held_bytes=100_000) as host:
        stage.stall()
        asking = asyncio.ensure_future(host.interception.tool_call(CALL))
        await later(29)
        assert not asking.done()
        stage.read()
        assert await asking == Refused("no", "guard")


async def test_an_event_loop_that_was_held_up_takes_no_time_from_an_answer(stage: Stage) -> None:
    class Late(Judge):
        def asked(self, frame: Frame) -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop.call_later(4, super().asked, frame)
            loop.call_later(1, loop.leap, 20)

    stage.enter("guard", Late("tool_call", block=True, reason="no"))
    async with stage.running() as host:
        assert await host.interception.tool_call(CALL) == Refused("no", "guard")


async def test_what_it_said_last_is_shown_before_its_end(stage: Stage) -> None:
    stage.enter("talker", peer := Peer())
    async with stage.running():
        stage.stall()
        peer.say(type="notify", message="one")
        await stage.event(ExtNotify, message="one")
        peer.say(type="notify", message="last")
        peer.exit(3)
        await later(20)
        stage.read()
        await stage.event(ExtState, state="failed")
        kinds = [type(event) for event in stage.events if isinstance(event, ExtNotify | ExtState)]
        assert kinds[-3:] == [ExtNotify, ExtNotify, ExtState]
        assert notes(stage) == ["one", "last"]
