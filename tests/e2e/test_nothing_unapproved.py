"""A redactor stands between the model and everybody: in no way of using zotd is the secret seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import Machine, text_of

SECRET = "sk-live-0123456789abcdef"
REDACTOR = f"""
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name="redactor", version="1")
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="subscribe", intercept=["assistant_message"])
        send(type="ready")
    elif frame["type"] == "event_intercept":
        text = frame["text"]
        if "{SECRET}" not in text:
            send(type="event_intercept_response", id=frame["id"])
        elif text.startswith("BLOCK"):
            send(type="event_intercept_response", id=frame["id"], block=True, reason="that held a key")
        else:
            shown = text.replace("{SECRET}", "[key]")
            send(type="event_intercept_response", id=frame["id"], replace_text=shown)
    elif frame["type"] == "shutdown":
        break
"""
OBSERVER = """
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name="observer", version="1")
for line in sys.stdin:
    print(line, end="", file=sys.stderr, flush=True)
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="subscribe", events=["turn_start", "turn_end", "tool_call", "assistant_message"])
        send(type="ready")
    elif frame["type"] == "shutdown":
        break
"""
THOUGHT = {"thinking": f"I should not say {SECRET}"}
TELLS = {"match": "tell", "reply": [THOUGHT, {"text": f"It is {SECRET}, keep it."}]}
BLOCKED = {"match": "hide", "reply": [THOUGHT, {"text": f"BLOCK {SECRET}"}]}
CUT = {"match": "cut", "reply": [{"text": f"It is {SECRET}"}], "cut": True}
CALLS = {
    "match": "call",
    "reply": [{"text": f"with {SECRET}"}, {"tool_call": {"name": "bash", "args": {"command": "echo ran"}}}],
}
CALLED = {"match": "call", "reply": [{"text": "done"}]}


@pytest.fixture
def flags(machine: Machine) -> Iterator[list[str]]:
    """A model that tells the secret, a redactor, and somebody who writes all it hears into its log."""
    redactor, observer = machine.extension("redactor", REDACTOR), machine.extension("observer", OBSERVER)
    script = machine.script(TELLS, BLOCKED, CUT, CALLS, CALLED)
    yield [*script, "--ext", str(redactor), "--ext", str(observer)]
    for log in (machine.home / "logs").iterdir():
        assert SECRET not in log.read_text(), log


def heard(machine: Machine) -> list[str]:
    """The texts of messages that the observer heard."""
    lines = (machine.home / "logs" / "ext-observer.log").read_text().splitlines()
    frames = [json.loads(line) for line in lines if line.startswith("{")]
    return [frame["text"] for frame in frames if frame.get("event") == "assistant_message"]


@pytest.mark.promise("S29")
def test_print_mode_prints_what_was_approved(machine: Machine, flags: list[str]) -> None:
    done = machine.run(*flags, "-p", "tell me")
    assert (done.returncode, done.stdout, done.stderr) == (0, "It is [key], keep it.\n", "")
    assert heard(machine) == ["It is [key], keep it."]


@pytest.mark.promise("S29")
def test_print_mode_prints_nothing_of_a_blocked_message_and_says_why(
    machine: Machine, flags: list[str]
) -> None:
    done = machine.run(*flags, "-p", "hide it")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "[redactor] warn: that held a key\n"
    assert heard(machine) == []


def test_print_mode_prints_nothing_of_a_message_that_was_cut_off(machine: Machine, flags: list[str]) -> None:
    done = machine.run(*flags, "-p", "cut it")
    assert (done.returncode, done.stdout) == (1, "")
    assert SECRET not in done.stderr


@pytest.mark.parametrize("prompt", ["tell me", "hide it", "cut it", "call it"])
def test_json_mode_has_no_event_with_it(machine: Machine, flags: list[str], prompt: str) -> None:
    events, result, _ = machine.json(*flags, prompt)
    assert SECRET not in json.dumps([events, result])
    starts = [event for event in events if event["type"] == "assistant_start"]
    assert all(event["withheld_by"] == ["redactor"] for event in starts)
    assert [event for event in events if event["type"] == "thinking_delta"] == []


@pytest.mark.promise("S29")
def test_a_call_in_a_blocked_message_runs(machine: Machine, flags: list[str]) -> None:
    events, result, code = machine.json(*flags, "call it")
    assert (code, result["text"]) == (0, "done")
    (ran,) = [event for event in events if event["type"] == "tool_result"]
    assert "ran" in ran["content"][0]["text"]


def test_the_zot_dialect_shows_what_was_approved_in_events_and_in_messages(
    machine: Machine, flags: list[str]
) -> None:
    zotd = machine.rpc(*flags)
    seen = []
    for prompt in ("tell me", "hide it", "cut it"):
        zotd.send({"type": "prompt", "message": prompt})
        seen.append(zotd.until("done"))
    assert [text_of(frames) for frames in seen] == ["It is [key], keep it.", "", ""]
    messages = zotd.ask("get_messages")["data"]["messages"]
    assert [row["content"] for row in messages if row["role"] == "assistant"] == [
        [{"type": "text", "text": "It is [key], keep it."}],
        [],
        [],
    ]
    assert SECRET not in json.dumps([seen, messages])


def test_json_rpc_shows_what_was_approved_wherever_it_shows_a_text(
    machine: Machine, flags: list[str]
) -> None:
    zotd = machine.rpc(*flags).greet()
    session = zotd.session(extensions=flags[-3::2], discover_extensions=False)
    answers = []
    for prompt in ("tell me", "hide it", "cut it"):
        turn = zotd.call("turn/start", session_id=session, text=prompt)
        answers.append(zotd.call("turn/wait", session_id=session, turn_id=turn["turn_id"]))
        answers.append(zotd.call("session/state", session_id=session))
    assert [answer["text"] for answer in answers[::2]] == ["It is [key], keep it.", "", ""]
    rows = zotd.call("session/messages", session_id=session)
    assert [block["text"] for row in rows["messages"][1::2] for block in row["content"]] == [
        "It is [key], keep it."
    ]
    assert SECRET not in json.dumps([answers, rows, zotd.events])


def test_a_second_try_for_a_schema_is_told_about_the_approved_text_only(
    machine: Machine, flags: list[str]
) -> None:
    script = machine.script(
        {"reply": [{"text": f"not json: {SECRET}"}]}, {"reply": [{"text": f'"{SECRET}"'}]}
    )
    schema = Path(machine.root / "schema.json")
    schema.write_text('{"type":"string"}')
    done = machine.run(*flags, *script, "--output-schema", schema, "-p", "tell me")
    assert (done.returncode, done.stdout) == (0, '"[key]"\n')
    events, result, code = machine.json(*flags, *script, "--output-schema", str(schema), "tell me")
    assert (code, result["text"]) == (0, '"[key]"')
    assert [event["type"] for event in events].count("user_message") == 2
    assert SECRET not in json.dumps([events, result])
