"""A run of one prompt ends when all that it caused has ended, and not later."""

from __future__ import annotations

import json

import pytest

from tests.clients import Frame, Machine, types
from tests.daemon.puppets import flags, response, words

LATER = {"type": "submit_slash", "text": words("pup", response("display", display="later"))}
ASKS = {"type": "submit_slash", "text": words("pup", response("prompt", prompt="and then"))}
RESTLESS = """
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name="restless", version="1", capabilities=["commands"])
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="register_command", name="again", description="runs itself")
        send(type="register_command", name="never", description="never answers")
        send(type="register_command", name="wait", description="runs what never answers")
        send(type="ready")
    elif frame["type"] == "command_invoked" and frame["name"] != "never":
        send(type="submit_slash", text="/again" if frame["name"] == "again" else "/never")
        send(type="command_response", id=frame["id"], action="display", display="shown")
    elif frame["type"] == "shutdown":
        break
"""


def restless(machine: Machine) -> list[str]:
    return ["--provider", "scripted", "--ext", str(machine.extension("restless", RESTLESS))]


def test_a_command_that_a_command_runs_is_waited_for(machine: Machine) -> None:
    text = words("pup", LATER, response("display", display="now"))
    done = machine.run("-p", *flags(machine, "pup"), text, stdin=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["later", "now"]


def test_json_mode_shows_its_whole_end_before_the_result(machine: Machine) -> None:
    text = words("pup", LATER, response("display", display="now"))
    events, result, code = machine.json(*flags(machine, "pup"), text)
    assert (code, result["ok"], result["text"]) == (0, True, "now")
    assert [event["stop"] for event in events if event["type"] == "done"] == ["end_turn"] * 2
    assert types(events).count("ext_display") == 2


def test_a_turn_that_it_causes_is_waited_for_and_its_answer_printed_after_the_other(machine: Machine) -> None:
    argv = flags(machine, "pup")
    text = words("pup", ASKS, response("prompt", prompt="first"))
    done = machine.run("-p", *argv, text, stdin=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: first\nYou said: and then\n", "")
    events, result, code = machine.json(*argv, text)
    assert (code, result["text"]) == (0, "You said: first")
    assert types(events).count("turn_end") == 2


def test_an_error_of_a_turn_that_it_causes_is_told(machine: Machine) -> None:
    script: list[Frame] = [
        {"reply": [{"text": "fine"}]},
        {"error": {"status": 400, "message": "the model is ill"}},
    ]
    text = words("pup", ASKS, response("prompt", prompt="first"))
    done = machine.run("-p", *flags(machine, "pup", script=script), text, stdin=None)
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert "the model is ill" in done.stderr


@pytest.mark.parametrize("mode", ["-p", "--json"])
def test_a_command_that_runs_itself_for_ever_does_not_hold_the_run(machine: Machine, mode: str) -> None:
    done = machine.run(mode, *restless(machine), "/again", stdin=None)
    assert done.returncode == 0
    assert "what extension restless submits is ignored: the run is ending" in done.stdout + done.stderr
    if mode == "--json":
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert {event["stop"] for event in events if event["type"] == "done"} == {"end_turn"}
        assert (events[-1]["type"], events[-1]["ok"]) == ("result", True)


@pytest.mark.parametrize("dialect", ["zot", "json-rpc"])
def test_nor_does_it_hold_a_server_whose_input_has_ended(machine: Machine, dialect: str) -> None:
    client = machine.rpc(*restless(machine))
    if dialect == "zot":
        client.send({"type": "prompt", "message": "/again"})
        client.until("command_result")
    else:
        session = client.greet().session()
        client.call("command/run", session_id=session, name="again")
    client.hang_up()
    assert client.exit_code() == 0


def test_a_command_that_is_waited_for_ends_with_the_time_out(machine: Machine) -> None:
    done = machine.run("-p", *restless(machine), "--timeout", "1.5", "/wait", stdin=None)
    assert (done.returncode, done.stdout) == (124, "shown\n")
    assert "zotd: gave up: --timeout is over" in done.stderr.splitlines()
