"""Clients over a WebSocket: who may come, what a message is, how it ends. Real processes and clients."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.clients import LONG, Client, Frame, Machine, Process, gone, text_of

TOKEN = "s3cret"
MIB = 1 << 20
FLOOD = {"match": "flood", "reply": [{"text": "word " * 200_000, "delta_chars": 1000}], "times": 0}
SLOW = {"match": "slow", "reply": [{"text": "one two three", "delay_ms": 60_000}], "times": 0}
PIECES = {"match": "pieces", "reply": [{"text": ("x" * 59 + " ") * 40_000}], "times": 0}
ECHO = {"reply": [{"text": "an answer"}], "times": 0}


class Daemon:
    """A zotd that listens on a WebSocket, and its clients."""

    def __init__(self, machine: Machine, *argv: str) -> None:
        self.process: Process = machine.rpc(
            *("--listen", "ws://127.0.0.1:0", *(argv or ("--provider", "scripted"))),
            env={"ZOTD_TOKEN": TOKEN},
        )
        self.uri = told_address(self.process)
        self.stack = ExitStack()
        self.open: list[ClientConnection] = []

    def socket(self, **options: Any) -> ClientConnection:
        options = {"compression": None, "max_size": None, "open_timeout": LONG, **options}
        self.open.append(self.stack.enter_context(connect(self.uri, **options)))
        return self.open[-1]

    def client(self, **options: Any) -> Client:
        """A client as on any other transport: what it writes is one message, what it reads are lines."""
        websocket = self.socket(**options)

        def read() -> bytes:
            try:
                message = websocket.recv()
            except ConnectionClosed:
                return b""
            assert isinstance(message, str)
            assert "\n" not in message
            return message.encode() + b"\n"

        return Client(read, lambda data: websocket.send(data.decode()), websocket.close)


def told_address(process: Process) -> str:
    """The address that it says it listens on."""
    for _ in range(int(LONG / 0.01)):
        if (told := process.stderr).endswith("\n"):
            return told.split()[-1]
        assert not gone(process.popen.pid, 0.01), process.stderr
    raise AssertionError("it listens on nothing")


@pytest.fixture
def daemon(machine: Machine) -> Iterator[Daemon]:
    made = Daemon(machine, *machine.script(FLOOD, SLOW, PIECES, ECHO))
    with made.stack:
        yield made


def test_both_dialects_have_turns_over_it(daemon: Daemon) -> None:
    assert daemon.process.stderr == f"zotd: listening on {daemon.uri}\n"
    client = daemon.client().greet(token=TOKEN)
    turn = client.call("turn/start", session_id=client.session(), text="hi")["turn_id"]
    assert client.event("text_delta")["delta"]
    assert client.event("done")["turn_id"] == turn
    zot = daemon.client()
    assert zot.ask("hello", token=TOKEN)["success"]
    zot.send({"type": "prompt", "message": "hi"})
    assert text_of(zot.until("done")) == "an answer"


def test_nothing_works_before_the_token_and_a_wrong_one_ends_the_connection(daemon: Daemon) -> None:
    client = daemon.client()
    for method in ("ping", "session/new", "rpc.discover", "shutdown", "no/such"):
        assert "error" in client.reply(client.request(method))
    assert client.error("initialize", protocol_version=1, token="x")["data"]["kind"] == "auth"
    assert client.raw() is None
    zot = daemon.client()
    for command in ("ping", "get_state", "no_such"):
        assert zot.ask(command)["error"] == "auth required: send hello with token first"
    assert zot.ask("hello", token="x")["error"] == "invalid token"
    assert zot.raw() is None
    assert daemon.client().greet(token=TOKEN).session()


def test_a_message_is_a_value_or_lines_of_them_in_text_or_binary(daemon: Daemon) -> None:
    websocket = daemon.socket()
    frame = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
    hello = {**frame, "params": {"protocol_version": 1, "token": TOKEN}}
    websocket.send(json.dumps(hello, indent=2))
    assert json.loads(websocket.recv(LONG))["id"] == 0
    ping = json.dumps({**frame, "method": "ping", "id": "é\u2028"}, ensure_ascii=False)
    websocket.send(ping.encode())
    answer = websocket.recv(LONG)
    assert isinstance(answer, str)
    assert "\u2028" not in answer
    assert json.loads(answer)["id"] == "é\u2028"
    websocket.send(f"\r\n{ping}\r\n\n{ping.replace('é', 'è')}")
    assert [json.loads(websocket.recv(LONG))["result"] for _ in range(2)] == [{}, {}]
    websocket.send([ping[:7], ping[7:-1], ping[-1:]])
    assert json.loads(websocket.recv(LONG))["result"] == {}
    for bad in ("{", b"\xff", '{"jsonrpc":'):
        websocket.send(bad)
        assert json.loads(websocket.recv(LONG))["error"]["code"] == -32700
    websocket.send(ping)
    assert json.loads(websocket.recv(LONG))["result"] == {}


def test_a_message_beyond_16_mib_is_answered_and_skipped_however_it_is_cut(daemon: Daemon) -> None:
    client, websocket = daemon.client(), daemon.open[0]
    client.greet(token=TOKEN)
    piece = "y" * MIB
    for message in (piece * 17, [piece] * 17, [piece * 17, "z"], ["a", piece * 17, "z"], [piece * 9] * 2):
        websocket.send(message)
        assert "16777216 bytes" in client.raw()["error"]["message"]
        assert client.call("ping") == {}
    text = "x" * (15 * MIB)
    assert client.error("session/state", session_id=text)["data"]["kind"] == "session_not_found"


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Origin", "https://evil.example", 403),
        ("Origin", "http://localhost.evil.example", 403),
        ("Origin", "null", 403),
        ("Host", "evil.example", 403),
        ("Host", "evil.example:80", 403),
    ],
)
def test_pages_from_elsewhere_are_turned_away(machine: Machine, header: str, value: str, status: int) -> None:
    daemon = Daemon(machine)
    answer = raw_handshake(daemon.uri, **{header: value})
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\n\r\n" in answer


def test_local_pages_editors_and_programs_come_in(daemon: Daemon) -> None:
    for origin in (
        None,
        "http://localhost:5173",
        "https://127.0.0.1",
        "http://[::1]:8",
        "vscode-webview://x1",
    ):
        assert daemon.socket(origin=origin).response is not None
    with pytest.raises(InvalidStatus):
        daemon.socket(origin="https://evil.example")
    assert daemon.client().greet(token=TOKEN).call("ping") == {}


def raw_handshake(uri: str, **headers: str) -> bytes:
    """What a request with these headers gets, up to the end of the stream."""
    host, port = uri.removeprefix("ws://").split(":")
    fields = {
        "Host": f"{host}:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
        **headers,
    }
    lines = ["GET / HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    with socket.create_connection((host, int(port)), LONG) as plain:
        plain.sendall("\r\n".join(lines).encode())
        return b"".join(iter(lambda: plain.recv(65536), b""))


def test_what_is_no_websocket_is_told_so_and_others_are_served(daemon: Daemon) -> None:
    host, port = daemon.uri.removeprefix("ws://").split(":")
    for said in (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"x" * 40_000, b"\x16\x03\x01\r\n\r\n"):
        with socket.create_connection((host, int(port)), LONG) as plain:
            plain.sendall(said)
            while plain.recv(65536):
                pass
    with socket.create_connection((host, int(port)), LONG) as cut:
        cut.sendall(b"GET / HTTP/1.1\r\nHo")
    assert daemon.client().greet(token=TOKEN).call("ping") == {}
    assert daemon.process.stderr.count("\n") == 1


def test_a_client_cut_off_inside_a_frame_harms_no_one(daemon: Daemon) -> None:
    websocket = daemon.socket()
    websocket.socket.sendall(b"\x81\xff" + (10 * MIB).to_bytes(8, "big") + b"mask" + b"half")
    websocket.socket.shutdown(socket.SHUT_RDWR)
    assert daemon.client().greet(token=TOKEN).call("ping") == {}
    assert daemon.process.stderr.count("\n") == 1


def test_a_turn_outlives_its_client_whose_goodbye_is_answered(daemon: Daemon) -> None:
    client = daemon.client().greet(token=TOKEN)
    session = client.session()
    turn = client.call("turn/start", session_id=session, text="slow")["turn_id"]
    client.hang_up()
    assert daemon.open[0].close_code == 1000
    other = daemon.client().greet(token=TOKEN)
    state = other.call("session/state", session_id=session)["session"]
    assert state["active_turn"] == turn


def test_a_client_that_reads_nothing_does_not_hold_up_others(daemon: Daemon) -> None:
    deaf = daemon.socket()
    deaf.send(json.dumps({"type": "hello", "token": TOKEN}))
    for _ in range(20):
        deaf.send(json.dumps({"type": "prompt", "message": "flood"}))
    client = daemon.client().greet(token=TOKEN)
    client.call("turn/start", session_id=client.session(), text="hi")
    assert client.event("done")["stop"] == "end_turn"
    deaf.socket.shutdown(socket.SHUT_RDWR)


def test_one_that_reads_late_gets_merged_events_in_whole_messages(daemon: Daemon) -> None:
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    host, port = daemon.uri.removeprefix("ws://").split(":")
    narrow.connect((host, int(port)))
    late, client = daemon.socket(max_queue=1, sock=narrow), daemon.client().greet(token=TOKEN)
    this = {"session_id": client.session()}
    for number, (method, params) in enumerate(
        [("initialize", {"protocol_version": 1, "token": TOKEN}), ("session/attach", this)]
    ):
        late.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        while json.loads(late.recv()).get("id") != number:
            pass
    client.call("turn/start", **this, text="pieces")
    text = text_of(until_done(client))
    assert len(text) == 40_000 * 60
    events: list[Frame] = []
    while not events or events[-1]["type"] != "done":
        frame = json.loads(late.recv())
        events.append({"type": frame["method"], **frame["params"]})
    assert text_of(events) == text
    assert any("first_seq" in event for event in events)
    number = events[0]["seq"]
    for event in events:
        assert event.get("first_seq", event["seq"]) == number
        number = event["seq"] + 1


def until_done(client: Client) -> list[Frame]:
    while not client.events or client.events[-1]["type"] != "done":
        client.take()
    return client.events


def test_a_preface_of_a_stranger_tells_nothing_and_one_with_the_token_counts(
    daemon: Daemon, machine: Machine
) -> None:
    there, nowhere = str(machine.cwd), "/no/such"
    said = []
    for members in (
        {"cwd": there},
        {"cwd": nowhere},
        {"cwd": there, "token": "wrong"},
        {"flags": {"session": "abcd"}, "token": 1},
    ):
        stranger = daemon.client()
        stranger.send({"zotd": 1, **members})
        said.append(stranger.raw()["error"])
        assert stranger.raw() is None
    assert all(error == said[0] for error in said)
    assert said[0]["data"]["kind"] == "auth"
    friend = daemon.client()
    friend.send({"zotd": 1, "cwd": there, "token": TOKEN})
    assert friend.raw()["zotd"] == 1
    assert friend.error("ping")["data"]["kind"] == "not_initialized"
    new = friend.greet(token=TOKEN).call("session/new")["session"]
    assert new["cwd"] == there


def test_it_goes_with_a_unix_socket_and_ends_with_the_daemon(machine: Machine) -> None:
    path = machine.root / "zotd.sock"
    daemon = Daemon(machine, "--provider", "scripted", "--listen", f"unix:{path}")
    over_unix = machine.connect(machine.appears(path, daemon.process)).greet(token=TOKEN)
    session = over_unix.session()
    with daemon.stack:
        over_web = daemon.client().greet(token=TOKEN)
        assert over_web.call("session/state", session_id=session)
        daemon.process.signal(signal.SIGTERM)
        assert daemon.process.popen.wait(5) == 0
        assert over_web.raw() is None
    assert not path.exists()


@pytest.mark.parametrize(
    ("address", "token", "said"),
    [
        ("ws://127.0.0.1:0", "", "ZOTD_TOKEN"),
        ("ws://0.0.0.0:0", TOKEN, "only this machine"),
        ("ws://example.org:80", TOKEN, "only this machine"),
        ("ws://127.0.0.1", TOKEN, "expected ws://127.0.0.1:PORT"),
        ("ws://127.0.0.1:x", TOKEN, "ws://127.0.0.1:x: "),
        ("wss://127.0.0.1:0", TOKEN, "expected unix:PATH or ws://"),
    ],
)
def test_an_address_that_cannot_be_is_refused_in_words(
    machine: Machine, address: str, token: str, said: str
) -> None:
    refused = machine.run("rpc", "--listen", address, env={"ZOTD_TOKEN": token})
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_port_that_is_taken_is_refused_in_words_and_nothing_is_left(
    machine: Machine, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"ws://127.0.0.1:{taken.getsockname()[1]}"
        listen = ("--listen", f"unix:{tmp_path}/s", "--listen", address)
        refused = machine.run("rpc", *listen, env={"ZOTD_TOKEN": TOKEN})
    assert refused.returncode == 2
    assert f"{address}: " in refused.stderr
    assert not (tmp_path / "s").exists()
