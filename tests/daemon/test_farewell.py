"""How a client leaves: by `shutdown` and `exit`, or by ending its input while it still reads."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, Client, Frame, Machine, judge_line, types

SLOW = {"match": "slow", "reply": [{"text": "one two three", "delay_ms": 50}], "times": 0}
STUCK = {"match": "stuck", "reply": [{"text": "one two", "delay_ms": 60_000}], "times": 0}
ECHO = {"reply": [{"text": "an answer"}], "times": 0}


def said_at_once(path: Path, *frames: Any) -> list[Frame]:
    """Say all that in one go, end the input as `nc -N` does, and give what is said until the end."""
    with socket.socket(socket.AF_UNIX) as plain:
        plain.settimeout(LONG)
        plain.connect(str(path))
        plain.sendall(b"\n".join(json.dumps(frame).encode() for frame in frames))
        plain.shutdown(socket.SHUT_WR)
        data = b"".join(iter(lambda: plain.recv(65536), b""))
    return [json.loads(line) for line in data.splitlines()]


def request(number: int, method: str, **params: Any) -> Frame:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def start(client: Client, session: str, text: str) -> str:
    turn: str = client.call("turn/start", session_id=session, text=text)["turn_id"]
    return turn


@pytest.mark.parametrize("last", [["shutdown"], ["exit"], ["shutdown", "exit"]])
@pytest.mark.parametrize("asks", [True, False])
def test_a_private_server_finishes_what_it_took_and_exits_0(
    machine: Machine, last: list[str], asks: bool
) -> None:
    process = machine.rpc(*machine.script(SLOW))
    process.greet()
    session = process.session()
    turn = start(process, session, "slow")
    queued = start(process, session, "slow too")
    waiting = process.request("turn/wait", session_id=session, turn_id=queued)
    for method in last:
        if asks:
            assert process.call(method) == {}
        else:
            process.send({"jsonrpc": "2.0", "method": method})
    assert process.reply(waiting)["result"]["text"] == "one two three"
    assert process.exit_code() == 0
    while (message := process.raw()) is not None:
        process.events.append({"type": message["method"], **message["params"]})
    ended = [event["turn_id"] for event in process.events if event["type"] == "done"]
    assert ended == [turn, queued]
    assert process.stderr == ""


def test_after_shutdown_nothing_new_is_begun(machine: Machine) -> None:
    process = machine.rpc()
    process.greet()
    session = process.session()
    process.send([request(7, "shutdown"), request(8, "turn/start", session_id=session, text="hi")])
    by_id = {answer["id"]: answer for answer in process.raw()}
    assert by_id[7]["result"] == {}
    refused = process.error("turn/start", session_id=session, text="hi")
    assert (refused["code"], refused["data"]["kind"]) == (-32600, "invalid_request")
    process.send({"jsonrpc": "2.0", "method": "exit"})
    assert process.exit_code() == 0


def test_on_a_socket_they_end_that_connection_and_no_turn_of_others(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script(STUCK, SLOW, ECHO))
    stayer, leaver = machine.connect(path).greet(), machine.connect(path).greet()
    session = stayer.session()
    turn = start(stayer, session, "stuck")
    own = leaver.session()
    mine = start(leaver, own, "slow")
    assert leaver.call("shutdown") == {}
    leaver.send({"jsonrpc": "2.0", "method": "exit"})
    assert leaver.event("done")["turn_id"] == mine
    assert leaver.raw() is None
    assert stayer.call("session/state", session_id=session)["session"]["active_turn"] == turn
    assert stayer.call("session/state", session_id=own)["session"]["busy"] is False
    assert daemon.popen.poll() is None


def test_a_private_server_finishes_a_turn_that_nobody_watches(machine: Machine) -> None:
    call = {"name": "bash", "args": {"command": "sleep 0.3; touch ran"}}
    process = machine.rpc(*machine.script({"reply": [{"tool_call": call}]}, ECHO))
    process.greet()
    session = process.session()
    start(process, session, "go")
    process.call("session/detach", session_id=session)
    process.hang_up()
    assert process.exit_code() == 0
    assert (machine.cwd / "ran").exists()


def test_before_initialize_a_goodbye_ends_the_connection_too(machine: Machine) -> None:
    process = machine.rpc()
    process.send({"jsonrpc": "2.0", "method": "exit"})
    assert process.raw() is None
    assert process.exit_code() == 0


def test_who_ends_its_input_on_a_shared_socket_gets_the_answers_to_it(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script(SLOW, ECHO))
    (pong,) = said_at_once(path, request(0, "ping"))
    assert pong == {"jsonrpc": "2.0", "id": 0, "result": {}}
    hello = request(1, "initialize", protocol_version=1)
    answers = said_at_once(path, hello, request(2, "session/new"), request(3, "no/such"))
    assert {answer["id"]: "result" in answer for answer in answers if "id" in answer} == {
        1: True,
        2: True,
        3: False,
    }
    frames = said_at_once(path, {"type": "prompt", "message": "slow"}, {"type": "ping"})
    assert types([judge_line(frame) for frame in frames])[-1] == "done"
    assert [frame["command"] for frame in frames if frame["type"] == "response"] == ["prompt", "ping"]
    assert said_at_once(path) == []
    assert daemon.stderr == ""


def test_its_own_prompts_are_heard_out_and_not_those_of_others(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(STUCK, SLOW, ECHO))
    stayer = machine.connect(path).greet()
    stuck, session = stayer.session(), stayer.session()
    start(stayer, stuck, "stuck")
    frames = said_at_once(
        path,
        request(1, "initialize", protocol_version=1),
        request(2, "turn/start", session_id=session, text="slow"),
        request(3, "turn/abort", session_id="no such"),
    )
    answers = {frame["id"]: frame for frame in frames}
    turn = answers[2]["result"]["turn_id"]
    ended = stayer.call("turn/wait", session_id=session, turn_id=turn)
    assert ended["text"] == "one two three"
    assert stayer.call("session/state", session_id=stuck)["session"]["busy"]
    asked = ({"type": "attach", "session_id": stuck}, {"type": "get_state"})
    frames = said_at_once(path, *asked)
    assert [frame["success"] for frame in frames if frame["type"] == "response"] == [True, True]


def test_a_client_that_closes_altogether_is_let_go_at_once_and_its_turn_goes_on(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script(STUCK))
    other, leaver = machine.connect(path).greet(), machine.connect(path).greet()
    session = leaver.session()
    turn = start(leaver, session, "stuck")
    connected = sockets_of(daemon.popen.pid)
    leaver.hang_up()
    for _ in range(1000):
        other.call("ping")
        if (left := sockets_of(daemon.popen.pid)) < connected:
            break
    assert left == connected - 1
    assert other.call("session/state", session_id=session)["session"]["active_turn"] == turn


def sockets_of(pid: int) -> int:
    links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(link.startswith("socket:") for link in links)
