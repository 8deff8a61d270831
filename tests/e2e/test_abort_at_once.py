"""What is sent in one breath is answered in order, and an abort finds the prompt ahead of it."""

from __future__ import annotations

import json
import time

import pytest

from tests.clients import Machine, types
from zotd.base.limits import Limits

ECHO = """
import json, sys
def say(**frame): print(json.dumps(frame), flush=True)
say(type="hello", name="echo", version="1", capabilities=["commands"])
sys.stdin.readline()
say(type="register_command", name="echo", description="says it")
say(type="ready")
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "command_invoked":
        say(type="command_response", id=frame["id"], action="display", display="said")
    if frame["type"] == "shutdown":
        break
"""


def _lines(*frames: object) -> bytes:
    return b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)


def test_an_abort_in_the_packet_of_its_prompt_stops_that_turn(machine: Machine) -> None:
    client = machine.rpc(*machine.script({"reply": [{"text": "far too long " * 50, "delay_ms": 100}]}))
    client.write(
        _lines(
            {"type": "prompt", "message": "hi", "id": 1},
            {"type": "abort", "id": 2},
            {"type": "ping", "id": 3},
        )
    )
    frames = client.until("done")
    assert [frame["id"] for frame in frames if frame["type"] == "response"] == [1, 2, 3]
    events = [frame for frame in frames if frame["type"] != "response"]
    assert types(events) == ["user_message", "turn_end", "done"]
    assert [event["stop"] for event in events[1:]] == ["aborted", "aborted"]
    assert client.ask("get_state")["data"]["message_count"] == 1


def test_state_asked_right_after_a_prompt_is_the_state_of_its_turn(machine: Machine) -> None:
    client = machine.rpc()
    client.write(_lines({"type": "prompt", "message": "hi", "id": 1}, {"type": "get_state", "id": 2}))
    assert client.next()["id"] == 1
    state = client.until("response")[-1]
    assert state["id"] == 2
    assert state["data"]["busy"]


def test_a_command_and_the_prompt_behind_it_are_answered_in_order(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted", "--ext", machine.extension("echo", ECHO))
    client.write(
        _lines({"type": "prompt", "message": "/echo", "id": 1}, {"type": "prompt", "message": "hi", "id": 2})
    )
    client.hang_up()
    assert [frame["id"] for frame in client.rest() if frame["type"] == "response"] == [1, 2]


STUCK = """
import json, sys
def say(**frame): print(json.dumps(frame), flush=True)
say(type="hello", name="stuck", version="1")
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        say(type="subscribe", intercept=["EVENT"])
        say(type="ready")
    if frame["type"] == "event_intercept":
        say(type="notify", message="asked")
    if frame["type"] == "shutdown":
        break
"""


@pytest.mark.promise("S31")
@pytest.mark.parametrize("event", ["turn_start", "tool_call", "assistant_message"])
def test_an_abort_does_not_wait_for_an_extension_that_never_answers(machine: Machine, event: str) -> None:
    call = {"tool_call": {"name": "bash", "args": {"command": "true"}}}
    script = machine.script({"reply": [{"text": "a word"}, call]})
    client = machine.rpc(*script, "--ext", machine.extension("stuck", STUCK.replace("EVENT", event)))
    client.send({"type": "prompt", "message": "hi"})
    client.until("ext_notify")
    asked = time.monotonic()
    client.send({"type": "abort"})
    frames = client.until("done")
    assert time.monotonic() - asked < Limits().intercept_s / 2
    assert frames[-1]["stop"] == "aborted"
    said = [row for row in client.ask("get_messages")["data"]["messages"] if row["role"] == "assistant"]
    words = [block["text"] for row in said for block in row["content"] if block["type"] == "text"]
    assert words == (["a word"] if event == "tool_call" else [])
