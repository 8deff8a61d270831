"""Panels of extensions as clients see them, in both dialects, with real processes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients import Frame, Machine, types
from tests.daemon.puppets import PANEL, Stage, flags, panel, response, words

SHOWN = {
    "extension": "pup",
    "panel_id": "p1",
    "title": "Todos",
    "lines": ["one", "two"],
    "footer": "esc close",
}
HERE = {"extension": "pup", "panel_id": "p1"}


def without_envelope(event: Frame) -> Frame:
    return {key: event[key] for key in SHOWN if key in event}


@pytest.mark.promise("S36")
def test_a_command_opens_a_panel_that_clients_and_late_comers_see(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    turn = stage.say("pup", response("open_panel", open_panel=PANEL))
    assert without_envelope(stage.event("ext_panel_open")) == SHOWN
    assert stage.event("command_result", turn_id=turn)["action"] == "open_panel"
    assert stage.event("done", turn_id=turn)["stop"] == "end_turn"
    assert stage.state["panels"] == [SHOWN]


@pytest.mark.promise("S40", "S41")
def test_a_panel_is_drawn_again_and_closed_by_its_extension(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", panel(), {"type": "panel_render", "panel_id": "p1", "lines": ["three"]})
    drawn = without_envelope(stage.event("ext_panel_render"))
    assert drawn == {**SHOWN, "lines": ["three"], "footer": ""}
    assert stage.state["panels"] == [drawn]
    stage.say("pup", {"type": "panel_render", "panel_id": "p1", "title": "New", "lines": []})
    assert stage.event("ext_panel_render")["title"] == "New"
    stage.say("pup", {"type": "panel_close", "panel_id": "p1"})
    assert without_envelope(stage.event("ext_panel_close")) == HERE
    assert stage.state["panels"] == []


@pytest.mark.promise("S36", "S40")
def test_text_of_a_panel_holds_no_control_sequences_but_colours(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    hostile = "\x1b[32mok\x1b[0m\x1b]0;owned\x07\x1b[2J"
    stage.say("pup", panel(title=hostile, lines=[hostile, "a\nb"], footer=hostile))
    shown = stage.event("ext_panel_open")
    clean = "\x1b[32mok\x1b[0m"
    assert (shown["title"], shown["lines"], shown["footer"]) == (clean, [clean, "a", "b"], clean)
    stage.say("pup", {"type": "panel_render", "panel_id": "p1", "title": hostile, "footer": "\x9b2Jx"})
    drawn = stage.event("ext_panel_render")
    assert (drawn["title"], drawn["footer"]) == (clean, "x")


def test_a_second_panel_of_an_extension_closes_the_first(machine: Machine) -> None:
    stage = Stage(machine, "pup", "other")
    stage.say("other", panel(id="theirs"))
    stage.event("ext_panel_open", extension="other")
    stage.say("pup", panel(), panel(id="p2"))
    stage.event("ext_panel_open", panel_id="p1")
    assert stage.event("ext_panel_close")["panel_id"] == "p1"
    stage.event("ext_panel_open", panel_id="p2")
    assert [row["panel_id"] for row in stage.state["panels"]] == ["theirs", "p2"]


@pytest.mark.promise("S50")
def test_drawing_and_closing_count_only_from_the_owner_and_for_the_open_panel(machine: Machine) -> None:
    stage = Stage(machine, "pup", "other")
    stage.say("pup", panel())
    stage.event("ext_panel_open")
    foreign = {"type": "panel_render", "panel_id": "p1", "lines": ["mine now"]}
    ended = stage.say("other", foreign, {"type": "panel_close", "panel_id": "p1"})
    stage.event("done", turn_id=ended)
    ended = stage.say(
        "pup", {"type": "panel_render", "panel_id": "p9"}, {"type": "panel_close", "panel_id": "p9"}
    )
    stage.event("done", turn_id=ended)
    assert stage.state["panels"] == [SHOWN]
    assert "panel_render for 'p1' was ignored" in stage.log("other")
    assert "panel_close for 'p1' was ignored" in stage.log("other")
    assert "panel_render for 'p9' was ignored" in stage.log("pup")
    stage.call("panel/close", **HERE)
    stage.event("ext_panel_close")
    ended = stage.say("pup", {"type": "panel_render", "panel_id": "p1", "lines": ["late"]})
    stage.event("done", turn_id=ended)
    assert stage.state["panels"] == []
    assert "panel_render for 'p1' was ignored" in stage.log("pup")


@pytest.mark.promise("S49")
@pytest.mark.parametrize(
    "key",
    [
        *("up", "down", "left", "right", "enter", "tab", "pageup", "pagedown", "home", "end"),
        *("backspace", "delete"),
    ],
)
def test_a_key_reaches_the_extension_by_its_name(machine: Machine, key: str) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", panel())
    stage.event("ext_panel_open")
    assert stage.call("panel/key", **HERE, key=key) == {}
    assert stage.heard("panel_key") == {"type": "panel_key", "panel_id": "p1", "key": key}


@pytest.mark.promise("S49")
def test_characters_come_one_to_a_frame(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", panel())
    stage.event("ext_panel_open")
    stage.call("panel/key", **HERE, key="rune", text="aß日")
    frames = [stage.heard("panel_key") for _ in range(3)]
    assert [(frame["key"], frame["text"]) for frame in frames] == [
        ("rune", "a"),
        ("rune", "ß"),
        ("rune", "日"),
    ]


@pytest.mark.promise("S49", "S50")
@pytest.mark.parametrize("key", ["esc", "ctrl+c"])
def test_keys_that_close_a_panel_are_never_sent_as_keys(machine: Machine, key: str) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", panel())
    stage.event("ext_panel_open")
    number = stage.client.request("panel/key", session_id=stage.session, **HERE, key=key)
    assert stage.client.reply(number)["result"] == {}
    assert "ext_panel_close" not in types(stage.client.events)
    stage.event("ext_panel_close")
    note = json.loads(stage.event("ext_notify")["message"])
    assert note == {"type": "panel_close", "panel_id": "p1"}


def test_keys_that_do_not_exist_and_panels_that_are_not_open_are_refused(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", panel())
    stage.event("ext_panel_open")
    wrong = stage.error("panel/key", **HERE, key="f13")
    assert (wrong["code"], wrong["data"]["kind"]) == (-32602, "invalid_params")
    assert stage.error("panel/key", **HERE, key="rune")["code"] == -32602
    assert stage.error("panel/resize", **HERE, width=0, height=24)["code"] == -32602
    nowhere = {"extension": "pup", "panel_id": "p9"}
    assert stage.error("panel/key", **nowhere, key="up")["data"]["kind"] == "panel_not_found"
    assert stage.error("panel/close", **nowhere)["data"]["kind"] == "panel_not_found"
    nobody = {"extension": "nobody", "panel_id": "p1"}
    assert stage.error("panel/resize", **nobody, width=80, height=24)["data"]["kind"] == "panel_not_found"
    assert stage.state["panels"] == [SHOWN]


@pytest.mark.promise("S50")
def test_a_size_is_told_only_to_who_asked_for_it(machine: Machine) -> None:
    stage = Stage(machine, "pup", "deaf", deaf=("deaf",))
    told = {"type": "panel_resize", "panel_id": "p1", "width": 80, "height": 24}
    key = {"type": "panel_key", "panel_id": "p1", "key": "up"}
    for name, expected in (("pup", [told, key]), ("deaf", [key])):
        stage.say(name, panel())
        stage.event("ext_panel_open", extension=name)
        assert stage.call("panel/resize", extension=name, panel_id="p1", width=80, height=24) == {}
        stage.call("panel/key", extension=name, panel_id="p1", key="up")
        assert [json.loads(stage.event("ext_notify")["message"]) for _ in expected] == expected


@pytest.mark.promise("S50")
def test_where_no_client_shows_panels_one_is_closed_at_once_and_the_log_says_why(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={})
    stage.say("pup", panel())
    assert stage.heard("panel_close") == {"type": "panel_close", "panel_id": "p1"}
    assert "panel 'p1' was closed at once: no attached client shows panels" in stage.log("pup")
    assert stage.state["panels"] == []
    assert "ext_panel_open" not in types(stage.client.events)


def test_a_panel_goes_with_its_extension(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", panel())
    stage.event("ext_panel_open")
    stage.say("pup", "exit")
    assert without_envelope(stage.event("ext_panel_close")) == HERE
    assert stage.state["panels"] == []


@pytest.mark.promise("S36", "S49", "S50")
def test_a_tool_that_asks_at_a_panel_of_its_own_command_is_answered_by_a_key(machine: Machine) -> None:
    call = {"reply": [{"tool_call": {"name": "approve", "args": {}}}]}
    stage = Stage(machine, "pup", script=[call, {"reply": [{"text": "fine"}]}])
    turn = stage.call("turn/start", text="go")["turn_id"]
    opened = stage.event("ext_panel_open")
    assert (opened["panel_id"], opened["lines"]) == ("approval", ["rm -rf build"])
    assert stage.state["busy"]
    stage.call("panel/key", extension="pup", panel_id="approval", key="rune", text="y")
    while not {"tool_result", "ext_panel_close"} <= {*types(stage.client.events)}:
        stage.client.take()
    result = stage.event("tool_result")
    assert result["content"] == [{"type": "text", "text": "y"}]
    assert stage.call("turn/wait", turn_id=turn)["text"] == "fine"
    assert stage.state["panels"] == []


# The zot dialect


@pytest.mark.promise("S36", "S49", "S50")
@pytest.mark.parametrize("said", [["panels"], {"panels": True, "insert": False}])
def test_the_zot_dialect_shows_panels_to_who_says_hello_with_the_capability(
    machine: Machine, said: Any
) -> None:
    client = machine.rpc(*flags(machine, "pup"))
    assert client.ask("hello", capabilities=said)["success"]
    client.send({"type": "prompt", "message": words("pup", panel())})
    client.until("ext_panel_open")
    client.until("done")
    assert client.ask("panel_resize", **HERE, width=80, height=24)["success"]
    assert json.loads(client.until("ext_notify")[-1]["message"])["type"] == "panel_resize"
    assert client.ask("panel_key", **HERE, key="rune", text="x")["success"]
    note = json.loads(client.until("ext_notify")[-1]["message"])
    assert note == {"type": "panel_key", "panel_id": "p1", "key": "rune", "text": "x"}
    for wrong, why in [({"key": "f13"}, "f13"), ({"key": "rune"}, "text")]:
        answer = client.ask("panel_key", **HERE, **wrong)
        assert not answer["success"]
        assert why in answer["error"]
    assert not client.ask("panel_resize", **HERE, width=0, height=1)["success"]
    client.send({"type": "panel_close", **HERE})
    assert types(client.until("ext_panel_close")) == ["response", "ext_panel_close"]
    assert "no panel 'p1' open" in client.ask("panel_close", **HERE)["error"]


@pytest.mark.parametrize("said", [[], {"panels": False}, ["Panels", 3]])
def test_the_zot_dialect_shows_no_panels_to_others(machine: Machine, said: Any) -> None:
    client = machine.rpc(*flags(machine, "pup"))
    client.ask("hello", capabilities=said)
    client.send({"type": "prompt", "message": words("pup", panel())})
    note = client.until("ext_notify")
    assert json.loads(note[-1]["message"]) == {"type": "panel_close", "panel_id": "p1"}
    assert "ext_panel_open" not in types(note)


# Without a client


@pytest.mark.promise("S36")
def test_print_mode_prints_the_lines_of_a_panel_once(machine: Machine) -> None:
    text = words("pup", response("open_panel", open_panel={**PANEL, "lines": ["one", "two\x1b[2J"]}))
    done = machine.run("-p", *flags(machine, "pup"), text, stdin=None)
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n"), done.stderr


@pytest.mark.promise("S36")
def test_json_mode_shows_a_panel_as_an_event(machine: Machine) -> None:
    text = words("pup", response("open_panel", open_panel=PANEL))
    events, result, code = machine.json(*flags(machine, "pup"), text)
    shown = [event for event in events if event["type"].startswith("ext_panel")]
    assert types(shown) == ["ext_panel_open", "ext_panel_close"]
    assert without_envelope(shown[0]) == SHOWN
    assert (result["ok"], result["text"], code) == (True, "one\ntwo", 0)
