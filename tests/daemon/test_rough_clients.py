"""Clients that are odd, large, hasty or cut off: each is answered, and nobody else notices."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.clients import LONG, Client, Frame, Machine, Process

MIB = 1 << 20


def refusal(number: Any) -> Frame:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "method not found"}}


def test_a_client_that_refuses_everything_it_is_sent_has_its_turns(machine: Machine) -> None:
    process = machine.rpc()
    process.greet()
    session = process.session()
    turn = process.call("turn/start", session_id=session, text="hi")["turn_id"]
    while "done" not in [event["type"] for event in process.events]:
        process.take()
        process.send(refusal(None))
        process.send([refusal(0), refusal("nobody"), refusal(-1)])
        process.send({"jsonrpc": "2.0", "id": 99, "result": {"decision": "allow"}})
    assert process.call("turn/wait", session_id=session, turn_id=turn)["stop"] == "end_turn"
    process.hang_up()
    assert process.exit_code() == 0
    assert process.raw() is None
    assert process.stderr == ""


@pytest.mark.parametrize("headers", [False, True])
def test_a_frame_of_17_mib_is_answered_and_the_next_one_is_read(machine: Machine, headers: bool) -> None:
    process = machine.rpc(headers=headers)
    process.greet()
    params = {"protocol_version": 1, "cwd": "x" * 17 * MIB}
    for _ in range(2):
        process.send({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": params})
        answer = process.raw()
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)
        assert f"{16 * MIB} bytes" in answer["error"]["message"]
        assert process.call("ping") == {}


@pytest.mark.parametrize("dialect", ["jsonrpc", "zot"])
def test_a_first_frame_of_17_mib_does_not_keep_a_client_from_beginning(
    machine: Machine, dialect: str
) -> None:
    process = machine.rpc()
    process.write(b'{"x":"' + b"y" * (17 * MIB) + b'"}\n')
    error = process.raw()["error"]
    hint = "send one JSON value per frame, in UTF-8"
    assert (error["code"], error["data"]) == (-32700, {"kind": "parse", "hint": hint})
    process.send([1])
    error = process.raw()["error"]
    assert (error["code"], set(error["data"])) == (-32600, {"kind", "hint"})
    if dialect == "zot":
        assert process.ask("ping")["data"] == {"pong": True}
    else:
        assert process.call("ping") == {}


@pytest.mark.parametrize(
    "half",
    [b'{"jsonrpc":"2.0","id":1,"meth', b"Content-Length: 900\r\n\r\n{", b"Content-Le", b'{"zotd":1,"cwd":"/'],
)
def test_a_connection_cut_inside_a_frame_leaves_the_daemon_as_it_was(machine: Machine, half: bytes) -> None:
    daemon, path = machine.listen()
    with socket.socket(socket.AF_UNIX) as cut:
        cut.settimeout(LONG)
        cut.connect(str(path))
        cut.sendall(half)
        cut.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: cut.recv(65536), b""))
    assert b"-32700" in said
    assert machine.connect(path).greet().session()
    assert daemon.stderr == ""


def test_lines_may_end_as_on_windows_and_blank_ones_are_nothing(machine: Machine) -> None:
    process = machine.rpc()
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    process.write(b"\r\n\n \r\n" + ping % 0 + b"\r\n\r\n\t\n" + ping % 1 + b"\r\n")
    assert [process.raw()["id"] for _ in range(2)] == [0, 1]
    process.write(b'\xef\xbb\xbf{"jsonrpc":"2.0"')
    process.hang_up()
    assert process.raw()["error"]["code"] == -32700


def test_no_output_holds_a_raw_line_separator(machine: Machine) -> None:
    process = machine.rpc()
    process.write('{"jsonrpc":"2.0","id":"\u2028\u2029","method":"\u2028"}\n'.encode())
    raw = raw_frame(process)
    assert b"\xe2\x80\xa8" not in raw
    assert b"\xe2\x80\xa9" not in raw
    assert json.loads(raw)["id"] == "\u2028\u2029"


def raw_frame(client: Client) -> bytes:
    frame = client._frames.get(timeout=LONG)
    assert frame is not None
    return frame


@pytest.mark.parametrize("number", [0, "0", "", -7, 1.5])
def test_a_request_of_any_id_can_be_cancelled(machine: Machine, number: Any) -> None:
    slow = {"reply": [{"text": "one two", "delay_ms": 60_000}]}
    process: Process = machine.rpc(*machine.script(slow))
    process.greet()
    session = process.session()
    turn = process.call("turn/start", session_id=session, text="go")["turn_id"]
    params = {"session_id": session, "turn_id": turn}
    process.send({"jsonrpc": "2.0", "id": number, "method": "turn/wait", "params": params})
    cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
    process.send([cancel, {**cancel, "params": {"id": None}}, {**cancel, "params": None}])
    error = process.reply(number)["error"]
    assert (error["code"], error["data"]["kind"]) == (-32800, "cancelled")
    process.send(cancel)
    assert process.call("session/state", session_id=session)["session"]["active_turn"] == turn
