"""What a client asks for and cannot have is refused by name; what nobody approved does not run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients import Client, Machine, gone

PROJECT_EXTENSION = """
import json, sys
open("started", "w").close()
print(json.dumps({"type": "hello", "name": "own", "version": "1"}), flush=True)
for line in sys.stdin:
    if json.loads(line)["type"] == "hello_ack":
        print(json.dumps({"type": "register_command", "name": "own", "description": ""}), flush=True)
        print(json.dumps({"type": "ready"}), flush=True)
"""

FLOOD = """
import json, sys
print(json.dumps({"type": "hello", "name": "flood", "version": "1"}), flush=True)
print(json.dumps({"type": "ready"}), flush=True)
while True:
    print(json.dumps({"type": "notify", "level": "info", "message": "again " * 20}), flush=True)
"""


def scripted(machine: Machine) -> Client:
    client = machine.rpc()
    return client.greet()


def test_a_project_s_own_extensions_wait_for_trust_in_sessions_of_editors(machine: Machine) -> None:
    made = machine.extension("own", PROJECT_EXTENSION)
    place = machine.cwd / ".zot" / "extensions" / "own"
    place.parent.mkdir(parents=True)
    made.rename(place)
    client = scripted(machine)
    state = client.call("session/new")["session"]
    assert state["trusted"] is False
    assert client.event("ext_state")["state"] == "untrusted"
    (listed,) = client.call("session/state", session_id=state["session_id"])["session"]["extensions"]
    assert (listed["name"], listed["state"]) == ("own", "untrusted")
    assert not (place / "started").exists()

    zot = machine.rpc()
    commands = zot.ask("get_commands")["data"]["commands"]
    assert "own" in [command["name"] for command in commands]


def test_a_folder_whose_name_is_too_long_is_refused_as_one_that_is_not_there(machine: Machine) -> None:
    client = machine.rpc()
    far = "/" + "a" * 5_000
    early = client.error("initialize", protocol_version=1, cwd=far)
    client.greet()
    later = [client.error("session/new", cwd=far), client.error("workspace/trust", cwd=far, trusted=True)]
    for error in (early, *later):
        assert (error["data"]["kind"], error["data"]["path"]) == ("invalid_params", "$.cwd")
        assert error["message"].endswith("File name too long")
    assert client.stderr == ""


def test_a_session_refuses_a_member_that_would_be_without_effect(machine: Machine) -> None:
    client = scripted(machine)
    error = client.error("session/new", max_cost_usd=1.5)
    assert (error["code"], error["data"]["kind"]) == (-32602, "unsupported")
    assert "$.max_cost_usd" in error["message"]
    assert client.session(approval="auto", ephemeral=True)


@pytest.mark.parametrize(
    ("member", "value", "where"),
    [
        ("extensions", ["/tmp", "rel/path"], "$.extensions[1]"),
        ("extensions", ["~no such user/x"], "$.extensions[0]"),
        ("cwd", ".", "$.cwd"),
    ],
)
def test_a_path_that_is_not_absolute_is_refused_by_its_place(
    machine: Machine, member: str, value: Any, where: str
) -> None:
    client = scripted(machine)
    error = client.error("session/new", **{member: value})
    assert (error["code"], error["data"]["kind"]) == (-32602, "invalid_params")
    path = value if isinstance(value, str) else value[-1]
    assert error["message"] == f"session/new: {where}: expected an absolute path, got {path!r}"


@pytest.mark.parametrize(
    "image", [{"mime_type": "image/png", "data": "!!"}, {"mime_type": "text/html", "data": "PGI+"}]
)
def test_a_picture_that_is_none_is_refused_in_both_dialects(machine: Machine, image: dict[str, str]) -> None:
    client = scripted(machine)
    error = client.error("turn/start", session_id=client.session(), text="hi", images=[image])
    assert (error["code"], "images[0]" in error["message"]) == (-32602, True)
    refused = machine.rpc().ask("prompt", message="hi", images=[image])
    assert (refused["success"], "images[0]" in refused["error"]) == (False, True)


def test_nothing_behind_a_wrong_token_in_the_pipe_is_served(machine: Machine) -> None:
    client = machine.rpc(env={"ZOTD_TOKEN": "right"})
    frames: list[dict[str, Any]] = [{"type": "hello", "token": token} for token in ("wrong", "right")]
    client.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
    assert [frame["success"] for frame in client.rest()] == [False]
    assert gone(client.popen.pid)


def test_with_a_token_not_even_ping_is_answered_before_it(machine: Machine) -> None:
    client = machine.rpc(env={"ZOTD_TOKEN": "right"})
    assert client.error("ping")["data"]["kind"] == "not_initialized"
    client.greet(token="right")
    assert client.call("ping") == {}


def test_an_extension_that_never_stops_talking_holds_up_no_turn_and_its_notes_are_bounded(
    machine: Machine,
) -> None:
    client = machine.rpc("--provider", "scripted", "--ext", str(machine.extension("flood", FLOOD)))
    client.greet()
    session = client.session()
    turn = client.call("turn/start", session_id=session, text="hi")["turn_id"]
    assert client.call("turn/wait", session_id=session, turn_id=turn)["text"] == "You said: hi"
    notes = client.call("session/state", session_id=session)["session"]["notes"]
    assert 0 < len(notes) <= 256


def test_the_state_of_a_session_shows_what_has_been_streamed_so_far(machine: Machine) -> None:
    flags = machine.script({"reply": [{"text": "one two three", "delay_ms": 60_000}]})
    client = machine.rpc(*flags)
    client.greet()
    session = client.session()
    client.call("turn/start", session_id=session, text="go")
    client.event("text_delta")
    state = client.call("session/state", session_id=session)["session"]
    assert (state["busy"], state["partial_text"]) == (True, "one")
    client.call("turn/abort", session_id=session)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"HOME": "/a\0"}, "$.env.HOME: expected a text without NUL characters"),
        ({"A\0": "b"}, "$.env: 'A\\x00' is no name of a variable"),
        ({"A=B": "c"}, "$.env: 'A=B' is no name of a variable"),
        ({"": "c"}, "$.env: '' is no name of a variable"),
    ],
)
def test_an_environment_that_no_program_could_have_is_refused(
    machine: Machine, env: dict[str, str], said: str
) -> None:
    client = machine.rpc("--provider", "scripted")
    client.greet()
    error = client.error("session/new", env=env)
    assert error["data"]["kind"] == "invalid_params"
    assert said in error["message"]
