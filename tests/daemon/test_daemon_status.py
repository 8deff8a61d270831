"""What a daemon says of itself, and how it is told to end. Real processes."""

from __future__ import annotations

import json
import os
import resource
import socket
from pathlib import Path

from tests.clients import LONG, Machine, gone, text_of

ECHO = {"reply": [{"text": "an answer"}], "times": 0}
SLOW = {"match": "slow", "reply": [{"text": "one two three", "delay_ms": 60_000}], "times": 0}
LISTENER = """
import json, sys
def say(**frame): print(json.dumps(frame), flush=True)
say(type="hello", name="listener", version="1", capabilities=[])
say(type="ready")
for line in sys.stdin: pass
"""


def test_status_tells_of_the_process_its_sessions_and_its_clients(machine: Machine) -> None:
    folder = machine.extension("listener", LISTENER)
    daemon, path = machine.listen(*machine.script(SLOW, ECHO), "--ext", str(folder))
    ours = machine.connect(path).greet(client={"name": "nvim", "version": "0.11"})
    session_id = ours.session(cwd=str(machine.cwd))
    ours.call("session/rename", session_id=session_id, title="a name")
    ours.call("extension/list", session_id=session_id)
    zot = machine.connect(path)
    assert zot.ask("ping")["success"]

    told = ours.call("daemon/status")

    assert told["pid"] == daemon.popen.pid
    assert told["home"] == str(machine.home)
    assert told["listening"] == [f"unix:{path}"]
    assert told["draining"] is False
    assert told["uptime_s"] > 0
    (session,) = [each for each in told["sessions"] if each["session_id"] == session_id]
    assert (session["title"], session["cwd"], session["clients"]) == ("a name", str(machine.cwd), 1)
    assert (session["busy"], session["queue"], session["pending_approvals"]) == (False, 0, 0)
    assert session["replay_bytes"] > 0
    assert session["extensions"] == [
        {"name": "listener", "state": "ready", "queued_frames": 0, "dropped_events": 0}
    ]
    by_dialect = {client["dialect"]: client for client in told["clients"]}
    assert by_dialect["jsonrpc"] == {
        "name": "nvim",
        "version": "0.11",
        "transport": "unix",
        "dialect": "jsonrpc",
        "sessions": [session_id],
        "requests": 1,
        "queued_bytes": 0,
        "lagging": False,
    }
    assert by_dialect["zot"]["transport"] == "unix"


def test_status_counts_what_the_daemon_holds_of_the_machine(machine: Machine) -> None:
    daemon, path = machine.listen()
    ours = machine.connect(path).greet(client={"name": "nvim", "version": "0.11"})
    before = ours.call("daemon/status")["memory"]
    assert "keeper_bytes" not in before
    pages = int(Path(f"/proc/{daemon.popen.pid}/statm").read_text().split()[1])
    assert abs(before["resident_bytes"] - pages * os.sysconf("SC_PAGE_SIZE")) < 8 << 20
    assert before["descriptors"] == len(list(Path(f"/proc/{daemon.popen.pid}/fd").iterdir()))
    assert before["descriptors_limit"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    another = machine.connect(path).greet(client={"name": "vim", "version": "9"})
    assert another.call("daemon/status")["memory"]["descriptors"] == before["descriptors"] + 1


def test_status_shows_a_turn_that_runs_and_prompts_that_wait(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(SLOW))
    ours = machine.connect(path).greet(client={"name": "nvim", "version": "0.11"})
    session_id = ours.session(cwd=str(machine.cwd))
    for text in ("slow one", "slow two"):
        ours.call("turn/start", session_id=session_id, text=text)
    ours.event("turn_start")
    (session,) = ours.call("daemon/status")["sessions"]
    assert (session["busy"], session["queue"]) == (True, 1)


def test_a_private_server_answers_for_itself_and_ends_when_told(machine: Machine) -> None:
    server = machine.rpc()
    server.greet(client={"name": "nvim", "version": "0.11"})
    told = server.call("daemon/status")
    assert told["listening"] == []
    assert [client["transport"] for client in told["clients"]] == ["stdio"]
    assert server.call("daemon/stop") == {}
    assert server.exit_code() == 0


def test_stop_answers_and_then_ends_the_daemon_for_everyone(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script(SLOW))
    busy = machine.connect(path).greet(client={"name": "busy", "version": "1"})
    busy.call("turn/start", session_id=busy.session(cwd=str(machine.cwd)), text="slow")
    busy.event("turn_start")
    ours = machine.connect(path).greet(client={"name": "nvim", "version": "0.11"})
    assert ours.call("daemon/stop") == {}
    assert gone(daemon.popen.pid, 5)
    assert daemon.exit_code() == 0
    assert not path.exists()


def test_a_drained_daemon_ends_when_its_turns_are_done(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script({"reply": [{"text": "one two", "delay_ms": 300}]}))
    busy = machine.connect(path).greet(client={"name": "busy", "version": "1"})
    busy.call("turn/start", session_id=busy.session(cwd=str(machine.cwd)), text="go")
    busy.event("turn_start")
    ours = machine.connect(path).greet(client={"name": "nvim", "version": "0.11"})
    assert ours.call("daemon/stop", drain=True) == {}
    busy.event("done")
    assert text_of(busy.events) == ""  # all of it came before the end of the turn
    assert daemon.popen.wait(LONG) == 0


FLOOD = {"match": "flood", "reply": [{"text": "word " * 3_500_000, "delta_chars": 100_000}]}
DEAF = """
import json, signal
def say(**frame): print(json.dumps(frame), flush=True)
say(type="hello", name="deaf", version="1", capabilities=[])
say(type="subscribe", events=["assistant_message"])
say(type="ready")
signal.pause()
"""


def test_status_shows_who_does_not_read_and_stop_does_not_wait_for_them(machine: Machine) -> None:
    folder = machine.extension("deaf", DEAF)
    daemon, path = machine.listen(*machine.script(FLOOD, ECHO), "--ext", str(folder))
    ours = machine.connect(path).greet(client={"name": "nvim", "version": "0.11"})
    session_id = ours.session(cwd=str(machine.cwd))
    ours.call("extension/list", session_id=session_id)
    ours.call("session/detach", session_id=session_id)
    stuck = socket.socket(socket.AF_UNIX)
    stuck.connect(str(path))
    client = {"name": "stuck", "version": "1"}
    for number, (method, params) in enumerate(
        [
            ("initialize", {"protocol_version": 1, "client": client}),
            ("session/attach", {"session_id": session_id}),
        ]
    ):
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        stuck.sendall(json.dumps(frame).encode() + b"\n")
        heard = b""
        while b'"id":%d' % number not in heard:
            heard += stuck.recv(65536)
    for text in ("flood", "more"):  # of which it reads nothing
        turn_id = ours.call("turn/start", session_id=session_id, text=text)["turn_id"]
        assert ours.call("turn/wait", session_id=session_id, turn_id=turn_id)["stop"] == "end_turn"

    told = ours.call("daemon/status")
    (row,) = [each for each in told["clients"] if each["name"] == "stuck"]
    assert row["lagging"] is True
    assert row["queued_bytes"] <= 8 << 20
    (session,) = told["sessions"]
    assert session["extensions"] == [
        {"name": "deaf", "state": "ready", "queued_frames": 1, "dropped_events": 1}
    ]
    assert told["memory"]["keeper_bytes"] > 1_000_000
    assert ours.call("daemon/stop") == {}
    assert gone(daemon.popen.pid, 5)
    assert daemon.exit_code() == 0
    stuck.close()
