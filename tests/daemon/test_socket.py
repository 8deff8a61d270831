"""One zotd, many clients: the socket as a file, and clients that come, share and vanish."""

from __future__ import annotations

import signal
import socket
import stat

import pytest

from tests.clients import LONG, Machine, gone, text_of, types

SLOW = {"match": "slow", "reply": [{"text": "one two three four five", "delay_ms": 60_000}], "times": 0}
ECHO = {"reply": [{"text": "an answer"}]}


def test_the_socket_is_for_its_owner_only_and_goes_with_the_daemon(machine: Machine) -> None:
    daemon, path = machine.listen()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    daemon.signal(signal.SIGTERM)
    assert daemon.popen.wait(5) == 0
    assert not path.exists()
    assert daemon.stderr == ""


def test_a_stale_socket_is_replaced(machine: Machine) -> None:
    path = machine.root / "zotd.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    _, path = machine.listen()
    assert machine.connect(path).ask("ping")["success"]


def test_a_live_socket_is_never_taken_over(machine: Machine) -> None:
    _, path = machine.listen()
    second = machine.run("rpc", "--provider", "scripted", "--listen", f"unix:{path}")
    assert (second.returncode, second.stdout) == (2, "")
    assert str(path) in second.stderr
    assert "Traceback" not in second.stderr
    assert machine.connect(path).ask("ping")["success"]


def test_a_file_that_is_no_socket_is_left_alone(machine: Machine) -> None:
    path = machine.root / "notes.txt"
    path.write_text("precious")
    refused = machine.run("rpc", "--provider", "scripted", "--listen", f"unix:{path}")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert path.read_text() == "precious"


def test_a_path_too_long_for_a_socket_is_refused_in_words(machine: Machine) -> None:
    path = machine.root / ("x" * 120)
    refused = machine.run("rpc", "--provider", "scripted", "--listen", f"unix:{path}")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


def test_clients_of_both_dialects_and_framings_are_served_at_once(machine: Machine) -> None:
    _, path = machine.listen()
    lines, headers, zot = machine.connect(path), machine.connect(path, headers=True), machine.connect(path)
    for client in (lines, headers):
        client.greet()
        session = client.session()
        client.call("turn/start", session_id=session, text="hi")
    zot.send({"type": "prompt", "message": "hi"})
    for client in (lines, headers):
        client.event("done")
    assert text_of(zot.until("done")) == "You said: hi"


def test_a_client_sees_the_events_of_its_own_session_only(machine: Machine) -> None:
    _, path = machine.listen()
    one, two = machine.connect(path).greet(), machine.connect(path).greet()
    ours, theirs = one.session(), two.session()
    assert ours != theirs
    for client, session in ((one, ours), (two, theirs)):
        turn = client.call("turn/start", session_id=session, text="hi")["turn_id"]
        client.call("turn/wait", session_id=session, turn_id=turn)
        client.call("ping")
    assert {event["session_id"] for event in one.events} == {ours}
    assert {event["session_id"] for event in two.events} == {theirs}


def test_a_client_that_vanishes_in_the_middle_of_a_turn_leaves_others_served(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script(SLOW, ECHO))
    leaver, stayer = machine.connect(path).greet(), machine.connect(path).greet()
    session = leaver.session()
    turn = leaver.call("turn/start", session_id=session, text="slow")["turn_id"]
    leaver.event("text_delta")
    leaver.hang_up()
    assert stayer.call("session/state", session_id=session)["session"]["active_turn"] == turn
    mine = stayer.session()
    answered = stayer.call("turn/start", session_id=mine, text="hi")["turn_id"]
    assert stayer.call("turn/wait", session_id=mine, turn_id=answered)["text"] == "an answer"
    assert stayer.call("turn/abort", session_id=session)["aborted"]
    assert stayer.call("turn/wait", session_id=session, turn_id=turn)["stop"] == "aborted"
    assert daemon.popen.poll() is None
    assert daemon.stderr == ""


def test_a_zot_client_that_vanishes_in_the_middle_of_a_turn_leaves_others_served(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script(SLOW, ECHO))
    leaver, stayer = machine.connect(path), machine.connect(path)
    leaver.send({"type": "prompt", "message": "slow"})
    leaver.until("text_delta")
    leaver.hang_up()
    stayer.send({"type": "prompt", "message": "hi"})
    assert text_of(stayer.until("done")) == "an answer"
    assert daemon.popen.poll() is None
    assert daemon.stderr == ""


def test_a_client_that_cannot_be_served_is_told_so_and_hung_up_on_and_the_daemon_stays(
    machine: Machine,
) -> None:
    daemon, path = machine.listen("--model", "gpt-5")
    client = machine.connect(path)
    client.send({"type": "get_state"})
    (answer,) = client.rest()
    assert (answer["command"], answer["success"]) == ("get_state", False)
    assert answer["error"].startswith("no model is chosen and no key is set")
    other = machine.connect(path).greet()
    assert other.session(provider="scripted")
    assert daemon.popen.poll() is None


@pytest.mark.parametrize("dialect", ["zot", "jsonrpc"])
def test_a_wrong_token_closes_that_connection_only(machine: Machine, dialect: str) -> None:
    daemon, path = machine.listen("--provider", "scripted", env={"ZOTD_TOKEN": "secret"})
    client = machine.connect(path)
    if dialect == "zot":
        assert client.ask("hello", token="wrong")["error"] == "invalid token"
    else:
        assert client.error("initialize", protocol_version=1)["data"]["kind"] == "auth"
    assert client.raw() is None
    assert machine.connect(path).greet(token="secret").session()
    assert machine.connect(path).ask("hello", token="secret")["success"]
    assert daemon.popen.poll() is None


def test_sigterm_with_busy_clients_ends_all_within_five_seconds(machine: Machine) -> None:
    call = {"name": "bash", "args": {"command": "echo $$; exec sleep 300"}}
    daemon, path = machine.listen(*machine.script({"reply": [{"tool_call": call}], "times": 0}))
    pids = []
    for _ in range(3):
        client = machine.connect(path).greet()
        client.call("turn/start", session_id=client.session(), text="go")
        pids.append(int(client.event("tool_progress")["text"].splitlines()[-1]))
    daemon.signal(signal.SIGTERM)
    assert daemon.popen.wait(5) == 0
    assert all(gone(pid, 0) for pid in pids)
    assert not path.exists()
    assert daemon.stderr == ""


def test_a_client_that_reads_nothing_does_not_hold_up_others(machine: Machine) -> None:
    flood = {"match": "flood", "reply": [{"text": "word " * 100_000}], "times": 0}
    _, path = machine.listen(*machine.script(flood, ECHO))
    deaf = socket.socket(socket.AF_UNIX)
    with deaf:
        deaf.settimeout(LONG)
        deaf.connect(str(path))
        deaf.sendall(b'{"type":"prompt","message":"flood"}\n')
        client = machine.connect(path)
        client.send({"type": "prompt", "message": "hi"})
        frames = client.until("done")
    assert text_of(frames) == "an answer"
    assert types(frames)[0] == "response"
