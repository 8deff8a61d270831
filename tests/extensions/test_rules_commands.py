"""The rules of commands, notes and prompts of extensions, as clients of a session see them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import to_builtins

from tests.extensions.conftest import Stage
from tests.extensions.play import Viewer, calls, play, says
from tests.peers import Frame, Peer
from zotd.agent.loop import Outcome

COMMAND: Frame = {"type": "register_command", "name": "go"}


class Answers(Peer):
    """Answers its command with given members."""

    def __init__(self, **answer: Any) -> None:
        super().__init__(COMMAND)
        self.answer = answer

    def invoked(self, frame: Frame) -> None:
        self.say(type="command_response", id=frame["id"], **self.answer)


class Notes(Peer):
    """Pushes what it is told to, and shows it when it is displayed."""

    def note(self, message: str, level: str = "info") -> None:
        self.say(type="notify", level=level, message=message)


def standing(viewer: Viewer) -> list[str]:
    """The notes that a client shows at the end, as it would fold them."""
    notes: list[Frame] = [to_builtins(note) for note in viewer.picture.notes] if viewer.picture else []
    for event in viewer.seen:
        if event["type"] in ("ext_notify", "ext_display"):
            notes.append(event)
        elif event["type"] == "ext_clear_notes":
            notes = [note for note in notes if note["extension"] != event["extension"]]
    return [note.get("message") or note["text"] for note in notes]


# What is a command


@pytest.mark.promise("S18")
@pytest.mark.parametrize("typed", ["/go", "/GO now", "  /go  now ", "/go\tnow"])
async def test_a_line_that_names_a_command_runs_it(stage: Stage, typed: str) -> None:
    peer = stage.enter("a", Answers(action="noop"))
    async with play(stage) as scene:
        await scene.prompt(typed)
        (frame,) = peer.of("command_invoked")
        assert frame["name"] == "go"
        assert frame["args"] in ("", "now")
        assert scene.script.requests == []


@pytest.mark.parametrize("typed", ["/gone", "go", "/ go", "/", "/go\nnow", "say /go", "//go"])
async def test_anything_else_goes_to_the_model(stage: Stage, typed: str) -> None:
    peer = stage.enter("a", Answers(action="noop"))
    async with play(stage, says("ok")) as scene:
        await scene.prompt(typed)
        assert peer.of("command_invoked") == []
        assert scene.script.requests[0].messages[-1].text == typed


async def test_a_command_runs_at_once_also_during_a_turn(stage: Stage) -> None:
    stage.enter("a", Answers(action="display", display="meanwhile"))
    async with play(stage, []) as scene:
        turn = await scene.send("think")
        await scene.viewer.sees("assistant_start")
        await scene.prompt("/go")
        assert [event["text"] for event in scene.viewer.of("ext_display")] == ["meanwhile"]
        assert scene.session.busy
        scene.session.abort()
        await scene.session.wait(turn)


# What becomes of its answer


@pytest.mark.promise("S33")
async def test_prompt_starts_a_turn_with_the_id_already_given_and_one_done(stage: Stage) -> None:
    stage.enter("a", Answers(action="prompt", prompt="greet me"))
    async with play(stage, says("hello")) as scene:
        turn = await scene.send("/go")
        outcome = await scene.session.wait(turn)
        assert outcome is not None
        assert (outcome.stop, outcome.text) == ("end_turn", "hello")
        assert scene.script.requests[0].messages[-1].text == "greet me"
        (user,) = [event for event in scene.viewer.seen if event["type"] == "user_message"]
        assert user["turn_id"] == turn
        assert [event["turn_id"] for event in scene.viewer.seen if event["type"] == "done"] == [turn]
        types = scene.viewer.types()
        assert types.index("command_result") < types.index("user_message")


@pytest.mark.promise("S33")
async def test_prompt_waits_in_the_queue_while_a_turn_runs(stage: Stage) -> None:
    stage.enter("a", Answers(action="prompt", prompt="then this"))
    async with play(stage, [], says("second")) as scene:
        first = await scene.send("think")
        await scene.viewer.sees("assistant_start")
        second = await scene.send("/go")
        queued = await scene.viewer.sees("queue")
        assert [(row["turn_id"], row["text"], row["client"]) for row in queued["turns"]] == [
            (second, "then this", "extension:a")
        ]
        scene.session.abort()
        await scene.session.wait(first)
        outcome = await scene.session.wait(second)
        assert outcome is not None
        assert outcome.text == "second"


@pytest.mark.promise("S34")
async def test_insert_is_an_event_and_nothing_is_submitted(stage: Stage) -> None:
    stage.enter("a", Answers(action="insert", insert="Explain this."))
    async with play(stage) as scene:
        await scene.prompt("/go")
        assert scene.viewer.of("ext_insert") == [
            {"type": "ext_insert", "extension": "a", "text": "Explain this."}
        ]
        assert scene.session.transcript.messages == []


@pytest.mark.promise("S35")
async def test_display_is_shown_and_neither_stored_nor_sent_to_the_model(stage: Stage) -> None:
    stage.enter("a", Answers(action="display", display="14:05"))
    async with play(stage) as scene:
        await scene.prompt("/go")
        assert scene.viewer.of("ext_display") == [
            {"type": "ext_display", "extension": "a", "command": "go", "text": "14:05"}
        ]
        assert scene.script.requests == []
        assert scene.session.transcript.messages == []


@pytest.mark.promise("S36")
async def test_open_panel_is_an_event_with_all_that_is_in_it(stage: Stage) -> None:
    panel = {"id": "p", "title": "T", "lines": ["one", "two"], "footer": "f"}
    stage.enter("a", Answers(action="open_panel", open_panel=panel))
    async with play(stage, capabilities=("panels",)) as scene:
        await scene.prompt("/go")
        (opened,) = scene.viewer.of("ext_panel_open")
        assert opened.pop("panel_id") == panel.pop("id")
        assert opened == {"type": "ext_panel_open", "extension": "a", **panel}


@pytest.mark.promise("S37")
async def test_noop_shows_nothing_but_that_the_command_is_over(stage: Stage) -> None:
    stage.enter("a", Answers(action="noop"))
    async with play(stage) as scene:
        before = len(scene.viewer.seen)
        await scene.prompt("/go")
        assert [event["type"] for event in scene.viewer.seen[before:]] == ["command_result", "done"]


@pytest.mark.promise("S38")
@pytest.mark.parametrize(
    "answer",
    [
        {"action": "prompt", "prompt": "x"},
        {"action": "insert", "insert": "x"},
        {"action": "display", "display": "x"},
        {"action": "open_panel", "open_panel": {"id": "p"}},
        {"action": "noop"},
        {"action": "explode"},
        {},
    ],
)
async def test_an_error_is_shown_as_one_whatever_the_action(stage: Stage, answer: Frame) -> None:
    stage.enter("a", Answers(**answer, error="no luck"))
    async with play(stage, capabilities=("panels",)) as scene:
        before = len(scene.viewer.seen)
        outcome = await scene.prompt("/go")
        told = scene.viewer.seen[before:]
        assert [event["type"] for event in told] == ["ext_notify", "command_result", "done"]
        assert (told[0]["level"], told[0]["message"]) == ("error", "no luck")
        assert told[1]["error"] == "no luck"
        assert (outcome.stop, outcome.error) == ("error", "no luck")
        assert scene.script.requests == []


@pytest.mark.parametrize(
    "answer", [{"action": "display", "display": "x"}, {"action": "noop"}, {"error": "e"}]
)
async def test_every_command_ends_in_its_result_and_then_done(stage: Stage, answer: Frame) -> None:
    stage.enter("a", Answers(**answer))
    async with play(stage) as scene:
        turn = await scene.send("/go")
        await scene.session.wait(turn)
        result, done = scene.viewer.seen[-2:]
        assert (result["type"], result["turn_id"], result["name"], result["extension"]) == (
            "command_result",
            turn,
            "go",
            "a",
        )
        assert (done["type"], done["turn_id"]) == ("done", turn)


# Notes


@pytest.mark.promise("S14")
@pytest.mark.promise("S42")
async def test_a_note_is_shown_with_its_level_and_whose_it_is_at_any_time(stage: Stage) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage, []) as scene:
        turn = await scene.send("think")
        await scene.viewer.sees("assistant_start")
        for level in ("info", "success", "warn", "error"):
            peer.say(type="notify", level=level, message=f"is {level}")
        await scene.viewer.sees("ext_notify", 4)
        assert [
            (note["extension"], note["level"], note["message"]) for note in scene.viewer.of("ext_notify")
        ] == [("a", level, f"is {level}") for level in ("info", "success", "warn", "error")]
        scene.session.abort()
        await scene.session.wait(turn)


@pytest.mark.promise("S42")
async def test_the_next_prompt_clears_every_note_for_each_owner(stage: Stage) -> None:
    first, second = stage.enter("a", Notes()), stage.enter("b", Notes())
    async with play(stage, says("ok")) as scene:
        first.say(type="notify", message="one")
        first.say(type="notify", message="two")
        second.say(type="notify", message="three")
        await scene.viewer.sees("ext_notify", 3)
        await scene.prompt()
        assert [event["extension"] for event in scene.viewer.of("ext_clear_notes")] == ["a", "b"]
        assert standing(scene.viewer) == []


@pytest.mark.promise("S42")
async def test_clearing_the_session_clears_notes(stage: Stage) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage) as scene:
        peer.say(type="notify", message="one")
        await scene.viewer.sees("ext_notify")
        scene.session.clear()()
        assert standing(scene.viewer) == []


@pytest.mark.promise("S43")
async def test_an_extension_takes_back_its_notes_and_displays_and_nobody_elses(stage: Stage) -> None:
    peer, other = stage.enter("a", Answers(action="display", display="shown")), stage.enter("b", Notes())
    async with play(stage) as scene:
        await scene.prompt("/go")
        peer.say(type="notify", message="one")
        other.say(type="notify", message="stays")
        await scene.viewer.sees("ext_notify", 2)
        peer.say(type="clear_notes")
        await scene.viewer.sees("ext_clear_notes")
        assert scene.viewer.of("ext_clear_notes") == [{"type": "ext_clear_notes", "extension": "a"}]
        assert standing(scene.viewer) == ["stays"]
        assert standing(scene.attach()) == ["stays"]


@pytest.mark.promise("S14")
async def test_notes_of_before_a_client_came_are_kept_for_it(stage: Stage) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage, attached=False) as scene:
        peer.say(type="notify", message="early")
        late = scene.attach()
        await late.sees("ext_notify")
        assert standing(late) == ["early"]


@pytest.mark.promise("S69")
async def test_a_failed_start_stays_visible_through_prompts_until_it_is_cleared(stage: Stage) -> None:
    class Dies(Peer):
        def began(self) -> None:
            self.exit(7)

    stage.enter("broken", Dies())
    async with play(stage, says("ok"), says("ok")) as scene:
        await scene.prompt()
        await scene.prompt()
        (failure,) = standing(scene.viewer)
        assert failure.startswith("extension broken exited: exit status 7 before hello (log: ")
        assert standing(scene.attach()) == [failure]
        assert not any("exit status" in message.text for message in scene.script.requests[-1].messages)
        scene.session.clear()()
        assert standing(scene.viewer) == []


# Prompts of extensions


@pytest.mark.promise("S39")
async def test_submit_is_ignored_where_no_client_declared_it(stage: Stage) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage, capabilities=("panels", "insert")) as scene:
        peer.say(type="submit", text="do this")
        peer.say(type="notify", message="behind")
        await scene.viewer.sees("ext_notify")
        assert scene.script.requests == []
        assert scene.viewer.of("queue", "user_message") == []
    assert "submit was ignored: no attached client takes prompts of extensions" in stage.log("a")


@pytest.mark.promise("S39")
async def test_submit_runs_at_once_when_idle_and_is_announced(stage: Stage) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage, says("done"), capabilities=("submit",)) as scene:
        peer.say(type="submit", text="do this")
        await scene.viewer.sees("done")
        assert scene.script.requests[0].messages[-1].text == "do this"
        assert [event["origin"] for event in scene.viewer.of("user_message")] == ["extension:a"]


@pytest.mark.promise("S39")
async def test_submit_queues_behind_a_turn_that_runs(stage: Stage) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage, [], says("done"), capabilities=("submit",)) as scene:
        first = await scene.send("think")
        await scene.viewer.sees("assistant_start")
        peer.say(type="submit", text="then this")
        queued = await scene.viewer.sees("queue")
        assert [(row["text"], row["client"]) for row in queued["turns"]] == [("then this", "extension:a")]
        scene.session.abort()
        await scene.session.wait(first)
        await scene.viewer.sees("done", 2)
        assert scene.script.requests[-1].messages[-1].text == "then this"


async def test_a_flood_of_submits_is_told_of_seldom_and_bounded(stage: Stage) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage, [], capabilities=("submit",)) as scene:
        await scene.send("think")
        await scene.viewer.sees("assistant_start")
        for number in range(1_000):
            peer.say(type="submit", text=str(number))
        peer.say(type="notify", message="behind")
        while not [note for note in scene.viewer.of("ext_notify") if note["message"] == "behind"]:
            await scene.viewer.sees("ext_notify", len(scene.viewer.of("ext_notify")) + 1)
        queue = [len(event["turns"]) for event in scene.viewer.of("queue")]
        assert queue[-1] == 256
        assert len(queue) < 5
        scene.session.unqueue()
        scene.session.abort()


@pytest.mark.promise("S39")
@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
async def test_a_blank_submit_is_ignored(stage: Stage, text: str) -> None:
    peer = stage.enter("a", Notes())
    async with play(stage, capabilities=("submit",)) as scene:
        peer.say(type="submit", text=text)
        peer.say(type="notify", message="behind")
        await scene.viewer.sees("ext_notify")
        assert scene.viewer.of("user_message") == []


async def test_submit_slash_runs_ones_own_command_in_any_case(stage: Stage) -> None:
    peer = stage.enter("a", Answers(action="display", display="ran"))
    async with play(stage) as scene:
        peer.say(type="submit_slash", text="/go  with care ")
        shown = await scene.viewer.sees("ext_display")
        assert shown["text"] == "ran"
        assert peer.of("command_invoked")[0]["args"] == "with care"


@pytest.mark.parametrize("capable", [False, True])
async def test_submit_slash_of_somebody_elses_command_needs_a_client_that_takes_prompts(
    stage: Stage, capable: bool
) -> None:
    owner = stage.enter("owner", Answers(action="display", display="ran"))
    other = stage.enter("other", Notes())
    async with play(stage, capabilities=("submit",) if capable else ()) as scene:
        other.say(type="submit_slash", text="/go")
        other.say(type="notify", message="behind")
        await scene.viewer.sees("ext_notify")
        if capable:
            await scene.viewer.sees("ext_display")
        assert len(owner.of("command_invoked")) == capable
    assert ("was ignored: no attached client takes it" in stage.log("other")) is not capable


@pytest.mark.parametrize("text", ["go", " /go", "", "/nobody"])
async def test_submit_slash_without_a_leading_slash_or_a_command_is_logged_and_dropped(
    stage: Stage, text: str
) -> None:
    peer = stage.enter("a", Answers(action="noop"))
    async with play(stage, capabilities=("submit",)) as scene:
        peer.say(type="submit_slash", text=text)
        peer.say(type="notify", message="behind")
        await scene.viewer.sees("ext_notify")
        assert peer.of("command_invoked") == []
    assert f"submit_slash was dropped: {text!r} is no registered command" in stage.log("a")


@pytest.mark.promise("S39")
async def test_what_a_slash_command_asks_for_is_the_only_thing_that_queues(stage: Stage) -> None:
    peer = stage.enter("a", Answers(action="prompt", prompt="after this"))
    async with play(stage, [], says("done"), capabilities=("submit",)) as scene:
        first = await scene.send("think")
        await scene.viewer.sees("assistant_start")
        peer.say(type="submit_slash", text="/go")
        await scene.viewer.sees("command_result")
        queued = await scene.viewer.sees("queue")
        assert [row["text"] for row in queued["turns"]] == ["after this"]
        scene.session.abort()
        await scene.session.wait(first)
        await scene.viewer.sees("done", 2)


async def test_a_command_inside_its_own_tool_call_is_no_deadlock(stage: Stage) -> None:
    class Asks(Peer):
        call = ""

        def called(self, frame: Frame) -> None:
            self.call = frame["id"]
            self.say(type="submit_slash", text="/go")

        def invoked(self, frame: Frame) -> None:
            super().invoked(frame)
            self.say(type="tool_result", id=self.call, content=[{"type": "text", "text": "asked"}])

    stage.enter("a", Asks(COMMAND, {"type": "register_tool", "name": "ask"}))
    async with play(stage, calls("ask"), says("done")) as scene:
        outcome: Outcome = await scene.prompt()
        assert outcome.text == "done"
        assert asyncio.get_running_loop().time() < 1
