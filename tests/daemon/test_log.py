"""The log of a daemon: a line for each thing it does, with ids and durations, and nobody's words."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, Process
from tests.daemons import Shared, shared

__all__ = ["shared"]

SAID, ANSWERED, RUN = "words-of-the-user", "words-of-the-model", "words-of-a-command"
SCRIPT = (
    {"reply": [{"tool_call": {"name": "bash", "args": {"command": f"echo {RUN}"}}}]},
    {"reply": [{"text": ANSWERED}], "usage": {"input": 7, "output": 5}, "times": 0},
)
ENDING = """
import json, sys
def say(**frame): print(json.dumps(frame), flush=True)
say(type="hello", name="ending", version="1", capabilities=[])
say(type="ready")
sys.stdin.readline()
sys.stdin.readline()
sys.exit(3)
"""


class Logged:
    """A daemon that writes into a file of its own."""

    def __init__(self, shared: Shared, *argv: str | Path) -> None:
        self.machine, self.socket = shared.machine, shared.socket
        self.path = shared.machine.root / "own" / "zotd.log"
        words = ("daemon", "run", "--log", str(self.path), *(argv or ("--provider", "scripted")))
        self.process: Process = shared.machine.start(*words)
        shared.machine.appears(shared.socket, self.process)

    def end(self) -> list[dict[str, Any]]:
        """Its lines, once it has ended."""
        self.process.signal(signal.SIGTERM)
        assert self.process.exit_code() == 0
        assert self.process.stderr == ""
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]


def of(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == event]


@pytest.fixture
def logged(shared: Shared) -> Iterator[Logged]:
    folder = shared.machine.extension("ending", ENDING)
    yield Logged(shared, *shared.machine.script(*SCRIPT), "--ext", folder)


def test_every_request_turn_connection_and_change_of_an_extension_has_its_line(logged: Logged) -> None:
    machine = logged.machine
    client = machine.connect(logged.socket).greet(client={"name": "nvim", "version": "1"})
    session_id = client.session(cwd=str(machine.cwd))
    turn_id = client.call("turn/start", session_id=session_id, text=SAID)["turn_id"]
    client.event("done")
    refused = client.error("turn/unqueue", session_id=session_id, turn_id="none")
    client.call("extension/reload", session_id=session_id)
    cleared = client.call("turn/start", session_id=session_id, text="/clear")["turn_id"]
    client.event("command_result")
    client.hang_up()
    zot = machine.connect(logged.socket)
    assert zot.ask("ping")["success"]
    lines = logged.end()

    assert all([*line][:3] == ["time", "level", "event"] for line in lines)
    (begun,) = of(lines, "listening")
    assert (begun["pid"], begun["home"]) == (logged.process.popen.pid, str(machine.home))
    opened = {line["connection"]: line for line in of(lines, "connection opened")}
    assert all(
        (each["transport"], each["uid"], each["pid"]) == ("unix", os.getuid(), os.getpid())
        for each in opened.values()
    )
    (closed,) = [line for line in of(lines, "connection closed") if line["client"] == "nvim"]
    assert closed["connection"] in opened

    requests = [(line["method"], line["outcome"]) for line in of(lines, "request")]
    assert ("turn/start", "ok") in requests
    assert ("turn/unqueue", refused["data"]["kind"]) in requests
    assert ("ping", "ok") in requests
    assert [line for line in of(lines, "request") if not line["duration_ms"] > 0] == []

    (turn,) = of(lines, "turn")
    assert (turn["session"], turn["turn"], turn["client"]) == (session_id, turn_id, "nvim")
    assert (turn["provider"], turn["model"], turn["stop"]) == ("scripted", "scripted", "end_turn")
    assert (turn["steps"], turn["tool_calls"]) == (2, 1)
    assert turn["usage"]["output"] >= 5
    assert 0 < turn["first_delta_ms"] <= turn["duration_ms"]

    changes = [line for line in of(lines, "extension") if line["extension"] == "ending"]
    assert [line["state"] for line in changes][:2] == ["starting", "ready"]
    assert [line.get("duration_ms", 0) > 0 for line in changes] == [False] + [True] * (len(changes) - 1)
    assert all(line["duration_ms"] > 0 for line in of(lines, "extension ended"))
    (command,) = of(lines, "command")
    assert (command["session"], command["turn"], command["name"]) == (session_id, cleared, "clear")
    assert command["duration_ms"] > 0
    assert [line["pid"] > 0 for line in of(lines, "extension spawned")] == [True, True]
    (reload,) = of(lines, "reload")
    assert (reload["session"], reload["ready"]) == (session_id, 1)
    assert len(of(lines, "stopping")) == 1
    assert lines[-1]["event"] == "stopped"
    text = logged.path.read_text("utf-8")
    assert [word for word in (SAID, ANSWERED, RUN) if word in text] == []


def test_a_client_cannot_write_a_line_of_its_own(shared: Shared) -> None:
    daemon = Logged(shared)
    forged = 'x"}\n{"event":"forged"}\r\x1b[2J'
    client = shared.machine.connect(daemon.socket).greet(client={"name": forged, "version": forged})
    client.send({"jsonrpc": "2.0", "id": forged, "method": forged})
    assert "error" in client.raw()
    client.hang_up()
    lines = daemon.end()
    assert of(lines, "forged") == []
    assert forged in [line["method"] for line in of(lines, "request")]
    assert b"\x1b" not in daemon.path.read_bytes()


def test_a_log_that_is_a_link_keeps_the_daemon_from_starting(shared: Shared) -> None:
    target = shared.machine.root / "precious"
    target.write_text("keep")
    log = shared.machine.home / "logs" / "zotd.log"
    log.parent.mkdir()
    log.symlink_to(target)
    done = shared.machine.run("daemon", "run", "--log", "auto", stdin=None)
    assert done.returncode == 2
    assert f"{log}: the log is a symbolic link" in done.stderr
    assert target.read_text() == "keep"
    assert not shared.socket.exists()


def test_what_was_configured_decides_how_much_is_written(shared: Shared) -> None:
    (shared.machine.home / "config.json").write_text(json.dumps({"log_level": "error"}))
    daemon = Logged(shared)
    assert shared.machine.connect(daemon.socket).ask("ping")["success"]
    assert daemon.end() == []
    assert stat.S_IMODE(daemon.path.stat().st_mode) == 0o600


def test_a_private_server_writes_warnings_and_no_more(shared: Shared) -> None:
    quiet = shared.machine.rpc()
    quiet.ask("get_state")
    quiet.hang_up()
    assert quiet.popen.wait(LONG) == 0
    assert quiet.stderr == ""
    told = shared.machine.rpc("--log-level", "info", "--provider", "scripted")
    told.ask("get_state")
    told.hang_up()
    assert told.popen.wait(LONG) == 0
    lines = [json.loads(line) for line in told.stderr.splitlines()]
    assert [line["method"] for line in of(lines, "request")] == ["get_state"]
