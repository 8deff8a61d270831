"""The rules of what is asked of an extension: how long it may take, and what its answer means."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.extensions.conftest import Stage, run
from tests.extensions.play import calls, play, says
from tests.peers import Frame, Peer
from zotd.agent.ports import Allowed, ToolOutcome
from zotd.base.limits import Limits
from zotd.extensions.host import ExtensionHost
from zotd.protocol.content import Image, Text, ToolCall
from zotd.protocol.events import ExtNotify, ExtState

COMMAND: Frame = {"type": "register_command", "name": "go"}
TOOL: Frame = {"type": "register_tool", "name": "dig"}
INTERACTIVE: Frame = {**TOOL, "interactive": True}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Silent(Peer):
    """Answers nothing, and knows how to be called off."""

    capabilities: tuple[str, ...] = ("tool_cancel",)

    def invoked(self, frame: Frame) -> None:
        pass

    def called(self, frame: Frame) -> None:
        pass

    def asked(self, frame: Frame) -> None:
        pass


class Digs(Peer):
    """Its tool answers with given members."""

    def __init__(self, **answer: Any) -> None:
        super().__init__(TOOL)
        self.answer = answer

    def called(self, frame: Frame) -> None:
        self.say(type="tool_result", id=frame["id"], **self.answer)


def now() -> float:
    return asyncio.get_running_loop().time()


def call(stage: Stage, name: str = "dig", **args: Any) -> asyncio.Future[ToolOutcome]:
    tool = stage.toolbox.get(name)
    assert tool is not None
    return asyncio.ensure_future(tool.run(ToolCall("c1", name, args), lambda text: None))


def error_of(outcome: ToolOutcome) -> str:
    """What the model is told of a call that failed."""
    assert outcome.is_error
    return "".join(block.text for block in outcome.content if isinstance(block, Text))


# How long it may take


@pytest.mark.promise("S45")
async def test_a_command_has_thirty_seconds_and_the_user_reads_that_it_took_longer(stage: Stage) -> None:
    stage.enter("a", Silent(COMMAND))
    async with stage.running() as host:
        began = now()
        answer = await run(host, "/go")
        assert now() - began == pytest.approx(30)
        assert answer.error == "extension a did not answer within 30 s"


@pytest.mark.promise("S46")
async def test_a_tool_has_sixty_seconds_and_then_the_call_failed_and_is_called_off(stage: Stage) -> None:
    peer = stage.enter("a", Silent(TOOL))
    async with stage.running():
        began = now()
        outcome = await call(stage)
        assert now() - began == pytest.approx(60)
        assert error_of(outcome) == "extension a did not answer within 60 s"
        cancel = await peer.next("tool_cancel")
        assert cancel["id"] == peer.of("tool_call")[0]["id"]


@pytest.mark.promise("S46")
@pytest.mark.parametrize("seconds", [0.5, 600.0])
async def test_a_manifest_sets_another_time_for_its_tools(stage: Stage, seconds: float) -> None:
    stage.enter("a", Silent(TOOL), tool_timeout=seconds)
    async with stage.running():
        began = now()
        outcome = await call(stage)
        assert now() - began == pytest.approx(seconds)
        assert error_of(outcome) == f"extension a did not answer within {seconds:g} s"


async def test_a_tool_that_waits_for_a_person_has_no_limit(stage: Stage) -> None:
    stage.capabilities = {"panels"}
    peer = stage.enter("a", Silent(INTERACTIVE), tool_timeout=1)
    async with stage.running():
        outcome = call(stage)
        asked = await peer.next("tool_call")
        answer: Frame = {
            "type": "tool_result",
            "id": asked["id"],
            "content": [{"type": "text", "text": "yes"}],
        }
        asyncio.get_running_loop().call_later(86_400, lambda: peer.say(**answer))
        assert (await outcome).content == [Text("yes")]
        assert now() == pytest.approx(86_400)


async def test_a_tool_that_waits_for_a_person_is_called_off_two_minutes_after_the_last_of_them_left(
    stage: Stage,
) -> None:
    stage.look_on("panels")
    peer = Silent(INTERACTIVE)
    peer.capabilities = ("tool_cancel",)
    stage.enter("a", peer)
    async with stage.running():
        outcome = call(stage)
        asked = await peer.next("tool_call")
        asyncio.get_running_loop().call_later(1_000, stage.look_on)
        failed = error_of(await outcome)
        assert "nobody who can show panels has been attached for 120 s" in failed
        assert now() == pytest.approx(1_120)
        assert Limits().panel_wait_s == 120
        assert (await peer.next("tool_cancel"))["id"] == asked["id"]


async def test_the_model_goes_on_when_the_person_it_waits_for_does_not_come_back(stage: Stage) -> None:
    peer = stage.enter("a", Silent(INTERACTIVE))
    async with play(stage, calls("dig"), says("ok"), capabilities=("panels",)) as scene:
        scene.attach()
        turn = await scene.send("go")
        await peer.next("tool_call")
        scene.session.detach(scene.viewer)
        await scene.session.wait(turn)
        (result,) = scene.results()
        assert result.is_error
        assert [block.text for block in result.content if isinstance(block, Text)] == [
            "tool dig was called off: nobody who can show panels has been attached for 120 s"
        ]


async def test_it_goes_on_waiting_when_one_comes_back_in_time(stage: Stage) -> None:
    stage.look_on("panels")
    peer = stage.enter("a", Silent(INTERACTIVE))
    async with stage.running():
        outcome = call(stage)
        asked = await peer.next("tool_call")
        loop = asyncio.get_running_loop()
        for at in (100, 1_000, 2_000):
            loop.call_later(at, stage.look_on, "insert")
            loop.call_later(at + 119, stage.look_on, "panels")
        answer: Frame = {"type": "tool_result", "id": asked["id"], "content": []}
        loop.call_later(3_000, lambda: peer.say(**answer))
        assert not (await outcome).is_error


@pytest.mark.promise("S31")
async def test_an_interceptor_has_five_seconds_and_then_it_has_agreed(stage: Stage) -> None:
    events = ["turn_start", "tool_call", "assistant_message"]
    stage.enter("a", Silent({"type": "subscribe", "intercept": events}))
    async with stage.running() as host:
        hooks, began = host.interception, now()
        assert await hooks.turn_start(1) == Allowed()
        assert now() - began == pytest.approx(5)
        assert await hooks.tool_call(ToolCall("c", "bash", {"command": "ls"})) == Allowed({"command": "ls"})
        assert now() - began == pytest.approx(10)
        assert await hooks.assistant_message("text") == Allowed(text="text")
        assert now() - began == pytest.approx(15)
        assert {note.level for note in stage.seen(ExtNotify)} == {"warn"}
        assert [note.message for note in stage.seen(ExtNotify)] == [
            f"extension a did not answer within 5 s: the {event} was allowed" for event in events
        ]


@pytest.mark.promise("S31")
async def test_each_interceptor_has_five_seconds_of_its_own(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.enter(name, Silent({"type": "subscribe", "intercept": ["turn_start"]}))
    async with stage.running() as host:
        began = now()
        await host.interception.turn_start(1)
        assert now() - began == pytest.approx(15)


# The end


class Stubborn(Peer):
    """Confirms that it is to leave, and stays; whether a signal helps is up to the test."""

    obeys = False

    def dismissed(self) -> None:
        self.say(type="shutdown_ack")

    def signalled(self, number: int) -> None:
        if self.obeys:
            super().signalled(number)


class Obeys(Stubborn):
    obeys = True


async def stopped(host: ExtensionHost) -> float:
    began = now()
    await host.stop()
    return now() - began


@pytest.mark.promise("S15")
@pytest.mark.promise("S51")
async def test_after_shutdown_come_two_seconds_sigterm_one_second_and_sigkill(stage: Stage) -> None:
    peer = stage.enter("a", Stubborn())
    async with stage.running() as host:
        began = now() - peer.began_at
        assert await stopped(host) == pytest.approx(3)
        assert peer.times("shutdown") == [pytest.approx(began)]
        assert [number for _, number in peer.signals] == [signal.SIGTERM, signal.SIGKILL]
        assert [at - began for at, _ in peer.signals] == [pytest.approx(2), pytest.approx(3)]
    assert "did not exit within 2 s of shutdown: terminated" in stage.log("a")


@pytest.mark.promise("S15")
async def test_one_that_leaves_on_sigterm_is_not_killed(stage: Stage) -> None:
    peer = stage.enter("a", Obeys())
    async with stage.running() as host:
        assert await stopped(host) == pytest.approx(2)
        assert [number for _, number in peer.signals] == [signal.SIGTERM]
    assert stage.seen(ExtState)[-1].state == "stopped"


@pytest.mark.promise("S15")
async def test_the_two_seconds_are_for_all_together(stage: Stage) -> None:
    for number in range(10):
        stage.enter(f"e{number}", Stubborn())
    async with stage.running() as host:
        assert await stopped(host) == pytest.approx(3)


@pytest.mark.promise("S44")
async def test_the_exit_ends_the_wait_and_not_the_acknowledgement(stage: Stage) -> None:
    class Tidies(Peer):
        def dismissed(self) -> None:
            self.say(type="shutdown_ack")
            asyncio.get_running_loop().call_later(1.5, self.exit, 0)

    class Curt(Peer):
        def dismissed(self) -> None:
            self.exit(0)

    tidy = stage.enter("tidy", Tidies())
    stage.enter("curt", Curt())
    async with stage.running() as host:
        assert await stopped(host) == pytest.approx(1.5)
        assert tidy.signals == []
    assert [event.state for event in stage.seen(ExtState)][-2:] == ["stopped", "stopped"]


async def test_its_input_is_closed_right_after_shutdown(stage: Stage) -> None:
    class UntilTheEnd(Stubborn):
        def input_ended(self) -> None:
            assert self.heard[-1]["type"] == "shutdown"
            self.exit(0)

    peer = stage.enter("a", UntilTheEnd())
    async with stage.running() as host:
        assert await stopped(host) == pytest.approx(0)
        assert peer.stdin.closed
        assert peer.signals == []


async def test_one_that_has_not_said_hello_is_ended_by_signals_alone(stage: Stage) -> None:
    class Mute(Peer):
        def began(self) -> None:
            pass

    peer = stage.enter("a", Mute())
    async with stage.running() as host:
        assert await stopped(host) == pytest.approx(0)
        assert peer.heard == []
        assert [number for _, number in peer.signals] == [signal.SIGTERM]


# Abort


async def test_an_abort_returns_at_once_and_tells_only_who_wants_to_know(stage: Stage) -> None:
    knows = stage.enter("knows", Silent(TOOL))
    plain = stage.enter("plain", Silent({**TOOL, "name": "delve"}))
    plain.capabilities = ()
    async with stage.running():
        for name, peer in (("dig", knows), ("delve", plain)):
            outcome = call(stage, name)
            await peer.next("tool_call")
            before = now()
            outcome.cancel()
            with pytest.raises(asyncio.CancelledError):
                await outcome
            assert now() == before
        cancel = await knows.next("tool_cancel")
        assert cancel == {"type": "tool_cancel", "id": knows.of("tool_call")[0]["id"]}
        assert plain.of("tool_cancel") == []


async def test_a_late_result_is_ignored(stage: Stage) -> None:
    peer = stage.enter("a", Silent(TOOL))
    async with stage.running():
        outcome = await call(stage)
        assert outcome.is_error
        late = peer.of("tool_call")[0]["id"]
        second = call(stage)
        asked = await peer.next("tool_call", 2)
        peer.say(type="tool_result", id=late, content=[{"type": "text", "text": "stale"}])
        peer.say(type="tool_result", id=asked["id"], content=[{"type": "text", "text": "fresh"}])
        assert (await second).content == [Text("fresh")]
    assert f"tool_result for '{late}', which nobody waits for: ignored" in stage.log("a")


# What an answer means


@pytest.mark.promise("S25")
@pytest.mark.parametrize(
    "content", [{}, {"content": []}, {"content": None}, {"content": [{"type": "text", "text": ""}]}]
)
async def test_no_content_is_said_to_the_model(stage: Stage, content: Frame) -> None:
    stage.enter("a", Digs(**content))
    async with stage.running():
        outcome = await call(stage)
        assert (outcome.content, outcome.is_error) == ([Text("(extension returned no content)")], False)


@pytest.mark.promise("S25")
async def test_text_and_pictures_come_in_order_and_empty_text_is_dropped(stage: Stage) -> None:
    picture = {"type": "image", "mime_type": "image/png", "data": PIXEL}
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": ""},
        picture,
        {"type": "text", "text": "b"},
    ]
    stage.enter("a", Digs(content=blocks))
    async with stage.running():
        outcome = await call(stage)
        assert outcome.content == [Text("a"), Image("image/png", PIXEL), Text("b")]
        assert not outcome.is_error


@pytest.mark.promise("S25")
async def test_a_tool_can_say_that_it_failed(stage: Stage) -> None:
    stage.enter("a", Digs(content=[{"type": "text", "text": "no such city"}], is_error=True))
    async with stage.running():
        assert error_of(await call(stage)) == "no such city"


async def test_a_block_of_an_unknown_type_becomes_a_text_that_says_so(stage: Stage) -> None:
    stage.enter("a", Digs(content=[{"type": "video", "data": "?"}]))
    async with stage.running():
        outcome = await call(stage)
        (block,) = outcome.content
        assert isinstance(block, Text)
        assert "'video'" in block.text
        assert not outcome.is_error


async def test_bad_base64_is_an_error_result(stage: Stage) -> None:
    stage.enter("a", Digs(content=[{"type": "image", "mime_type": "image/png", "data": "not base64!"}]))
    async with stage.running():
        assert "base64" in error_of(await call(stage))


async def test_another_answer_than_the_one_asked_for_fails_the_call(stage: Stage) -> None:
    class Confused(Peer):
        def called(self, frame: Frame) -> None:
            self.invoked(frame)

    stage.enter("a", Confused(TOOL))
    async with stage.running():
        assert error_of(await call(stage)) == "extension a answered with command_response"


@pytest.mark.promise("S46")
async def test_arguments_arrive_as_an_object_and_as_the_model_gave_them(stage: Stage) -> None:
    peer = stage.enter("a", Digs(content=[]))
    args: Frame = {"city": "Berlin", "deep": {"list": [1, None, "caf\u00e9"]}}
    async with stage.running():
        await call(stage, **args)
        asked = await peer.next("tool_call")
        assert asked == {"type": "tool_call", "id": asked["id"], "name": "dig", "args": args}


@pytest.mark.parametrize("capable", [set[str](), {"submit", "insert"}])
async def test_a_tool_that_waits_for_a_person_is_refused_where_nobody_can_show_panels(
    stage: Stage, capable: set[str]
) -> None:
    stage.capabilities = capable
    peer = stage.enter("a", Peer(INTERACTIVE))
    async with stage.running():
        assert "nobody who is attached can show panels" in error_of(await call(stage))
        assert peer.of("tool_call") == []
