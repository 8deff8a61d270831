"""The rules of events that extensions observe."""

from __future__ import annotations

import json

import pytest

from tests.agent.test_loop import finish
from tests.extensions.conftest import Stage, run
from tests.extensions.play import calls, play, says
from tests.peers import Frame, Peer
from zotd.agent.ports import ProviderError
from zotd.protocol.events import TextDelta

ALL = ["session_start", "turn_start", "turn_end", "tool_call", "assistant_message"]


def watcher(*events: str) -> Peer:
    return Peer({"type": "subscribe", "events": [*(events or ALL)]})


@pytest.mark.promise("S26")
@pytest.mark.promise("S47")
async def test_the_events_of_a_turn_with_all_that_belongs_to_them(stage: Stage) -> None:
    peer = stage.enter("a", watcher())
    async with play(stage, calls("echo", '{"a":1}', text="let me see"), says("done")) as scene:
        await scene.prompt()
        assert peer.of("event") == [
            {"type": "event", "event": "session_start"},
            {"type": "event", "event": "turn_start", "step": 1},
            {"type": "event", "event": "assistant_message", "text": "let me see"},
            {
                "type": "event",
                "event": "tool_call",
                "tool_id": "t1",
                "tool_name": "echo",
                "tool_args": {"a": 1},
            },
            {"type": "event", "event": "turn_end", "stop": "tool_use"},
            {"type": "event", "event": "turn_start", "step": 2},
            {"type": "event", "event": "assistant_message", "text": "done"},
            {"type": "event", "event": "turn_end", "stop": "end_turn"},
        ]


@pytest.mark.promise("S47")
@pytest.mark.parametrize("event", ALL)
async def test_only_what_was_subscribed_to_is_sent(stage: Stage, event: str) -> None:
    peer = stage.enter("a", watcher(event))
    stage.enter("other", Peer())
    async with play(stage, calls("echo", text="x"), says("done")) as scene:
        await scene.prompt()
        assert {frame["event"] for frame in peer.of("event")} == {event}
        assert stage.peers["other"].of("event") == []


@pytest.mark.promise("S47")
async def test_the_end_of_a_turn_says_how_it_ended(stage: Stage) -> None:
    peer = stage.enter("a", watcher("turn_end"))
    broken = ProviderError("out of order")
    async with play(stage, says("ok"), [TextDelta(delta="cut"), finish("length")], [broken], []) as scene:
        for _ in range(3):
            await scene.prompt()
        turn = await scene.send("go")
        await scene.viewer.sees("assistant_start", 4)
        scene.session.abort()
        await scene.session.wait(turn)
        ends = [(frame["stop"], frame.get("error")) for frame in peer.of("event")]
        assert ends == [("end_turn", None), ("length", None), ("error", "out of order"), ("aborted", None)]


async def test_session_start_is_sent_once_after_ready(stage: Stage) -> None:
    order: list[str] = []

    class Notes(Peer):
        def say(self, **frame: object) -> None:
            order.append(f"says {frame['type']}")
            super().say(**frame)

        def take(self, line: bytes) -> None:
            order.append(f"hears {json.loads(line)['type']}")
            super().take(line)

    stage.enter("a", Notes({"type": "subscribe", "events": ["session_start"]}))
    async with play(stage, says("1"), says("2")) as scene:
        await scene.prompt()
        await scene.prompt()
        assert order == ["says hello", "hears hello_ack", "says subscribe", "says ready", "hears event"]


async def test_session_start_is_sent_again_after_a_reload(stage: Stage) -> None:
    peer = stage.enter("a", watcher("session_start"))
    async with play(stage) as scene:
        await peer.next("event")
        await scene.host.reload()
        await peer.next("event", 2)
        kinds = [frame["type"] for frame in peer.heard]
        assert kinds == ["hello_ack", "event", "shutdown", "hello_ack", "event"]


async def test_observers_are_shown_the_text_that_was_approved(stage: Stage) -> None:
    class Redacts(Peer):
        def asked(self, frame: Frame) -> None:
            text = frame["text"].replace("secret", "[redacted]")
            self.say(type="event_intercept_response", id=frame["id"], replace_text=text)

    peer = stage.enter("watcher", watcher("assistant_message"))
    stage.enter("redactor", Redacts({"type": "subscribe", "intercept": ["assistant_message"]}))
    async with play(stage, says("a secret")) as scene:
        await scene.prompt()
        assert [frame["text"] for frame in peer.of("event")] == ["a [redacted]"]


async def test_an_event_needs_no_answer_and_holds_nobody_up(stage: Stage) -> None:
    stage.enter("a", watcher())
    stage.enter("b", Peer({"type": "register_command", "name": "go"}))
    async with play(stage, says("ok")) as scene:
        assert (await scene.prompt()).stop == "end_turn"
        assert (await run(scene.host, "/go")).text == "done"
