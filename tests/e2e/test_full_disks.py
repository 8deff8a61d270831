"""The disk that holds all of a user's state is full, or can only be read: what is said and kept."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine, Process
from tests.daemons import SCRIPTED, Shared
from tests.e2e.disks import PAGE, Disk, disk
from zotd.base.limits import Limits

LARGE = "y" * 3 * PAGE
"""More than is left of the last page of any file."""
CALL = [
    {"tool_call": {"name": "write", "args": {"path": "a.txt", "content": "new"}}},
    {"tool_call": {"name": "bash", "args": {"command": "echo ran >> ran"}}},
]
SCRIPT: list[Frame] = [
    {"match": "^tool", "reply": CALL},
    {"match": "^ask", "reply": CALL},
    {"match": "^endless", "reply": [{"text": "one two three", "delay_ms": 60_000}]},
    {"reply": [{"text": "ok"}], "times": 0},
]


class Home:
    """A machine whose home is a small disk, and on which a daemon may run; its socket is on another disk."""

    def __init__(self, machine: Machine, small: Disk) -> None:
        self.machine, self.disk, self.path = machine, small, machine.home
        small.holds(machine)
        self.shared = Shared(machine)

    def run(self, *argv: str) -> tuple[Process, Client]:
        """The daemon in the foreground, and a client of it."""
        process = self.machine.start("daemon", "run", *self.machine.script(*SCRIPT), *argv)
        self.machine.appears(self.shared.socket, process)
        return process, self.client()

    def client(self) -> Client:
        return self.machine.connect(self.shared.socket).greet(capabilities={"approvals": True})

    def session(self, client: Client, **params: Any) -> str:
        return client.session(cwd=str(self.machine.cwd), **{"approval": "auto", **params})


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    machine = Machine(tmp_path)
    with disk(machine.home) as small:
        made = Home(machine, small)
        try:
            yield made
        finally:
            made.shared.clear_away()
            machine.clear_away()


def turn(client: Client, session: str, text: str) -> Frame:
    """What becomes of a prompt."""
    accepted = client.call("turn/start", session_id=session, text=text)
    waited: Frame = client.call("turn/wait", session_id=session, turn_id=accepted["turn_id"])
    return waited


def not_kept(problem: Frame, path: Path | str, why: str = "No space left on device") -> None:
    """Fail unless an error says which file could not be written, why, and what to do."""
    assert problem.get("kind", problem.get("data", {}).get("kind")) == "storage", problem
    assert str(path) in problem["message"]
    assert why in problem["message"]
    hint = problem.get("hint", problem.get("data", {}).get("hint"))
    assert hint, problem
    assert "free" in hint


def stops(process: Process) -> None:
    """Fail unless SIGTERM ends a daemon in time."""
    began = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.exit_code() == 0
    assert time.monotonic() - began < Limits().drain_s


def texts(client: Client, session: str) -> list[str]:
    """What was said in a session, as it is kept."""
    rows = client.call("session/messages", session_id=session, limit=100)["messages"]
    return [block["text"] for row in rows for block in row["content"] if block["type"] == "text"]


def test_on_a_full_disk_prompts_say_so_and_once_there_is_room_all_goes_on(home: Home) -> None:
    process, client = home.run()
    old, idle = home.session(client), home.session(client)
    assert turn(client, old, "first")["stop"] == "end_turn"
    path = client.call("session/state", session_id=old)["session"]["path"]
    home.disk.fill()
    failed = turn(client, old, LARGE)
    assert failed["stop"] == "error"
    not_kept(failed["error"], path)
    told = [event for event in client.events if event["type"] == "error"]
    assert [event["kind"] for event in told] == ["storage"]
    not_kept(turn(client, home.session(client), "hello")["error"], home.path)  # one that has no file yet
    not_kept(turn(client, idle, "hello")["error"], home.path)
    plain = home.machine.extension("plain", "print()")
    unsaved = home.session(client, ephemeral=True, extensions=[str(plain)])
    assert turn(client, unsaved, "tool")["stop"] == "end_turn"
    assert (home.machine.cwd / "ran").read_text() == "ran\n"
    (note,) = (event for event in client.events if event["type"] == "ext_notify")
    for words in (str(home.path / "logs"), "No space left on device", "free space"):
        assert words in note["message"]
    client.events.clear()
    home.disk.free()
    assert turn(client, old, "again")["text"] == "ok"
    assert turn(client, idle, "again")["text"] == "ok"
    # What was announced as said is kept, in order, and nothing twice.
    assert texts(client, old) == ["first", "ok", LARGE, "again", "ok"]
    client.call("session/close", session_id=old)
    client.call("session/load", session_id=old)
    assert texts(client, old) == ["first", "ok", LARGE, "again", "ok"]
    endless = client.call("turn/start", session_id=old, text="endless")["turn_id"]
    client.event("text_delta")
    home.disk.fill()
    client.events.clear()
    stops(process)
    assert client.event("done")["turn_id"] == endless
    assert not home.shared.socket.exists()
    assert "Traceback" not in process.stderr


def test_whatever_else_is_written_down_names_the_place_and_what_to_do(home: Home) -> None:
    process, client = home.run()
    session = home.session(client)
    turn(client, session, "first")
    path = client.call("session/state", session_id=session)["session"]["path"]
    exported = client.call("session/export", session_id=session, format="jsonl")["content"]
    home.disk.fill()
    turn(client, session, LARGE)  # from here on nothing fits behind it
    this = {"session_id": session}
    cwd = str(home.machine.cwd)
    for method, params, where in (
        ("session/rename", {**this, "title": "t"}, path),
        ("session/clear", this, path),
        ("session/fork", {**this, "message_id": 1}, home.path / "sessions"),
        ("session/import", {"content": exported, "cwd": cwd}, home.path / "sessions"),
        ("session/export", {**this, "format": "html", "path": str(home.path / "x.html")}, home.path),
        ("workspace/trust", {"cwd": cwd, "trusted": True}, home.path / "trusted.json"),
    ):
        not_kept(client.error(method, **params), where)
    asked = home.session(client, approval="ask", ephemeral=True)
    started = client.request("turn/start", session_id=asked, text="ask")
    for _ in CALL:
        client.answer(client.question(), decision="allow", scope="always")
    accepted = client.reply(started)["result"]
    ended = client.call("turn/wait", session_id=asked, turn_id=accepted["turn_id"])
    assert ended["stop"] == "end_turn"
    warned = [event["message"] for event in client.events if event["type"] == "ext_notify"]
    assert len(warned) == 2
    for words in warned:
        assert "this session only" in words
        assert str(home.path / "permissions.json") in words
        assert "No space left on device" in words
        assert "free space" in words
    # The half of a file that found room is not left behind.
    assert not list(home.disk.path.glob(".zotd-*"))
    home.disk.free()
    for method, params, _ in (
        ("session/rename", {**this, "title": "t"}, path),
        ("workspace/trust", {"cwd": cwd, "trusted": True}, home.path / "trusted.json"),
    ):
        client.call(method, **params)
    stops(process)
    assert cwd in (home.disk.path / "trusted.json").read_text()
    assert '"t"' in (home.disk.path / Path(path).relative_to(home.path)).read_text()


def test_a_change_that_cannot_be_kept_for_undoing_is_made_and_is_not_undone(home: Home) -> None:
    process, client = home.run()
    before = home.machine.cwd / "a.txt"
    before.write_text("z" * 5 * PAGE)
    session = home.session(client)
    turn(client, session, "first")
    home.disk.fill()
    # The rows of the turn fit into the file's last page, what `a.txt` held does not.
    accepted = client.call("turn/start", session_id=session, text="tool")
    ended = client.call("turn/wait", session_id=session, turn_id=accepted["turn_id"])
    assert ended["stop"] == "end_turn", ended
    assert before.read_text() == "new"
    refused = client.error("turn/revert", session_id=session, turn_id=accepted["turn_id"])
    assert refused["data"]["kind"] == "not_kept"
    home.disk.free()
    stops(process)


def test_lines_of_the_log_that_find_no_room_are_counted_and_told(home: Home) -> None:
    process, client = home.run("--log", "auto")
    log = home.disk.path / "logs" / "zotd.log"
    home.disk.fill()
    for _ in range(100):
        client.call("session/list")
    home.disk.free()
    client.call("ping")
    stops(process)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    dropped = sum(line["count"] for line in lines if line["event"] == "log lines dropped")
    written = sum(line.get("method") == "session/list" for line in lines)
    assert dropped > 0
    assert written + dropped >= 100
    assert lines[-1]["event"] == "stopped"


@pytest.mark.parametrize("files", [True, False])
def test_a_daemon_that_is_started_on_a_full_disk_runs_or_says_why_not(home: Home, files: bool) -> None:
    home.disk.fill(files=files)
    done = home.shared.daemon("start")
    if files:
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert str(home.path / "logs") in done.stderr
        assert "No space left on device" in done.stderr
        assert "zotd daemon run" in done.stderr  # which needs no file
    else:
        assert done.returncode == 0, done.stderr
        client = home.client()
        assert (
            turn(client, home.session(client, provider="scripted", ephemeral=True), "hi")["stop"]
            == "end_turn"
        )
        assert home.shared.daemon("stop").returncode == 0
    home.disk.free()
    assert home.shared.started()


def test_a_full_place_for_the_socket_is_named_and_nothing_is_left_there(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with disk(machine.root / "run") as small:
        small.holds(machine)
        place = small.at / "zotd"
        (small.path / "zotd").mkdir(mode=0o700)
        machine.env["XDG_RUNTIME_DIR"] = str(small.at)
        small.fill(files=False)
        for word in ("run", "start"):
            done = machine.run("daemon", word)
            assert done.returncode
            assert str(place) in done.stderr
            assert "No space left on device" in done.stderr
            assert "Traceback" not in done.stderr
        small.free()
        small.fill()
        for argv in (("daemon", "run"), ("daemon", "start"), ("rpc", "--connect", "auto")):
            done = machine.run(*argv)
            assert done.returncode
            assert str(place) in done.stderr
            assert "No space left on device" in done.stderr
            assert "Traceback" not in done.stderr
        assert not list((small.path / "zotd").glob("*.sock"))
        small.free()
        done = machine.run("daemon", "start")
        assert done.returncode == 0, done.stderr
        assert machine.run("daemon", "stop").returncode == 0
    machine.clear_away()


def test_from_a_home_that_can_only_be_read_sessions_run_and_say_what_is_not_kept(home: Home) -> None:
    process, client = home.run()
    saved = home.session(client)
    turn(client, saved, "first")
    path = client.call("session/state", session_id=saved)["session"]["path"]
    client.call("session/close", session_id=saved)
    home.disk.read_only()
    assert turn(client, home.session(client, ephemeral=True), "tool")["stop"] == "end_turn"
    fresh = home.session(client)
    why = "Read-only file system"
    not_kept(turn(client, fresh, "hello")["error"], home.path, why)
    client.call("session/load", session_id=saved)
    assert texts(client, saved) == ["first", "ok"]
    not_kept(turn(client, saved, "hello")["error"], path, why)
    client.error("session/rename", session_id=saved, title="t")
    not_kept(client.error("workspace/trust", cwd=str(home.machine.cwd), trusted=True), home.path, why)
    printed = home.machine.run("-p", *SCRIPTED, "hi")
    assert printed.returncode == 1
    assert why in printed.stderr
    assert "free space" in printed.stderr
    assert home.machine.run("-p", "--no-session", *SCRIPTED, "hi").stdout == "You said: hi\n"
    home.disk.writable()
    assert turn(client, fresh, "again")["text"] == "ok"
    assert turn(client, saved, "again")["text"] == "ok"
    assert texts(client, saved) == ["first", "ok", "hello", "again", "ok"]
    client.call("session/close", session_id=saved)
    client.call("session/close", session_id=fresh)
    home.disk.read_only()
    stops(process)
    refused = home.shared.daemon("start")
    assert refused.returncode == 1
    assert why in refused.stderr
    assert "zotd daemon run" in refused.stderr
