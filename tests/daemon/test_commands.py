"""Slash commands, extensions and tools as clients ask for them, with real processes."""

from __future__ import annotations

import json
import os

import pytest

from tests.clients import Frame, Machine, types
from tests.daemon.puppets import PANEL, Stage, flags, response, words

SLOW = {"reply": [{"text": "one two three four five", "delay_ms": 60_000}]}
ECHO = {"reply": [{"text": "echo"}], "times": 0}


def test_commands_are_listed_with_ours_first(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    commands = stage.call("command/list")["commands"]
    assert [(row["name"], row["source"], row.get("extension")) for row in commands] == [
        ("clear", "builtin", None),
        ("compact", "builtin", None),
        ("reload-ext", "builtin", None),
        ("pup", "extension", "pup"),
        ("approve", "extension", "pup"),
    ]
    client = machine.rpc(*flags(machine, "second"))
    shown = client.ask("get_commands")["data"]["commands"]
    assert [row["name"] for row in shown] == ["clear", "compact", "reload-ext", "second", "approve"]


@pytest.mark.promise("S34", "S35", "S36", "S37", "S38")
@pytest.mark.parametrize(
    ("action", "more", "shown"),
    [
        ("display", {"display": "text"}, "ext_display"),
        ("insert", {"insert": "text"}, "ext_insert"),
        ("open_panel", {"open_panel": PANEL}, "ext_panel_open"),
        ("noop", {}, None),
        ("noop", {"error": "no luck"}, "ext_notify"),
        ("display", {"display": "text", "error": "no luck"}, "ext_notify"),
    ],
)
def test_each_action_is_shown_then_the_result_then_done(
    machine: Machine, action: str, more: dict[str, str], shown: str | None
) -> None:
    stage = Stage(machine, "pup")
    args = json.dumps([response(action, **more)])
    ran = stage.call("command/run", name="PUP", args=args)
    assert (ran["action"], ran.get("error")) == (action, more.get("error"))
    seen: list[Frame] = []
    while not seen or seen[-1]["type"] != "done":
        stage.client.take() if not stage.client.events else seen.append(stage.client.events.pop(0))
    seen = [event for event in seen if event["type"] not in ("ext_state", "ext_registered")]
    assert types(seen) == [*([shown] if shown else []), "command_result", "done"]
    assert [event["turn_id"] for event in seen[-2:]] == [ran["turn_id"]] * 2
    assert (seen[-2]["action"], seen[-2].get("error")) == (action, more.get("error"))
    assert seen[-1]["stop"] == ("error" if "error" in more else "end_turn")
    assert stage.state["message_count"] == 0


@pytest.mark.promise("S33")
def test_a_command_that_answers_with_a_prompt_becomes_the_turn_of_its_id(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    turn = stage.say("pup", response("prompt", prompt="ask this"))
    asked = stage.event("user_message")
    assert (asked["turn_id"], asked["origin"]) == (turn, "extension:pup")
    stage.event("done", turn_id=turn)
    assert stage.call("turn/wait", turn_id=turn)["text"] == "You said: ask this"
    assert "done" not in types(stage.client.events)
    ran = stage.call("command/run", name="pup", args=json.dumps([response("prompt", prompt="again")]))
    assert ran["action"] == "prompt"
    assert stage.call("turn/wait", turn_id=ran["turn_id"])["text"] == "You said: again"


@pytest.mark.promise("S33", "S35")
def test_a_command_runs_at_once_during_a_turn_and_only_its_prompt_waits(machine: Machine) -> None:
    stage = Stage(machine, "pup", script=[SLOW, ECHO])
    first = stage.call("turn/start", text="slow")["turn_id"]
    stage.event("text_delta")
    shown = stage.say("pup", response("display", display="meanwhile"))
    assert stage.event("ext_display")["text"] == "meanwhile"
    assert stage.event("done")["turn_id"] == shown
    later = stage.say("pup", response("prompt", prompt="then this"))
    assert [row["turn_id"] for row in stage.event("queue")["turns"]] == [later]
    assert stage.state["active_turn"] == first
    stage.call("turn/abort")
    assert stage.event("done")["turn_id"] == first
    assert stage.event("done")["turn_id"] == later


def test_a_command_runs_during_a_turn_though_a_prompt_would_be_rejected(machine: Machine) -> None:
    stage = Stage(machine, "pup", script=[SLOW, ECHO])
    stage.call("turn/start", text="slow")
    stage.event("text_delta")
    assert stage.error("turn/start", text="more", if_busy="reject")["data"]["kind"] == "busy"
    text = words("pup", response("display", display="meanwhile"))
    assert stage.call("turn/start", text=text, if_busy="reject")["state"] == "command"
    assert stage.event("ext_display")["text"] == "meanwhile"


def test_what_is_no_command_extension_or_session_is_refused(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    assert stage.error("command/run", name="nothing")["data"]["kind"] == "command_not_found"
    assert stage.error("command/run", name="help")["data"]["kind"] == "command_not_found"
    assert stage.error("extension/log", name="../pup")["data"]["kind"] == "extension_not_found"
    for method in ("command/list", "extension/list", "extension/reload", "tool/list", "session/clear"):
        assert stage.client.error(method, session_id="x")["data"]["kind"] == "session_not_found"


def test_a_conversation_is_cleared_by_method_and_by_name(machine: Machine) -> None:
    stage = Stage(machine)
    for method in ("session/clear", "command/run"):
        turn = stage.call("turn/start", text="hello")["turn_id"]
        stage.call("turn/wait", turn_id=turn)
        assert stage.state["message_count"] == 2
        stage.call(method, **({"name": "/Clear"} if method == "command/run" else {}))
        assert stage.state["message_count"] == 0


def test_a_prompt_right_behind_a_clear_begins_anew(machine: Machine) -> None:
    def packet(*frames: Frame) -> bytes:
        return b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)

    def request(number: str, method: str, **params: str) -> Frame:
        params["session_id"] = stage.session
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

    stage = Stage(machine)
    for clear in (
        request("clear", "turn/start", text="/clear"),
        request("clear", "command/run", name="clear"),
    ):
        stage.call("turn/wait", turn_id=stage.call("turn/start", text="old")["turn_id"])
        stage.client.write(packet(clear, request("new", "turn/start", text="new")))
        assert "error" not in stage.client.reply("clear")["result"]
        assert stage.event("command_result").get("error") is None
        stage.call("turn/wait", turn_id=stage.client.reply("new")["result"]["turn_id"])
        assert stage.state["message_count"] == 2

    zot = machine.rpc("--provider", "scripted")
    for clear in ({"type": "prompt", "message": "/clear"}, {"type": "run_command", "name": "clear"}):
        zot.send({"type": "prompt", "message": "old"})
        zot.until("done")
        zot.write(packet(clear, {"type": "prompt", "message": "new"}))
        assert zot.until("command_result")[-1].get("error") is None
        zot.until("done")  # of the command
        zot.until("done")
        assert zot.ask("get_state")["data"]["message_count"] == 2


def test_nothing_is_cleared_while_a_turn_runs(machine: Machine) -> None:
    stage = Stage(machine, script=[SLOW])
    stage.call("turn/start", text="hello")
    stage.event("text_delta")
    assert stage.error("session/clear")["data"]["kind"] == "busy"
    ran = stage.call("command/run", name="clear")
    assert "a turn is running" in ran["error"]
    assert stage.state["message_count"] == 1


@pytest.mark.parametrize(
    "text", ["/clear now", "/help", "/ compact", "/compaction", "/reload-ext please", "tell me about /clear"]
)
def test_other_words_with_a_slash_go_to_the_model(machine: Machine, text: str) -> None:
    done = machine.run("-p", "--provider", "scripted", text, stdin=None)
    assert (done.returncode, done.stdout) == (0, f"You said: {text}\n")


@pytest.mark.promise("S34", "S35")
@pytest.mark.parametrize("action", ["insert", "display"])
def test_print_mode_prints_what_a_command_shows(machine: Machine, action: str) -> None:
    text = words("pup", response(action, **{action: "a\tb\x1b[2J\nc"}))
    done = machine.run("-p", *flags(machine, "pup"), text, stdin=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\tb\nc\n", "")


@pytest.mark.promise("S38")
@pytest.mark.parametrize("action", ["prompt", "display", "noop"])
def test_an_error_goes_to_standard_error_and_exits_1(machine: Machine, action: str) -> None:
    text = words("pup", response(action, prompt="x", display="y", error="no luck"))
    done = machine.run("-p", *flags(machine, "pup"), text, stdin=None)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "[pup] error: no luck\n")


# Extensions and tools


@pytest.mark.promise("S51", "S67", "S69")
@pytest.mark.parametrize("how", ["extension/reload", "/reload-ext", "reload_ext"])
def test_extensions_are_loaded_anew_and_every_failure_is_told(machine: Machine, how: str) -> None:
    argv = flags(machine, "pup", "frail")
    source = machine.root / "pup" / "main.py"

    def edit() -> None:
        fresh = source.read_text().replace(
            'name="approve", description="open', 'name="fresh", description="open'
        )
        source.write_text(fresh)
        (machine.root / "frail" / "main.py").write_text("import sys; sys.exit(7)")

    if how == "reload_ext":
        zot = machine.rpc(*argv)
        zot.ask("get_commands")
        edit()
        answer = zot.ask("reload_ext", id=3)
        assert (answer["success"], answer["id"]) == (True, 3)
        told = answer["data"]
        names = [row["name"] for row in zot.ask("get_commands")["data"]["commands"]]
    else:
        client = machine.rpc(*argv).greet()
        session = client.session()
        client.call("command/list", session_id=session)
        edit()
        if how == "extension/reload":
            told = client.call(how, session_id=session)
        else:
            turn = client.call("turn/start", session_id=session, text=how)["turn_id"]
            shown = client.call("turn/wait", session_id=session, turn_id=turn)
            assert shown["text"] == "stopped: pup, frail; ready: pup; failed: 1"
            told = None
        notes = client.call("session/state", session_id=session)["session"]["notes"]
        assert [note["extension"] for note in notes if note.get("level") == "error"] == ["frail"]
        names = [row["name"] for row in client.call("command/list", session_id=session)["commands"]]
    assert "fresh" in names
    if told is not None:
        assert (told["stopped"], told["ready"]) == (["pup", "frail"], ["pup"])
        assert [error["path"] for error in told["errors"]] == [str(machine.root / "frail")]
        assert "exit status 7" in told["errors"][0]["message"]


def test_a_reload_is_answered_behind_its_events_and_holds_up_no_other_answer(machine: Machine) -> None:
    zot = machine.rpc(*flags(machine, "pup"))
    zot.ask("get_commands")
    zot.send({"type": "reload_ext", "id": "slow"})
    zot.send({"type": "get_state", "id": "quick"})
    frames = zot.until("response")
    assert (frames[-1]["id"], types(frames).count("ext_registered")) == ("quick", 0)
    frames = zot.until("response")
    states = [frame["state"] for frame in frames if frame["type"] == "ext_state"]
    assert (frames[-1]["id"], states) == ("slow", ["stopped", "starting", "ready"])


def test_the_end_of_a_log_and_its_place_are_told(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    stage.call("command/list")
    told = stage.call("extension/log", name="pup")
    assert told["path"] == str(machine.home / "logs" / "ext-pup.log")
    assert told["text"].startswith("[zotd] starting pup/1 at ")
    for number in range(3):
        ended = stage.say("pup", {"type": "panel_close", "panel_id": f"p{number}"})
        stage.event("done", turn_id=ended)
    last = stage.call("extension/log", name="pup", lines=2)["text"].splitlines()
    assert ["'p1'" in last[0], "'p2'" in last[1], len(last)] == [True, True, 2]
    assert stage.call("extension/log", name="pup", lines=0)["text"] == ""
    assert stage.error("extension/log", name="pup", lines=-1)["code"] == -32602


def test_extensions_are_listed_with_what_they_offer(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    (row,) = stage.call("extension/list")["extensions"]
    assert (row["name"], row["state"], row["scope"], row["commands"], row["tools"]) == (
        "pup",
        "ready",
        "flag",
        ["pup", "approve"],
        ["approve"],
    )


@pytest.mark.promise("S21")
def test_tools_are_listed_with_their_owner_and_whether_the_model_knows_them(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    ended = stage.say("pup", {"type": "register_tool", "name": "later", "deferred": True})
    stage.event("done", turn_id=ended)
    tools = {row["name"]: row for row in stage.call("tool/list")["tools"]}
    assert (tools["bash"]["source"], tools["bash"]["active"], tools["bash"]["deferred"]) == (
        "builtin",
        True,
        False,
    )
    assert "extension" not in tools["bash"]
    assert tools["approve"] == {
        "name": "approve",
        "description": "ask",
        "schema": {"type": "object"},
        "source": "extension",
        "extension": "pup",
        "deferred": False,
        "active": True,
    }
    assert (tools["later"]["deferred"], tools["later"]["active"]) == (True, False)


def test_a_log_that_became_a_pipe_is_an_empty_one(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    path = machine.home / "logs" / "ext-pup.log"
    stage.call("command/list")
    path.unlink()
    os.mkfifo(path)
    assert stage.call("extension/log", name="pup") == {"text": "", "path": str(path)}
