"""The rules of what a command answers: what is missing is named, and whose answer an event is can be told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extensions.conftest import Stage
from tests.extensions.play import play
from tests.peers import Frame, Peer

COMMAND: Frame = {"type": "register_command", "name": "go"}


class Answers(Peer):
    """Answers its command with given members."""

    def __init__(self, **answer: Any) -> None:
        super().__init__(COMMAND)
        self.answer = answer

    def invoked(self, frame: Frame) -> None:
        self.say(type="command_response", id=frame["id"], **self.answer)


@pytest.mark.promise("S33", "S34", "S35", "S36")
@pytest.mark.parametrize("action", ["prompt", "insert", "display", "open_panel"])
async def test_an_action_without_what_it_acts_on_is_an_error_that_names_it(stage: Stage, action: str) -> None:
    stage.enter("a", Answers(action=action))
    async with play(stage, capabilities=("panels",)) as scene:
        outcome = await scene.prompt("/go")
        expected = f"command /go of extension a answered with {action!r} but has no member {action!r}"
        assert (outcome.stop, outcome.error) == ("error", expected)
        assert [event["message"] for event in scene.viewer.of("ext_notify")] == [expected]
        assert scene.script.requests == []


async def test_a_blank_prompt_is_an_error_of_the_command(stage: Stage) -> None:
    stage.enter("a", Answers(action="prompt", prompt=" \n"))
    async with play(stage) as scene:
        outcome = await scene.prompt("/go")
        assert outcome.error == "command /go of extension a answered with 'prompt', and the prompt is empty"


@pytest.mark.parametrize("action", ["insert", "display"])
async def test_an_empty_text_to_show_is_no_error_but_a_line_in_the_log(stage: Stage, action: str) -> None:
    stage.enter("a", Answers(action=action, **{action: ""}))
    async with play(stage) as scene:
        outcome = await scene.prompt("/go")
        assert (outcome.stop, outcome.error) == ("end_turn", None)
        assert scene.viewer.of("ext_insert", "ext_display", "ext_notify") == []
    assert f"command /go answered with an empty {action}: nothing is shown" in stage.log("a")


@pytest.mark.promise("S36")
async def test_a_panel_needs_an_id(stage: Stage) -> None:
    nameless = {"id": "", "title": "T"}
    peer = stage.enter("a", Answers(action="open_panel", open_panel=nameless))
    async with play(stage, capabilities=("panels",)) as scene:
        outcome = await scene.prompt("/go")
        assert outcome.error == "command /go of extension a answered with a panel whose id is empty"
        peer.say(type="open_panel", panel=nameless)
        peer.say(type="notify", message="said")
        await scene.viewer.sees("ext_notify", 2)
        assert scene.viewer.of("ext_panel_open") == []
    assert "open_panel was refused: its id is empty" in stage.log("a")


@pytest.mark.promise("S34", "S35", "S36", "S38")
@pytest.mark.parametrize("panels", [["panels"], []])
@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"action": "display", "display": "x"}, ["ext_display"]),
        ({"action": "insert", "insert": "x"}, ["ext_insert"]),
        ({"action": "open_panel", "open_panel": {"id": "p"}}, ["ext_panel_open"]),
        ({"error": "no luck"}, ["ext_notify"]),
    ],
)
async def test_what_shows_an_answer_carries_the_id_of_its_command(
    stage: Stage, answer: Frame, shown: list[str], panels: list[str]
) -> None:
    stage.enter("a", Answers(**answer))
    async with play(stage, [], capabilities=tuple(panels)) as scene:
        running = await scene.send("think")
        await scene.viewer.sees("assistant_start")
        before = len(scene.viewer.seen)
        command = await scene.send("/go")
        await scene.session.wait(command)
        told = scene.viewer.seen[before:]
        closed = ["ext_panel_close"] if shown == ["ext_panel_open"] and not panels else []
        assert [event["type"] for event in told] == [*shown, *closed, "command_result", "done"]
        assert [event.get("turn_id") for event in told] == [command] * len(told)
        scene.session.abort()
        await scene.session.wait(running)
