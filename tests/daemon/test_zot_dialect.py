"""The zot dialect on standard input and output of a real process: shapes, order, and how it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Frame, Machine, Process, gone, text_of, types

SLOW = {"reply": [{"text": "one two three four five", "delay_ms": 60_000}]}
EXTENSION = """
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
print("a banner on stderr", file=sys.stderr, flush=True)
send(type="hello", name="shows", version="1", capabilities=["commands"])
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="register_command", name="show", description="shows its arguments")
        send(type="ready")
    elif frame["type"] == "command_invoked":
        send(type="command_response", id=frame["id"], action="display", display="got " + frame["args"])
    elif frame["type"] == "shutdown":
        open("stopped", "w").close()
        break
"""
FRESH = {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "cost_usd": 0}


def bash(command: str) -> Frame:
    return {"reply": [{"tool_call": {"name": "bash", "args": {"command": command}}}]}


def prompt(client: Process, message: str, **more: Any) -> list[Frame]:
    client.send({"type": "prompt", "message": message, **more})
    return client.until("done")


def test_every_command_is_answered_in_zots_shape(machine: Machine) -> None:
    client = machine.rpc()
    client.send({"type": "hello", "id": "h"})
    hello = client.next()
    assert hello["data"].pop("version")
    assert hello == {
        "type": "response",
        "command": "hello",
        "success": True,
        "id": "h",
        "data": {"protocol_version": 1, "provider": "scripted", "model": "scripted"},
    }
    assert client.ask("ping", id="p")["data"] == {"pong": True}
    assert client.ask("get_state")["data"] == {
        "provider": "scripted",
        "model": "scripted",
        "cwd": str(machine.cwd),
        "message_count": 0,
        "busy": False,
        "reasoning": "",
        "usage": FRESH,
    }
    assert client.ask("get_messages")["data"] == {"messages": []}
    assert client.ask("set_model", model="other")["data"] == {"model": "other"}
    assert client.ask("get_state")["data"]["model"] == "other"
    assert client.ask("abort") == {"type": "response", "command": "abort", "success": True}
    assert client.ask("clear") == {"type": "response", "command": "clear", "success": True}
    models = client.ask("get_models")["data"]["models"]
    assert [set(model) for model in models] == [
        {"id", "provider", "context_window", "max_output", "reasoning"} for _ in models
    ]
    assert ("scripted", "scripted") in {(model["provider"], model["id"]) for model in models}
    assert client.ask("get_extensions")["data"] == {"extensions": []}
    listed = [row["name"] for row in client.ask("get_commands")["data"]["commands"]]
    assert listed == ["clear", "compact", "reload-ext"]


def test_levels_of_reasoning_are_zots_and_off_is_reported_empty(machine: Machine) -> None:
    client = machine.rpc()
    for level in ("minimum", "low", "medium", "high", "xhigh", "max"):
        assert client.ask("set_reasoning", reasoning=level)["data"] == {"reasoning": level}
    assert client.ask("get_state")["data"]["reasoning"] == "max"
    assert client.ask("set_reasoning", reasoning="off")["data"] == {"reasoning": ""}
    refused = client.ask("set_reasoning", reasoning="much")
    assert not refused["success"]
    assert "minimum" in refused["error"]


def test_messages_and_usage_grow_with_a_turn_and_clear_empties_them(machine: Machine) -> None:
    client = machine.rpc()
    picture = {"mime_type": "image/png", "data": "aGVsbG8="}
    prompt(client, "look", images=[picture])
    shown = client.ask("get_messages")["data"]["messages"][0]["content"]
    assert shown[1] == {"type": "image", "mime_type": "image/png", "bytes": 5}
    assert client.ask("clear")["success"]
    assert text_of(prompt(client, "hi")) == "You said: hi"
    messages = client.ask("get_messages")["data"]["messages"]
    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", [{"type": "text", "text": "hi"}]),
        ("assistant", [{"type": "text", "text": "You said: hi"}]),
    ]
    assert all(message["time"].endswith("Z") for message in messages)
    state = client.ask("get_state")["data"]
    assert (state["message_count"], state["busy"]) == (2, False)
    assert state["usage"]["input"] > 0
    assert client.ask("clear")["success"]
    assert client.ask("get_state")["data"]["message_count"] == 0


def test_the_response_comes_before_the_events_and_the_events_in_zots_order(machine: Machine) -> None:
    client = machine.rpc(*machine.script(bash("echo hi"), {"reply": [{"text": "done"}]}))
    frames = prompt(client, "go", id="x")
    assert types(frames) == [
        "response",
        "user_message",
        "turn_start",
        "assistant_start",
        "tool_use_start",
        *["tool_use_args"] * types(frames).count("tool_use_args"),
        "tool_use_end",
        "usage",
        "assistant_message",
        "tool_call",
        "turn_end",
        *["tool_progress"] * types(frames).count("tool_progress"),
        "tool_result",
        "turn_start",
        "assistant_start",
        "text_delta",
        "usage",
        "assistant_message",
        "turn_end",
        "done",
    ]
    result = next(frame for frame in frames if frame["type"] == "tool_result")
    assert not result["is_error"]
    assert "hi\n" in result["content"][0]["text"]


@pytest.mark.parametrize("given", [0, 7, "seven", ""])
def test_an_id_comes_back_as_it_was_sent(machine: Machine, given: Any) -> None:
    client = machine.rpc()
    assert client.ask("ping", id=given)["id"] == given
    assert client.ask("get_state", id=given)["id"] == given
    assert client.ask("unheard_of", id=given)["id"] == given


def test_an_unknown_command_and_bad_members_are_refused_and_the_next_is_served(machine: Machine) -> None:
    client = machine.rpc()
    assert client.ask("unheard_of", id=1) == {
        "type": "response",
        "command": "unheard_of",
        "success": False,
        "id": 1,
        "error": "unknown command",
    }
    for bad in ({}, {"message": 3}, {"message": "  "}, {"message": "x", "images": [3]}):
        assert not client.ask("prompt", **bad)["success"], bad
    assert not client.ask("run_command", name="nothing")["success"]
    assert client.ask("ping")["success"]


@pytest.mark.parametrize("line", [b"{", b"[1,2", b"nonsense", b'{"type":"ping"', b"\xff\xfe", b"[]", b"3"])
def test_malformed_json_is_answered_without_an_id_and_the_next_line_is_served(
    machine: Machine, line: bytes
) -> None:
    client = machine.rpc()
    assert client.ask("ping")["success"]
    client.write(line + b"\n\n\r\n")
    answer = client.next()
    assert answer["error"].startswith("malformed json: ")
    assert (answer["command"], answer["success"], "id" in answer) == ("", False, False)
    assert client.ask("ping", id=1)["id"] == 1


def test_abort_in_the_middle_of_a_command_ends_the_turn_and_the_process(machine: Machine) -> None:
    client = machine.rpc(*machine.script(bash("echo $$; exec sleep 300"), {"reply": [{"text": "next"}]}))
    client.send({"type": "prompt", "message": "go"})
    pid = int(client.until("tool_progress")[-1]["text"].splitlines()[-1])
    client.send({"type": "abort", "id": "a"})
    frames = client.until("done")
    kinds = [kind for kind in types(frames) if kind != "tool_progress"]
    assert kinds == ["response", "tool_result", "turn_end", "done"]
    by_type = {frame["type"]: frame for frame in frames}
    assert by_type["response"] == {"type": "response", "command": "abort", "success": True, "id": "a"}
    assert by_type["tool_result"]["is_error"]
    assert by_type["turn_end"]["stop"] == by_type["done"]["stop"] == "aborted"
    assert gone(pid)
    assert text_of(prompt(client, "again")) == "next"


def test_abort_while_the_model_speaks_ends_the_turn_once(machine: Machine) -> None:
    client = machine.rpc(*machine.script(SLOW, {"reply": [{"text": "next"}]}))
    client.send({"type": "prompt", "message": "go"})
    client.until("text_delta")
    client.send({"type": "abort"})
    client.send({"type": "abort"})
    frames = client.until("done")
    assert "error" not in types(frames)
    assert [frame["stop"] for frame in frames if "stop" in frame] == ["aborted", "aborted"]
    rest = prompt(client, "again")
    assert types(rest).count("done") == 1
    assert text_of(rest) == "next"


def test_a_second_prompt_is_answered_when_its_turn_starts(machine: Machine) -> None:
    client = machine.rpc(*machine.script(SLOW, {"reply": [{"text": "second"}]}))
    client.send({"type": "prompt", "message": "one", "id": 1})
    client.until("text_delta")
    client.send({"type": "prompt", "message": "two", "id": 2})
    assert client.ask("get_state", id=3)["data"]["busy"]
    client.send({"type": "abort", "id": 4})
    first = client.until("done")
    assert [frame["id"] for frame in first if frame["type"] == "response"] == [4]
    second = client.until("done")
    assert (second[0]["id"], second[0]["data"]) == (2, {"started": True})
    assert types(second)[1] == "user_message"
    assert text_of(second) == "second"


def test_a_failed_turn_ends_in_one_error_and_done(machine: Machine) -> None:
    client = machine.rpc(*machine.script({"error": {"status": 400, "message": "ill"}}))
    frames = prompt(client, "go")
    assert types(frames)[-3:] == ["turn_end", "error", "done"]
    assert "ill" in frames[-2]["message"]
    assert frames[-3]["stop"] == frames[-1]["stop"] == "error"


def test_a_slash_command_is_answered_shown_and_done(machine: Machine) -> None:
    extension = machine.extension("shows", EXTENSION)
    client = machine.rpc("--provider", "scripted", "--ext", extension)
    frames = [frame for frame in prompt(client, "/show it", id=5) if frame["type"] != "ext_registered"]
    kinds = [kind for kind in types(frames) if kind != "ext_state"]
    assert kinds == ["response", "ext_display", "command_result", "done"]
    by_type = {frame["type"]: frame for frame in frames}
    assert (by_type["response"]["id"], by_type["response"]["data"]) == (5, {"started": True})
    assert by_type["ext_display"]["text"] == "got it"
    assert by_type["command_result"]["turn_id"] == by_type["done"]["turn_id"]
    commands = client.ask("get_commands")["data"]["commands"]
    assert {"name": "show", "extension": "shows"}.items() <= commands[-1].items()
    assert client.ask("get_extensions")["data"]["extensions"][0]["name"] == "shows"


def test_a_slash_command_during_a_turn_sends_no_done_of_its_own(machine: Machine) -> None:
    extension = machine.extension("shows", EXTENSION)
    client = machine.rpc(*machine.script(SLOW), "--ext", extension)
    client.send({"type": "prompt", "message": "go", "id": 1})
    client.until("text_delta")
    client.send({"type": "prompt", "message": "/show it", "id": 2})
    shown = client.until("command_result")
    assert shown[0]["id"] == 2
    assert client.ask("get_state")["data"]["busy"]
    client.send({"type": "abort"})
    ended = client.until("done")
    assert types([*shown, *ended]).count("done") == 1
    assert ended[-1]["stop"] == "aborted"


def test_what_anyone_prints_cannot_reach_the_frames(machine: Machine) -> None:
    extension = machine.extension("shows", EXTENSION)
    noisy = """echo '{"type":"done"}'; echo '{"type":"done"}' >&2; echo x > /proc/$PPID/fd/1"""
    script = machine.script(bash(noisy), {"reply": [{"text": "end"}]})
    client = machine.rpc(*script, "--ext", extension)
    frames = prompt(client, "go")
    assert text_of(frames) == "end"
    client.hang_up()
    assert set(types(client.rest())) <= {"ext_state", "ext_registered"}
    assert client.exit_code() == 0


@pytest.mark.parametrize("command", ["hello", "get_state", "prompt"])
def test_without_credentials_the_first_frame_ends_it_with_the_reason_and_exit_1(
    machine: Machine, command: str
) -> None:
    client = machine.rpc("--model", "gpt-5")
    client.send({"type": command, "message": "hi"})
    assert client.exit_code() == 1
    assert client.rest() == []
    assert "OPENAI_API_KEY" in client.stderr
    assert "Traceback" not in client.stderr


@pytest.mark.parametrize("variable", ["ZOTCORE_RPC_TOKEN", "ZOTD_TOKEN"])
def test_a_token_must_come_first_and_is_not_handed_on(machine: Machine, variable: str) -> None:
    script = machine.script(bash(f"echo token=${variable}."), {"reply": [{"text": "end"}]})
    client = machine.rpc(*script, env={variable: "secret"})
    for name in ("ping", "get_state", "prompt"):
        refused = client.ask(name, message="x", id=1)
        assert (refused["success"], refused["id"]) == (False, 1)
        assert refused["error"] == "auth required: send hello with token first"
    assert client.ask("hello", token="secret")["success"]
    frames = prompt(client, "go")
    result = next(frame for frame in frames if frame["type"] == "tool_result")
    assert "token=.\n" in result["content"][0]["text"]


@pytest.mark.parametrize("hello", [{"token": "wrong"}, {}])
def test_a_wrong_token_is_refused_and_ends_it(machine: Machine, hello: Frame) -> None:
    client = machine.rpc("--provider", "scripted", env={"ZOTCORE_RPC_TOKEN": "secret"})
    answer = client.ask("hello", **hello)
    assert (answer["success"], answer["error"]) == (False, "invalid token")
    assert client.exit_code() == 1
    assert "secret" not in client.stderr


def test_sigterm_aborts_stops_the_extensions_and_exits_0(machine: Machine) -> None:
    extension = machine.extension("shows", EXTENSION)
    client = machine.rpc(*machine.script(bash("echo $$; exec sleep 300")), "--ext", extension)
    client.send({"type": "prompt", "message": "go"})
    pid = int(client.until("tool_progress")[-1]["text"].splitlines()[-1])
    client.signal(signal.SIGTERM)
    assert client.popen.wait(5) == 0
    assert gone(pid, 0)
    assert (extension / "stopped").exists()
    assert client.stderr == ""


def test_at_the_end_of_input_accepted_turns_are_finished(machine: Machine) -> None:
    extension = machine.extension("shows", EXTENSION)
    slow = {"reply": [{"text": "one two three", "delay_ms": 100}]}
    client = machine.rpc(*machine.script(slow, {"reply": [{"text": "last"}]}), "--ext", extension)
    client.send({"type": "prompt", "message": "a", "id": 1})
    client.send({"type": "prompt", "message": "b", "id": 2})
    client.hang_up()
    frames = client.rest()
    assert [frame["id"] for frame in frames if frame["type"] == "response"] == [1, 2]
    assert [frame["stop"] for frame in frames if frame["type"] == "done"] == ["end_turn", "end_turn"]
    assert text_of(frames) == "one two threelast"
    assert client.exit_code() == 0
    assert (extension / "stopped").exists()


def test_an_output_that_breaks_aborts_the_turn(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out")
    script = machine.script(bash(f"echo $$ > {tmp_path}/out; while echo x; do sleep 0.1; done"))
    client = machine.rpc(*script)
    client.send({"type": "prompt", "message": "go"})
    pid = int((tmp_path / "out").read_text())
    client.break_off()
    assert gone(pid)
    assert client.exit_code() == 0


def test_a_command_runs_by_its_name_as_it_does_by_typing_it(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted", "--ext", machine.extension("shows", EXTENSION))
    answer = client.ask("run_command", name="show", args="this one")
    events = client.until("done")
    assert types(events) == ["ext_display", "command_result", "done"]
    assert events[0]["text"] == "got this one"
    assert {event["turn_id"] for event in events[1:]} == {answer["data"]["turn_id"]}


def test_the_built_in_command_that_is_listed_can_be_run(machine: Machine) -> None:
    client = machine.rpc()
    assert client.ask("get_commands")["data"]["commands"][0]["name"] == "clear"
    client.ask("prompt", message="hi")
    client.until("done")
    assert client.ask("run_command", name="clear")["success"]
    client.until("done")
    assert client.ask("get_state")["data"]["message_count"] == 0
