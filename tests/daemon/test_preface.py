"""What a client says of its caller ahead of everything counts for its sessions and is shown nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine, text_of

SHOW = "pwd; echo $COLOUR.$HOME.${ZOTD_TOKEN-none}.$ZOT_HOME"
CALL = {"reply": [{"tool_call": {"name": "bash", "args": {"command": SHOW}}}]}
END = {"reply": [{"text": "end"}]}


def preface(**members: Any) -> bytes:
    return json.dumps({"zotd": 1, "version": "0.1", **members}).encode() + b"\n"


def accepted(client: Client) -> None:
    answer = client.raw()
    assert (answer["zotd"], set(answer)) == (1, {"zotd", "version"})


def output_of_bash(client: Client) -> str:
    """What the scripted call shows, in the zot dialect."""
    client.send({"type": "prompt", "message": "go"})
    (result,) = [frame for frame in client.until("done") if frame["type"] == "tool_result"]
    shown: str = result["content"][0]["text"]
    return shown


def test_folder_environment_and_flags_count_for_that_connection_only(machine: Machine) -> None:
    deep = machine.cwd / "deep"
    deep.mkdir()
    (deep / "own.json").write_text(json.dumps([CALL, {"reply": [{"text": "own"}]}]))
    daemon, path = machine.listen(*machine.script(CALL, END, CALL, END))
    env = {"PATH": machine.env["PATH"], "COLOUR": "green", "HOME": "/h", "ZOTD_TOKEN": "t", "ZOT_HOME": "/z"}
    flags = {"script": "own.json", "tools": "bash", "model": None, "append_system_prompt": ["x"]}
    caller, other = machine.connect(path), machine.connect(path)
    caller.write(preface(cwd=str(deep), env=env, flags=flags))
    accepted(caller)
    assert f"{deep}\ngreen./h.none.{machine.home}\n" in output_of_bash(caller)
    assert caller.ask("get_messages")["data"]["messages"][-1]["content"] == [{"type": "text", "text": "own"}]
    assert f"{machine.cwd}\n.{machine.root}.none.{machine.home}\n" in output_of_bash(other)

    rpc = machine.connect(path)
    rpc.write(preface(cwd=str(deep), env=env))
    accepted(rpc)
    rpc.greet()
    session = rpc.session()
    rpc.call("turn/start", session_id=session, text="go")
    assert f"{deep}\ngreen./h." in rpc.event("tool_result")["content"][0]["text"]
    assert rpc.call("session/state", session_id=session)["session"]["cwd"] == str(deep)
    assert daemon.stderr == ""


def test_headers_may_follow_the_line_even_in_the_same_packet(machine: Machine) -> None:
    process = machine.rpc()
    ping = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'
    process.write(preface() + b"Content-Length: %d\r\n\r\n%b" % (len(ping), ping))
    accepted(process)
    process.hang_up()
    answer = process._frames.get(timeout=15)
    assert answer is not None
    assert answer.startswith(b"Content-Length: ")


def test_a_dialect_that_is_named_needs_no_first_frame(machine: Machine) -> None:
    process = machine.rpc("--provider", "scripted", "--ext", str(machine.extension("shows", SHOWS)))
    process.write(preface(dialect="zot"))
    accepted(process)
    assert process.until("ext_notify")[-1]["message"] == "here"
    process.write(b"{\n")
    assert process.until("response")[-1]["error"].startswith("malformed json: ")


SHOWS = """
import json, sys
for frame in ({"type": "hello", "name": "shows", "version": "1"}, {"type": "ready"},
              {"type": "notify", "level": "info", "message": "here"}):
    print(json.dumps(frame), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("named", [{"session": "talk.jsonl"}, {"continue": True, "tools": "read"}])
def test_a_saved_session_is_gone_on_with(machine: Machine, named: Frame) -> None:
    for count in (0, 2):
        process = machine.rpc()
        process.write(preface(cwd=str(machine.cwd), flags=named))
        accepted(process)
        assert process.ask("get_state")["data"]["message_count"] == count
        process.send({"type": "prompt", "message": "hi"})
        process.until("done")
        process.hang_up()
        assert process.exit_code() == 0
    assert (machine.cwd / "talk.jsonl").exists() == ("session" in named)


def test_a_token_is_needed_after_it(machine: Machine) -> None:
    _, path = machine.listen(env={"ZOTD_TOKEN": "right"})
    client = machine.connect(path)
    client.write(preface(env={"ZOTD_TOKEN": "right"}))
    accepted(client)
    error = client.error("ping")
    assert error["data"]["kind"] == "not_initialized"
    assert error["message"] == "call initialize with the token before ping"
    assert client.greet(token="right").session()


WRONG: list[tuple[Frame, str, str]] = [
    ({"zotd": 2}, "protocol_version", "$.zotd: this daemon knows version 1 of the preface, not 2"),
    ({"zotd": None}, "protocol_version", "$.zotd"),
    ({"zotd": True}, "protocol_version", "$.zotd: this daemon knows version 1 of the preface, not True"),
    ({"cwd": "here"}, "invalid_params", "$.cwd: expected an absolute path"),
    ({"cwd": "/no/such"}, "invalid_params", "$.cwd: /no/such is not a directory"),
    ({"cwd": "/" + "a" * 5_000}, "invalid_params", "$.cwd: "),
    ({"cwd": 1}, "invalid_params", "$.cwd: expected a string, got a number"),
    ({"env": []}, "invalid_params", "$.env: expected an object, got an array"),
    ({"env": {"K": {"s3cret": 1}}}, "invalid_params", "$.env.K: expected a string, got an object"),
    ({"flags": "s3cret"}, "invalid_params", "$.flags: expected an object, got a string"),
    ({"flags": {"api_key": ["s3cret"]}}, "invalid_params", "$.flags.api_key: expected a string"),
    ({"flags": {"reasoning": "s3cret"}}, "invalid_params", "$.flags.reasoning: expected one of off,"),
    ({"flags": {"max_steps": "1"}}, "invalid_params", "$.flags.max_steps: expected a whole number"),
    ({"flags": {"ext": ["a", 1]}}, "invalid_params", "$.flags.ext[1]: expected a string"),
    ({"flags": {"no_ext": "s3cret"}}, "invalid_params", "$.flags.no_ext: expected a boolean"),
    ({"flags": {"timeout": 3}}, "unsupported", "$.flags.timeout: no flag of a session"),
    ({"flags": {"session": "abcd"}}, "session_not_found", "$.flags.session: "),
    ({"dialect": "acp"}, "invalid_params", "$.dialect: expected zot or jsonrpc"),
]


def test_what_is_wrong_is_named_by_its_path_and_ends_the_connection(machine: Machine) -> None:
    daemon, path = machine.listen()
    for members, kind, said in WRONG:
        client = machine.connect(path)
        client.write(preface(**members) + b'{"type":"ping"}\n')
        error = client.raw()["error"]
        assert (error["data"]["kind"], error["message"][: len(said)]) == (kind, said)
        assert client.raw() is None
        assert "s3cret" not in json.dumps(error)
    for members, said in (
        ({"cwd": "here"}, "$.cwd: expected an absolute path"),
        ({"flags": {"timeout": 3}}, "$.flags.timeout: no flag of a session has this name; leave it out; "),
    ):
        client = machine.connect(path)
        client.write(preface(dialect="zot", **members) + b'{"type":"ping"}\n')
        answer = client.raw()
        assert (answer["type"], answer["command"], answer["success"]) == ("response", "", False)
        assert answer["error"].startswith(said)
        assert client.raw() is None
        assert kind != "protocol_version" or "pip install" in error["data"]["hint"]
    assert daemon.stderr == ""


def test_a_private_server_ends_with_it_as_with_a_wrong_flag(machine: Machine) -> None:
    process = machine.rpc()
    process.write(preface(flags={"timeout": 3}))
    message = process.raw()["error"]["message"]
    assert process.raw() is None
    assert process.exit_code() == 2
    assert process.stderr == f"zotd: {message}\n"


def test_a_bad_one_ends_its_connection_only_and_a_second_one_is_none(machine: Machine) -> None:
    daemon, path = machine.listen()
    client = machine.connect(path)
    client.write(preface(flags={"modle": "x"}))
    assert "modle" in client.raw()["error"]["message"]
    assert client.raw() is None
    other = machine.connect(path)
    other.write(preface(later={"x": 1}, _meta=None) * 2)
    accepted(other)
    assert other.raw()["error"]["code"] == -32600
    assert other.greet().session()
    assert daemon.stderr == ""


def test_what_it_holds_is_in_no_file_and_no_answer(machine: Machine) -> None:
    daemon, path = machine.listen()
    client = machine.connect(path)
    secret = "s3cret-of-the-caller"
    client.write(preface(env={"A_KEY": secret}, flags={"api_key": secret}))
    accepted(client)
    seen = [client.ask(command) for command in ("hello", "get_state", "get_messages", "get_extensions")]
    client.send({"type": "prompt", "message": "hi"})
    seen += client.until("done")
    assert text_of(seen) == "You said: hi"
    assert secret not in json.dumps(seen) + daemon.stderr
    files = [file for file in Path(machine.home).rglob("*") if file.is_file()]
    assert [file for file in files if secret.encode() in file.read_bytes()] == []


def test_a_zot_client_on_a_socket_is_told_why_it_cannot_be_served(machine: Machine) -> None:
    _, path = machine.listen("--provider", "scripted", env={"OPENAI_API_KEY": ""})
    saved = machine.root / "s.jsonl"
    holder = machine.connect(path)
    holder.write(preface(flags={"session": str(saved)}))
    accepted(holder)
    assert holder.ask("get_state")["success"]
    for flags, said in (
        ({"tools": ["zz"]}, "no tool is named 'zz'"),
        ({"provider": "zz"}, "unknown provider 'zz'"),
        ({"script": "/nope"}, "/nope"),
        ({"provider": "openai-compatible", "model": "m"}, "needs a key"),
    ):
        client = machine.connect(path)
        client.write(preface(dialect="zot", flags=flags))
        accepted(client)
        client.send({"type": "get_state", "id": "7"})
        (answer,) = client.rest()
        assert (answer["command"], answer["id"], answer["success"]) == ("get_state", "7", False)
        assert said in answer["error"]
    silent = machine.connect(path)
    silent.write(preface(dialect="zot", flags={"tools": ["zz"]}))
    accepted(silent)
    (answer,) = silent.rest()
    assert (answer["command"], answer["success"]) == ("", False)
    refused = machine.connect(path)
    refused.write(preface(dialect="zot", cwd="/nowhere"))
    (answer,) = refused.rest()
    assert (answer["success"], answer["error"]) == (False, "$.cwd: /nowhere is not a directory")
    assert holder.ask("get_state")["success"]


def test_what_cannot_be_read_has_a_hint_from_the_first_frame_on(machine: Machine) -> None:
    client = machine.connect(machine.listen("--provider", "scripted")[1])
    for line in (b"nonsense\n", b'{"a":1}\n'):
        client.write(line)
        assert client.raw()["error"]["data"]["hint"]


def test_the_home_of_the_caller_must_be_that_of_the_daemon(machine: Machine) -> None:
    _, path = machine.listen()
    link = machine.root / "link"
    link.symlink_to(machine.home)
    for home in (machine.home, link):
        client = machine.connect(path)
        client.write(preface(home=str(home)))
        accepted(client)
    stranger = machine.connect(path)
    stranger.write(preface(home=str(machine.root / "other")))
    error = stranger.raw()["error"]
    assert str(machine.home) in error["message"]
    assert str(machine.root / "other") in error["message"]
    assert error["data"]["path"] == "$.home"
    assert "ZOT_HOME=" in error["data"]["hint"]
    assert stranger.raw() is None


def test_a_mode_that_nobody_has_is_refused_by_its_path(machine: Machine) -> None:
    _, path = machine.listen()
    client = machine.connect(path)
    client.write(preface(mode="chat"))
    assert client.raw()["error"]["data"]["path"] == "$.mode"


def test_a_run_of_the_command_line_is_saved_unless_it_says_otherwise(machine: Machine) -> None:
    _, path = machine.listen()
    for flags, ephemeral in (({}, False), ({"no_session": True}, True)):
        client = machine.connect(path)
        client.write(preface(mode="print", cwd=str(machine.cwd), flags={"provider": "scripted", **flags}))
        accepted(client)
        client.greet()
        session = client.call("session/new", cwd=str(machine.cwd))["session"]
        assert session["ephemeral"] is ephemeral
