"""Prompts and commands that extensions submit: taken only where a client said that it wants them."""

from __future__ import annotations

import pytest

from tests.clients import Machine, types
from tests.daemon.puppets import Stage, event, flags, response, words

SUBMIT = {"type": "submit", "text": "from the extension"}
SLOW = {"reply": [{"text": "one two three four five", "delay_ms": 60_000}]}
ECHO = {"reply": [{"text": "echo"}], "times": 0}


@pytest.mark.promise("S39")
def test_an_idle_session_runs_what_an_extension_submits_and_says_whose_it_is(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={"submit": True})
    stage.say("pup", SUBMIT)
    asked = stage.event("user_message")
    assert (asked["origin"], asked["content"]) == (
        "extension:pup",
        [{"type": "text", "text": "from the extension"}],
    )
    assert stage.event("done", turn_id=asked["turn_id"])["stop"] == "end_turn"


@pytest.mark.promise("S39")
def test_a_busy_session_queues_it_and_announces_that(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={"submit": True}, script=[SLOW, ECHO])
    turn = stage.call("turn/start", text="mine")["turn_id"]
    stage.event("text_delta")
    stage.say("pup", SUBMIT)
    waiting = stage.event("queue")["turns"]
    assert [(row["text"], row["client"]) for row in waiting] == [("from the extension", "extension:pup")]
    assert stage.state["queue"] == waiting
    stage.call("turn/abort")
    stage.event("done", turn_id=turn)
    assert stage.event("queue")["turns"] == []
    assert stage.event("user_message", turn_id=waiting[0]["turn_id"])["origin"] == "extension:pup"
    assert stage.event("done", turn_id=waiting[0]["turn_id"])["stop"] == "end_turn"


@pytest.mark.promise("S39")
def test_blank_text_is_ignored(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={"submit": True})
    stage.say("pup", {"type": "submit", "text": " \n\t"}, SUBMIT)
    first = stage.event("user_message")
    assert first["content"] == [{"type": "text", "text": "from the extension"}]


@pytest.mark.promise("S39")
def test_without_a_client_that_takes_it_it_is_ignored_and_logged(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={"panels": True, "submit": False})
    turn = stage.say("pup", SUBMIT)
    stage.event("done", turn_id=turn)
    assert stage.state["message_count"] == 0
    assert "submit was ignored: no attached client takes prompts of extensions" in stage.log("pup")


@pytest.mark.promise("S39")
@pytest.mark.parametrize("mode", ["-p", "--json"])
def test_print_and_json_mode_ignore_it(machine: Machine, mode: str) -> None:
    text = words("pup", SUBMIT, response("display", display="shown"))
    done = machine.run(mode, *flags(machine, "pup"), text, stdin=None)
    assert done.returncode == 0
    assert "You said" not in done.stdout
    assert "submit was ignored" in (machine.home / "logs" / "ext-pup.log").read_text()


@pytest.mark.promise("S39")
def test_the_zot_dialect_takes_it_from_clients_that_say_so(machine: Machine) -> None:
    deaf = machine.rpc(*flags(machine, "pup"))
    deaf.send({"type": "prompt", "message": words("pup", SUBMIT)})
    deaf.until("done")
    assert deaf.ask("get_state")["data"]["message_count"] == 0
    client = machine.rpc(*flags(machine, "second"))
    client.ask("hello", capabilities=["submit"])
    client.send({"type": "prompt", "message": words("second", SUBMIT)})
    assert client.until("user_message")[-1]["origin"] == "extension:second"
    assert "turn_end" in types(client.until("done"))


def test_its_own_command_an_extension_can_always_run(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={})
    shown = words("pup", response("display", display="by itself"))
    stage.say("pup", {"type": "submit_slash", "text": shown})
    assert stage.event("ext_display")["text"] == "by itself"


@pytest.mark.parametrize("takes", [True, False])
def test_commands_of_others_only_where_a_client_takes_them(machine: Machine, takes: bool) -> None:
    stage = Stage(machine, "pup", "other", capabilities={"submit": takes})
    shown = words("other", response("display", display="by another"))
    turn = stage.say("pup", {"type": "submit_slash", "text": shown})
    if takes:
        assert event(stage.client, "ext_display", extension="other")["text"] == "by another"
    else:
        stage.event("done", turn_id=turn)
        assert "was ignored: no attached client takes it" in stage.log("pup")
        assert "ext_display" not in types(stage.client.events)


@pytest.mark.parametrize("takes", [True, False])
def test_built_in_commands_only_where_a_client_takes_them(machine: Machine, takes: bool) -> None:
    stage = Stage(machine, "pup", capabilities={"submit": takes})
    turn = stage.say("pup", {"type": "submit_slash", "text": "/reload-ext"})
    if takes:
        assert stage.event("command_result", name="reload-ext").get("error") is None
        assert [row["state"] for row in stage.call("extension/list")["extensions"]] == ["ready"]
    else:
        stage.event("done", turn_id=turn)
        assert "was ignored: no attached client takes it" in stage.log("pup")


@pytest.mark.parametrize("text", ["pup []", " /pup []", "/nobody", "", "/pup []\nsecond line"])
def test_what_is_no_command_is_dropped_and_logged(machine: Machine, text: str) -> None:
    stage = Stage(machine, "pup", capabilities={"submit": True})
    turn = stage.say("pup", {"type": "submit_slash", "text": text})
    stage.event("done", turn_id=turn)
    assert "submit_slash was dropped" in stage.log("pup")
    assert stage.state["message_count"] == 0


def test_a_zot_client_is_sent_no_done_of_a_command_that_an_extension_ran(machine: Machine) -> None:
    client = machine.rpc(*flags(machine, "pup"))
    shown = words("pup", response("display", display="by itself"))
    client.send({"type": "prompt", "message": words("pup", {"type": "submit_slash", "text": shown})})
    frames = client.until("command_result") + client.until("command_result")
    client.send({"type": "prompt", "message": "hello", "id": 7})
    frames += client.until("turn_end")
    frames += client.until("done")
    assert types(frames).count("done") == 2


def test_prompts_that_wait_are_bounded(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={"submit": True}, script=[SLOW, ECHO])
    stage.call("turn/start", text="mine")
    stage.event("text_delta")
    done = stage.say("pup", *[SUBMIT] * 600)
    stage.event("done", turn_id=done)
    assert len(stage.state["queue"]) == 256
    (note,) = [row for row in stage.state["notes"] if row["level"] == "warn"]
    assert note["text"] == "prompts that extension pup submits are dropped: 256 prompts wait already"
    assert "submit was dropped: 256 prompts wait already" in stage.log("pup")
    refused = stage.error("turn/start", text="one more")
    assert (refused["data"]["kind"], refused["message"]) == ("busy", "256 prompts wait already")
    asked = stage.say("pup", response("prompt", prompt="by a command"))
    assert stage.event("done", turn_id=asked)["stop"] == "error"
    assert len(stage.call("turn/abort", clear_queue=True)["unqueued"]) == 256


def test_prompts_that_wait_fit_into_one_event(machine: Machine) -> None:
    stage = Stage(machine, "pup", capabilities={"submit": True}, script=[SLOW, ECHO])
    stage.call("turn/start", text="mine")
    stage.event("text_delta")
    stage.call("turn/start", text="x" * 2**20)
    assert "more than 2,097,152 bytes" in stage.error("turn/start", text="x" * (2**20 + 1))["message"]
    turn = stage.call("turn/start", text="y")["turn_id"]
    assert [row["turn_id"] for row in stage.state["queue"]][1:] == [turn]
    stage.call("turn/abort", clear_queue=True)


def test_a_zot_client_is_told_that_too_many_prompts_wait(machine: Machine) -> None:
    client = machine.rpc(*machine.script(SLOW, ECHO))
    client.send({"type": "prompt", "message": "first"})
    client.until("text_delta")
    for _ in range(256):
        client.send({"type": "prompt", "message": "more"})
    assert client.ask("prompt", message="one more")["error"] == "256 prompts wait already"
