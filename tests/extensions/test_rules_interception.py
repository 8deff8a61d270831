"""The rules of interception, in whole sessions: what is asked, what is shown, what the model reads."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec import to_builtins

from tests.agent.test_loop import Script
from tests.extensions.conftest import Stage
from tests.extensions.play import Play, calls, play, says
from tests.peers import Frame, Peer
from zotd.agent.loop import Model
from zotd.agent.ports import ModelRequest, ProviderEvent
from zotd.agent.transcript import shown
from zotd.protocol.content import Message, Text


class Judge(Peer):
    """Answers every question with given members; what may be a function of the question."""

    def __init__(self, *events: str, observes: tuple[str, ...] = (), **answer: Any) -> None:
        super().__init__({"type": "subscribe", "intercept": [*events], "events": [*observes]})
        self.answer = answer

    def asked(self, frame: Frame) -> None:
        self.say(type="event_intercept_response", id=frame["id"], **self.answer)


class Appends(Judge):
    """Adds a word of its own to what it is asked about."""

    def __init__(self, event: str, word: str) -> None:
        super().__init__(event)
        self.word = word

    def asked(self, frame: Frame) -> None:
        if frame["event"] == "tool_call":
            words = [*frame["tool_args"].get("words", []), self.word]
            self.answer = {"modified_args": {"words": words}}
        else:
            self.answer = {"replace_text": f"{frame['text']} {self.word}"}
        super().asked(frame)


def words(messages: list[Message]) -> list[str]:
    return [
        "".join(block.text for block in message.content if isinstance(block, Text))
        for message in messages
        if message.role == "assistant"
    ]


def visible(scene: Play) -> str:
    """All that a client, or who asks for messages, can read."""
    rows = [shown(message).text for message in scene.session.transcript.messages]
    return json.dumps([scene.viewer.seen, rows, to_builtins(scene.session.info())])


# Who is asked, and in what order


@pytest.mark.promise("S32")
async def test_interceptors_are_asked_one_after_the_other_in_load_order_and_rewrites_chain(
    stage: Stage,
) -> None:
    for name in ("a", "b", "c"):
        stage.enter(name, Appends("tool_call", name))
    async with play(stage, calls("echo", '{"words":[]}'), says("ok")) as scene:
        await scene.prompt()
        assert [stage.peers[name].of("event_intercept")[0]["tool_args"] for name in "abc"] == [
            {"words": []},
            {"words": ["a"]},
            {"words": ["a", "b"]},
        ]
        (result,) = scene.viewer.of("tool_result")
        assert result["content"] == [{"type": "text", "text": "{'words': ['a', 'b', 'c']}"}]
        assert result["details"]["modified_by"] == ["a", "b", "c"]


@pytest.mark.promise("S32")
async def test_the_first_block_wins_and_nobody_behind_it_is_asked(stage: Stage) -> None:
    stage.enter("a", Appends("tool_call", "a"))
    stage.enter("b", Judge("tool_call", block=True, reason="no"))
    behind = stage.enter("c", Judge("tool_call", block=True, reason="never"))
    async with play(stage, calls("echo"), says("ok")) as scene:
        await scene.prompt()
        (result,) = scene.results()
        assert (result.is_error, result.content) == (True, [Text("no")])
        assert behind.of("event_intercept") == []


@pytest.mark.promise("S47")
@pytest.mark.promise("S48")
async def test_observers_hear_of_a_call_before_interceptors_decide_and_before_it_runs(stage: Stage) -> None:
    order: list[str] = []

    class Logs(Judge):
        def take(self, line: bytes) -> None:
            frame = json.loads(line)
            if frame["type"] in ("event", "event_intercept", "tool_call"):
                order.append(f"{self.name} {frame['type']}")
            super().take(line)

    guard = stage.enter("guard", Logs("tool_call"))
    stage.enter("watcher", Logs(observes=("tool_call",)))
    digger = stage.enter("digger", Logs())
    digger.offers = [{"type": "register_tool", "name": "dig"}]
    async with play(stage, calls("dig", '{"deep":1}'), says("ok")) as scene:
        await scene.prompt()
        assert order == ["watcher event", "guard event_intercept", "digger tool_call"]
        for peer in (guard, stage.peers["watcher"]):
            (frame,) = [frame for frame in peer.heard if frame.get("event") == "tool_call"]
            assert (frame["tool_id"], frame["tool_name"], frame["tool_args"]) == ("t1", "dig", {"deep": 1})


@pytest.mark.promise("S27")
@pytest.mark.parametrize("reason", ["", "   "])
@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("tool_call", "tool call refused by extension guard"),
        ("turn_start", "turn blocked by extension guard"),
    ],
)
async def test_a_block_without_a_reason_gets_one_that_names_the_extension(
    stage: Stage, event: str, said: str, reason: str
) -> None:
    stage.enter("guard", Judge(event, block=True, reason=reason))
    async with play(stage, calls("echo"), says("ok")) as scene:
        outcome = await scene.prompt()
        if event == "tool_call":
            assert scene.results()[0].content == [Text(said)]
        else:
            assert outcome.error == said


async def test_a_reason_is_shown_with_its_lines_and_colours_and_cannot_command_a_terminal(
    stage: Stage,
) -> None:
    reason = "not \x1b[31mhere\x1b[0m\r\n\tever\x1b]0;title\x07\x1b[2J"
    stage.enter("guard", Judge("turn_start", block=True, reason=reason))
    async with play(stage, says("ok")) as scene:
        outcome = await scene.prompt()
        assert outcome.error == "not \x1b[31mhere\x1b[0m\n\tever"
        (note,) = scene.viewer.of("ext_notify")
        assert note["message"] == outcome.error


@pytest.mark.promise("S30")
@pytest.mark.parametrize("modified", [[1], "text", 7, True])
async def test_modified_arguments_that_are_no_object_are_ignored_and_logged(
    stage: Stage, modified: Any
) -> None:
    stage.enter("guard", Judge("tool_call", modified_args=modified))
    async with play(stage, calls("echo", '{"a":1}'), says("ok")) as scene:
        await scene.prompt()
        assert scene.results()[0].content == [Text("{'a': 1}")]
        assert "modified_by" not in scene.viewer.of("tool_result")[0]["details"]
    assert "modified_args was ignored: expected a JSON object" in stage.log("guard")


@pytest.mark.promise("S30")
async def test_what_stands_beside_a_block_does_not_count(stage: Stage) -> None:
    stage.enter("a", Judge("tool_call", block=True, reason="no", modified_args={"b": 2}))
    stage.enter("b", Judge("assistant_message", block=True, reason="hush", replace_text="instead"))
    async with play(stage, calls("echo", "{}", text="secret"), says("ok")) as scene:
        await scene.prompt()
        assert scene.results()[0].content == [Text("no")]
        assert "instead" not in visible(scene)


@pytest.mark.promise("S31")
@pytest.mark.parametrize("how", ["crashes", "is silent", "answers wrong"])
@pytest.mark.parametrize("event", ["turn_start", "tool_call", "assistant_message"])
async def test_a_crash_a_time_out_and_a_wrong_answer_allow_and_clients_are_warned(
    stage: Stage, event: str, how: str
) -> None:
    class Broken(Judge):
        def asked(self, frame: Frame) -> None:
            match how:
                case "crashes":
                    self.exit(1)
                case "answers wrong":
                    self.say(type="event_intercept_response", id=frame["id"], block="maybe")

    stage.enter("guard", Broken(event))
    async with play(stage, calls("echo", '{"a":1}', text="hello"), says("ok")) as scene:
        outcome = await scene.prompt()
        assert (outcome.stop, outcome.text) == ("end_turn", "ok")
        assert scene.results()[0].content == [Text("{'a': 1}")]
        assert words(scene.session.transcript.messages) == ["hello", "ok"]
        warnings = [note for note in scene.viewer.of("ext_notify") if note["level"] == "warn"]
        assert warnings
        assert {note["extension"] for note in warnings} == {"guard"}
        ends = {note["message"].rpartition(": ")[2] for note in warnings}
        assert ends - {f"it no longer decides on {event}"} == {f"the {event} was allowed"}


@pytest.mark.promise("S31")
async def test_one_that_dies_between_two_questions_is_not_missed_in_silence(stage: Stage) -> None:
    guard = stage.enter("guard", Judge("tool_call", "assistant_message"))
    async with play(stage, says("ok")) as scene:
        guard.exit(4)
        warning = await scene.viewer.sees("ext_notify")
        assert (warning["extension"], warning["level"], warning["message"]) == (
            "guard",
            "warn",
            "extension guard exited: exit status 4: it no longer decides on tool_call, assistant_message",
        )


@pytest.mark.promise("S31")
async def test_a_message_whose_judge_dies_while_it_is_withheld_is_allowed_with_a_warning(
    stage: Stage,
) -> None:
    class Deadly(Script):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
            guard.exit(4)
            await scene.viewer.sees("ext_notify")
            async for event in super().stream(request):
                yield event

    guard = stage.enter("guard", Judge("assistant_message", block=True))
    async with play(stage) as scene:
        scene.session.model = Model(Deadly(says("ok")), "script-1")
        outcome = await scene.prompt()
        assert (outcome.stop, outcome.text) == ("end_turn", "ok")
        assert len([note for note in scene.viewer.of("ext_notify") if note["level"] == "warn"]) == 1


@pytest.mark.promise("S31")
async def test_one_that_is_stopped_or_only_observes_is_no_loss(stage: Stage) -> None:
    stage.enter("guard", Judge("tool_call"))
    watcher = stage.enter("watcher", Judge(observes=("tool_call",)))
    async with play(stage, says("ok")) as scene:
        watcher.exit(4)
        await scene.host.reload()
        await scene.prompt()
        assert scene.viewer.of("ext_notify") == []


# turn_start


@pytest.mark.promise("S28")
async def test_a_blocked_turn_is_a_warning_its_end_and_done_and_the_message_stays(stage: Stage) -> None:
    stage.enter("hours", Judge("turn_start", block=True, reason="outside business hours"))
    async with play(stage) as scene:
        before = len(scene.viewer.seen)
        outcome = await scene.prompt("hello")
        told = [event["type"] for event in scene.viewer.seen[before:]]
        assert told == ["user_message", "turn_start", "ext_notify", "turn_end", "done"]
        assert scene.viewer.of("ext_notify") == [
            {"type": "ext_notify", "extension": "hours", "level": "warn", "message": "outside business hours"}
        ]
        assert scene.viewer.of("turn_end") == [
            {"type": "turn_end", "stop": "error", "error": "outside business hours"}
        ]
        assert scene.viewer.of("done") == [{"type": "done", "stop": "error"}]
        assert (outcome.stop, outcome.kind) == ("error", "turn_blocked")
        assert scene.script.requests == []
        assert [message.text for message in scene.session.transcript.messages] == ["hello"]


@pytest.mark.promise("S28")
@pytest.mark.promise("S48")
async def test_a_turn_start_cannot_be_rewritten_and_each_step_is_asked_about(stage: Stage) -> None:
    peer = stage.enter("a", Judge("turn_start", modified_args={"step": 9}, replace_text="other"))
    async with play(stage, calls("echo"), says("done")) as scene:
        outcome = await scene.prompt()
        assert outcome.text == "done"
        assert [(frame["event"], frame["step"]) for frame in peer.of("event_intercept")] == [
            ("turn_start", 1),
            ("turn_start", 2),
        ]


# tool_call


@pytest.mark.promise("S27")
async def test_the_model_reads_the_reason_of_a_refusal_as_the_error_of_the_call(stage: Stage) -> None:
    stage.enter("guard", Judge("tool_call", block=True, reason='matches danger pattern "rm -rf"'))
    tools = stage.enter("tools", Peer({"type": "register_tool", "name": "dig"}))
    async with play(stage, calls("dig"), says("a pity")) as scene:
        outcome = await scene.prompt()
        (result,) = scene.results()
        assert (result.is_error, result.content) == (True, [Text('matches danger pattern "rm -rf"')])
        assert tools.of("tool_call") == []
        assert outcome.text == "a pity"


@pytest.mark.promise("S27")
async def test_changed_arguments_apply_to_the_run_and_events_and_transcript_keep_the_models(
    stage: Stage,
) -> None:
    guard = stage.enter(
        "guard", Judge("tool_call", observes=("tool_call",), modified_args={"command": "echo"})
    )
    tools = stage.enter("tools", Peer({"type": "register_tool", "name": "dig"}))
    async with play(stage, calls("dig", '{"command":"rm"}'), says("ok")) as scene:
        await scene.prompt()
        assert [frame["args"] for frame in tools.of("tool_call")] == [{"command": "echo"}]
        assert [frame["tool_args"] for frame in guard.of("event")] == [{"command": "rm"}]
        assert [event["args"] for event in scene.viewer.of("tool_call")] == [{"command": "rm"}]
        kept = [block for message in scene.script.requests[-1].messages for block in message.content]
        assert [block.args for block in kept if block.__struct_config__.tag == "tool_call"] == [  # type: ignore[union-attr]
            {"command": "rm"}
        ]
        (result,) = scene.viewer.of("tool_result")
        assert result["details"] == {"extension": "tools", "tool": "dig", "modified_by": ["guard"]}


# assistant_message


@pytest.mark.promise("S29")
async def test_while_somebody_judges_text_nothing_is_shown_before_it_is_approved(stage: Stage) -> None:
    stage.enter("redactor", Judge("assistant_message", replace_text="the key is [redacted]"))
    async with play(stage, says("the key", " is sk-1"), says("and again")) as scene:
        outcome = await scene.prompt()
        assert scene.viewer.of("assistant_start") == [
            {"type": "assistant_start", "withheld_by": ["redactor"]}
        ]
        assert scene.viewer.of("text_delta") == [{"type": "text_delta", "delta": "the key is [redacted]"}]
        assert outcome.text == "the key is [redacted]"
        assert "sk-1" not in visible(scene)
        await scene.prompt("again")
        assert words([*scene.script.requests[-1].messages]) == ["the key is sk-1"]
        kept = scene.session.transcript.messages[1]
        assert kept.meta["shown"] == "the key is [redacted]"


@pytest.mark.promise("S29")
@pytest.mark.promise("S48")
async def test_a_judge_of_text_gets_the_whole_of_it_and_rewrites_chain(stage: Stage) -> None:
    first = stage.enter("a", Appends("assistant_message", "one"))
    second = stage.enter("b", Appends("assistant_message", "two"))
    watcher = stage.enter("c", Judge(observes=("assistant_message",)))
    async with play(stage, says("so", " it", " is")) as scene:
        assert (await scene.prompt()).text == "so it is one two"
        assert [frame["text"] for frame in first.of("event_intercept")] == ["so it is"]
        assert [frame["text"] for frame in second.of("event_intercept")] == ["so it is one"]
        assert [frame["text"] for frame in watcher.of("event")] == ["so it is one two"]


@pytest.mark.promise("S29")
async def test_a_blocked_message_shows_no_text_but_its_reason_and_its_calls_run(stage: Stage) -> None:
    stage.enter("censor", Judge("assistant_message", block=True, reason="not for your eyes"))
    watcher = stage.enter("watcher", Judge(observes=("assistant_message",)))
    async with play(stage, calls("echo", '{"a":1}', text="hidden words"), says("more words")) as scene:
        outcome = await scene.prompt()
        assert scene.viewer.of("text_delta") == []
        assert "words" not in visible(scene)
        assert (outcome.stop, outcome.text) == ("end_turn", "")
        assert [note["message"] for note in scene.viewer.of("ext_notify")] == ["not for your eyes"] * 2
        assert {note["level"] for note in scene.viewer.of("ext_notify")} == {"warn"}
        assert scene.results()[0].content == [Text("{'a': 1}")]
        assert watcher.of("event") == []


async def test_a_message_without_text_is_not_judged(stage: Stage) -> None:
    judge = stage.enter("judge", Judge("assistant_message", block=True))
    async with play(stage, calls("echo"), says("text")) as scene:
        await scene.prompt()
        assert [frame["text"] for frame in judge.of("event_intercept")] == ["text"]


async def test_an_abort_before_approval_shows_nothing(stage: Stage) -> None:
    class Ponders(Judge):
        def asked(self, frame: Frame) -> None:
            pass

    judge = stage.enter("judge", Ponders("assistant_message"))
    async with play(stage, says("unapproved")) as scene:
        turn = await scene.send("go")
        await judge.next("event_intercept")
        assert scene.session.abort()
        outcome = await scene.session.wait(turn)
        assert outcome is not None
        assert (outcome.stop, outcome.text) == ("aborted", "")
        assert "unapproved" not in visible(scene)


async def test_without_a_judge_text_streams_as_it_comes(stage: Stage) -> None:
    stage.enter("other", Judge("turn_start"))
    async with play(stage, says("a", "b")) as scene:
        await scene.prompt()
        assert scene.viewer.of("assistant_start") == [{"type": "assistant_start"}]
        assert [event["delta"] for event in scene.viewer.of("text_delta")] == ["a", "b"]
