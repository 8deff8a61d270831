"""The user's daemon in the foreground: where it listens, whom it lets in, how it ends."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, ROOT, Client, Frame, Machine, Process, gone
from tests.daemon.test_slow_readers import STUCK

SCRIPTED = ("--provider", "scripted")
SLOW = {"match": "slow", "reply": [{"text": "one two", "delay_ms": 400}], "times": 0}
ENDLESS = {"match": "endless", "reply": [{"text": "one two three", "delay_ms": 60_000}], "times": 0}
ENV = {"reply": [{"tool_call": {"name": "bash", "args": {"command": "env"}}}], "match": "env"}
END = {"reply": [{"text": "the end"}]}


def place(machine: Machine) -> Path:
    return machine.home / "run" / "zotd.sock"


def daemon(machine: Machine, *argv: str, **options: Any) -> tuple[Process, Path]:
    process = machine.start("daemon", "run", *(argv or SCRIPTED), **options)
    return process, machine.appears(place(machine), process)


def ended(process: Process) -> tuple[int, str]:
    """Its exit code, and what it had to complain of: its log tells of everything else too."""
    code = process.popen.wait(LONG)
    said = process.stderr.splitlines(keepends=True)
    return code, "".join(line for line in said if '"level":"info"' not in line)


def greeting(machine: Machine, path: Path) -> Frame:
    """The answer to a preface."""
    client = machine.connect(path)
    client.write(b'{"zotd":1}\n')
    answer: Frame = client.raw()
    return answer


def prompt(client: Client, machine: Machine, text: str) -> tuple[str, str]:
    session = client.greet().session(cwd=str(machine.cwd))
    turn: str = client.call("turn/start", session_id=session, text=text)["turn_id"]
    return session, turn


def test_it_listens_for_its_owner_only_and_leaves_nothing_behind(machine: Machine) -> None:
    process, path = daemon(machine)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert machine.connect(path).greet().call("daemon/status")["listening"] == [f"unix:{path}"]
    assert path.with_suffix(".pid").read_text() == f"{process.popen.pid}\n"
    process.signal(signal.SIGHUP)  # the terminal it was started from is closed
    assert machine.connect(path).ask("ping")["success"]
    process.signal(signal.SIGTERM)
    assert ended(process) == (0, "")
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("words", ["daemon run", "rpc --listen unix:{}"])
def test_of_four_that_start_at_a_stale_socket_one_is_left(machine: Machine, words: str) -> None:
    path = place(machine)
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    argv = words.format(path).split()
    four = [machine.start(*argv, *SCRIPTED) for _ in range(4)]
    handles = {os.pidfd_open(process.popen.pid): process for process in four}
    losers: list[Process] = []
    while len(losers) < 3:
        ready, _, _ = select.select(list(handles), [], [], LONG)
        assert ready, "more than one is left"
        losers += [handles.pop(handle) for handle in ready]
        for handle in ready:
            os.close(handle)
    (winner,) = handles.values()
    os.close(*handles)
    machine.appears(path, winner)
    assert machine.connect(path).greet().call("daemon/status")["pid"] == winner.popen.pid
    for process in losers:
        code, said = ended(process)
        assert code == 2
        assert str(path) in said
        assert "Traceback" not in said


def test_a_stopped_daemon_is_not_taken_for_a_dead_one(machine: Machine) -> None:
    process, path = daemon(machine)
    process.signal(signal.SIGSTOP)
    second = machine.run("daemon", "run", *SCRIPTED)
    process.signal(signal.SIGCONT)
    assert second.returncode == 2
    assert str(path) in second.stderr
    assert machine.connect(path).ask("ping")["success"]


@pytest.mark.parametrize("name", ["run", "run/zotd.sock", "run/zotd.lock"])
def test_a_link_where_something_of_ours_should_be_is_refused(machine: Machine, name: str) -> None:
    precious = machine.root / "precious"
    link = machine.home / name
    link.parent.mkdir(mode=0o700, exist_ok=True)
    if name == "run":
        precious.mkdir()
    else:
        precious.write_text("as it was")
    link.symlink_to(precious)
    refused = machine.run("daemon", "run", *SCRIPTED)
    assert refused.returncode == 2
    assert str(link) in refused.stderr
    assert "remove it" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert (list(precious.iterdir()) == []) if name == "run" else precious.read_text() == "as it was"


def test_a_link_where_the_pid_goes_is_replaced(machine: Machine) -> None:
    precious = machine.root / "precious"
    precious.write_text("as it was")
    path = place(machine)
    path.parent.mkdir(mode=0o700)
    path.with_suffix(".pid").symlink_to(precious)
    process, path = daemon(machine)
    assert machine.connect(path).ask("ping")["success"]  # it has all its files by then
    assert path.with_suffix(".pid").read_text() == f"{process.popen.pid}\n"
    assert precious.read_text() == "as it was"


def test_a_second_one_names_the_first_and_what_to_do(machine: Machine) -> None:
    process, path = daemon(machine)
    second = machine.run("daemon", "run", *SCRIPTED)
    assert second.returncode == 2
    assert second.stderr == (
        f"zotd: cannot listen: {path}: process {process.popen.pid} serves there already; join it with "
        "--connect auto, or end it first: zotd daemon stop\n"
    )
    assert machine.connect(path).ask("ping")["success"]


def test_one_whose_socket_was_removed_is_waited_for_until_it_leaves(machine: Machine) -> None:
    first, path = daemon(machine)
    path.unlink()
    second = machine.start("daemon", "run", *SCRIPTED)
    assert not gone(second.popen.pid, 1.0), second.stderr
    first.signal(signal.SIGTERM)
    machine.appears(path, second)
    assert machine.connect(path).ask("ping")["success"]
    assert first.exit_code() == 0


def test_a_directory_that_others_could_write_to_is_closed_to_them(machine: Machine) -> None:
    path = place(machine)
    path.parent.mkdir()
    path.parent.chmod(0o777)
    daemon(machine)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_user_is_refused_in_words_though_the_mode_would_let_it_in(machine: Machine) -> None:
    assert os.geteuid() == 0, "only root can try what happens to another user"
    path = machine.root / "open.sock"
    process, _ = daemon(machine, *SCRIPTED, "--listen", f"unix:{path}")
    machine.appears(path, process)
    with socket.socket(socket.AF_UNIX) as connected:
        path.chmod(0o666)
        machine.root.chmod(0o711)
        source = (
            f"import os, socket, sys; os.chdir({str(path.parent)!r}); s = socket.socket(socket.AF_UNIX);"
            "os.setgid(65534); os.setuid(65534); s.connect(sys.argv[1]); print(s.recv(4096))"
        )
        told = subprocess.run(
            [sys.executable, "-c", source, path.name],
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert "not uid 65534" in told.stdout, told.stderr
        assert '"kind":"auth"' in told.stdout
        connected.connect(str(path))
    assert machine.connect(path).ask("ping")["success"]


def test_with_nothing_to_do_it_ends_and_not_before(machine: Machine) -> None:
    process, path = daemon(machine, *machine.script(SLOW), "--idle-timeout", "0.3")
    client = machine.connect(path)
    session, _ = prompt(client, machine, "slow")
    file = Path(client.call("session/state", session_id=session)["session"]["path"])
    client.hang_up()
    assert ended(process) == (0, "")
    assert "one two" in file.read_text()  # the turn was done first
    assert not path.exists()


def test_a_client_that_says_nothing_keeps_it(machine: Machine) -> None:
    process, path = daemon(machine, *SCRIPTED, "--idle-timeout", "0.2")
    client = machine.connect(path)
    assert not gone(process.popen.pid, 0.8)
    assert client.ask("ping")["success"]
    client.hang_up()
    assert ended(process) == (0, "")


# Service managers


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind("\0" + address[1:] if address.startswith("@") else address)
        notify.settimeout(LONG)
        yield notify


def told(notify: socket.socket, word: str) -> list[str]:
    """What is said up to the message that has a word in it, that one included."""
    got = [notify.recv(4096).decode()]
    while word not in got[-1]:
        got.append(notify.recv(4096).decode())
    return got


@pytest.mark.parametrize("form", ["path", "abstract"])
def test_a_service_manager_hears_of_readiness_life_and_end(machine: Machine, form: str) -> None:
    address = str(machine.root / "notify") if form == "path" else f"@{machine.root}/notify"
    with manager(address) as notify:
        env = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"}
        process, path = daemon(machine, *machine.script(ENV, END), env=env)
        assert told(notify, "READY=1") == ["READY=1"]
        told(notify, "WATCHDOG=1")
        client = machine.connect(path)
        session, turn = prompt(client, machine, "env")
        client.call("turn/wait", session_id=session, turn_id=turn)
        shown = client.event("tool_result")["content"][0]["text"]
        assert "NOTIFY_SOCKET" not in shown
        assert "WATCHDOG" not in shown
        told(notify, "STATUS=clients: 1")
        told(notify, "WATCHDOG=1")
        process.signal(signal.SIGTERM)
        told(notify, "STOPPING=1")
        assert ended(process) == (0, "")


def test_a_loop_that_hangs_shows_no_sign_of_life(machine: Machine) -> None:
    address = str(machine.root / "notify")
    with manager(address) as notify:
        process, _ = daemon(machine, env={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"})
        told(notify, "WATCHDOG=1")
        process.signal(signal.SIGSTOP)
        notify.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(100):  # what was said before it was stopped
                notify.recv(4096)
        process.signal(signal.SIGCONT)
        told(notify, "WATCHDOG=1")


@pytest.mark.parametrize("words", ["daemon run", "rpc"])
def test_sockets_of_a_service_manager_are_served_and_stay_its_own(machine: Machine, words: str) -> None:
    path = machine.root / "a.sock"
    activator = subprocess.Popen(
        [
            *("systemd-socket-activate", "-l", str(path), "--fdname=rpc", *_env(machine)),
            *(str(machine.program), *words.split(), *machine.script(ENV, END)),
        ],
        env=machine.env,
        cwd=machine.cwd,
        stderr=subprocess.PIPE,
    )
    try:
        while not path.exists():
            assert not gone(activator.pid, 0.01), "systemd-socket-activate ended"
        client = machine.connect(path)
        session, turn = prompt(client, machine, "env")
        client.call("turn/wait", session_id=session, turn_id=turn)
        assert "LISTEN_" not in client.event("tool_result")["content"][0]["text"]
        status = client.call("daemon/status")
        assert status["listening"] == [f"unix:{path}"]
        assert status["pid"] == activator.pid
    finally:
        activator.terminate()
        assert activator.wait(LONG) == 0
        assert activator.stderr is not None
        activator.stderr.close()
    assert path.exists()


def _env(machine: Machine) -> list[str]:
    """`systemd-socket-activate` hands on only what it is told to."""
    return [f"--setenv={name}={value}" for name, value in machine.env.items()]


def test_an_inherited_socket_that_is_no_unix_socket_is_explained(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        number = tcp.fileno()
        source = (
            f"import os, sys; os.dup2({number}, 3);"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1');"
            "os.execv(sys.argv[1],sys.argv[1:])"
        )
        refused = subprocess.run(
            [sys.executable, "-c", source, machine.program, "daemon", "run", *SCRIPTED],
            pass_fds=(number,),
            env=machine.env,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
    assert refused.returncode == 2
    assert "ListenStream=" in refused.stderr
    assert "Traceback" not in refused.stderr


# Drained, replaced, stopped


def test_one_that_drains_makes_room_at_once_and_finishes_its_turns(machine: Machine) -> None:
    old, path = daemon(machine, *machine.script(SLOW))
    client = machine.connect(path)
    session, turn = prompt(client, machine, "slow")
    queued = client.call("turn/start", session_id=session, text="slow again")["turn_id"]
    client.call("daemon/stop", drain=True)
    new, path = daemon(machine)
    assert machine.connect(path).greet().call("daemon/status")["pid"] == new.popen.pid
    for method, params in (
        ("turn/start", {"session_id": session, "text": "more"}),
        ("session/new", {"cwd": str(machine.cwd)}),
        ("session/compact", {"session_id": session}),
    ):
        error = client.error(method, **params)
        assert error["data"]["kind"] == "draining"
        assert "connect again" in error["data"]["hint"]
    assert client.call("daemon/status")["draining"]
    for each in (turn, queued):
        assert client.call("turn/wait", session_id=session, turn_id=each)["text"] == "one two"
    assert ended(old) == (0, "")
    assert path.with_suffix(".pid").read_text() == f"{new.popen.pid}\n"


def test_one_whose_installation_changes_sends_newcomers_on_and_ends(machine: Machine) -> None:
    lib = machine.root / "lib"
    shutil.copytree(ROOT / "zotd", lib / "zotd", ignore=shutil.ignore_patterns("__pycache__"))
    machine.program = machine.root / "program"
    machine.program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zotd "$@"\n')
    machine.program.chmod(0o755)
    process, path = daemon(machine, *machine.script(SLOW), env={"PYTHONPATH": str(lib)})
    client = machine.connect(path)
    session, turn = prompt(client, machine, "slow")
    fresh = lib / "fresh"
    shutil.copy(lib / "zotd" / "__init__.py", fresh)
    fresh.replace(lib / "zotd" / "__init__.py")
    while "draining" not in greeting(machine, path):  # it looks ten times a second
        assert path.exists()
    assert not path.exists()
    assert client.call("turn/wait", session_id=session, turn_id=turn)["text"] == "one two"
    code, said = ended(process)
    assert code == 0
    assert "installation changed" in said


def test_it_stops_in_five_seconds_whatever_hangs(machine: Machine) -> None:
    stuck = machine.extension("stuck", STUCK)
    flood = {"match": "flood", "reply": [{"text": "x" * 200_000, "delta_chars": 100}], "times": 0}
    process, path = daemon(machine, *machine.script(flood, ENDLESS), "--ext", str(stuck))
    client, deaf = machine.connect(path), socket.socket(socket.AF_UNIX)
    session, turn = prompt(client, machine, "endless")
    file = Path(client.call("session/state", session_id=session)["session"]["path"])
    client.event("text_delta")
    with deaf:
        deaf.connect(str(path))
        deaf.sendall(b'{"type":"prompt","message":"flood"}\n' * 5)
        deaf.recv(10)
        before = time.monotonic()
        process.signal(signal.SIGTERM)
        assert ended(process)[0] == 0
        assert time.monotonic() - before < 5
    assert client.event("done")["turn_id"] == turn
    assert "endless" in file.read_text()
    assert not path.exists()


# Descriptors


def limit(process: Process, most: int) -> None:
    hard = resource.prlimit(process.popen.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(process.popen.pid, resource.RLIMIT_NOFILE, (most, hard))


def cpu_ticks(process: Process) -> int:
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_without_descriptors_newcomers_are_told_and_it_recovers(machine: Machine) -> None:
    process, path = daemon(machine)
    first = machine.connect(path)
    assert first.ask("ping")["success"]
    limit(process, 34)  # enough for what it has open, not for the 32 that it keeps for the work at hand
    refused = machine.connect(path).raw()
    assert refused["error"]["code"] == -32001
    assert refused["error"]["data"]["retry_after_ms"] > 0
    assert "LimitNOFILE" in refused["error"]["data"]["hint"]
    assert first.ask("ping")["success"]
    limit(process, 3)  # not one can be had, not even to say so
    waiting = machine.connect(path)
    waiting.send({"type": "ping"})
    before = cpu_ticks(process)
    assert not gone(process.popen.pid, 1.0)
    assert cpu_ticks(process) - before < 30
    limit(process, 1024)
    assert waiting.next()["success"]
    assert machine.connect(path).ask("ping")["success"]


def connect_many(path: Path, seconds: float, each_second: int) -> float:
    """Connect, be answered and hang up, so often; the longest time one of them took."""
    slowest, start = 0.0, time.monotonic()
    for number in range(int(seconds * each_second)):
        before = time.monotonic()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LONG)
            client.connect(str(path))
            client.sendall(b'{"type":"ping"}\n')
            assert client.recv(4096)
        slowest = max(slowest, time.monotonic() - before)
        ahead = start + (number + 1) / each_second - time.monotonic()
        if ahead > 0:
            select.select([], [], [], ahead)
    return slowest


def test_five_hundred_connections_in_a_row_are_all_answered(machine: Machine) -> None:
    process, path = daemon(machine)
    connect_many(path, 0.5, 1000)
    client = machine.connect(path).greet()
    status = client.call("daemon/status")
    assert len(status["clients"]) == 1
    assert status["memory"]["descriptors"] < 40
    assert not gone(process.popen.pid, 0)


@pytest.mark.long
def test_a_thousand_connections_a_second_are_taken_for_ten_seconds(machine: Machine) -> None:
    process, path = daemon(machine)
    before = cpu_ticks(process)
    assert connect_many(path, 10, 1000) < 1
    # A machine that is busy with other tests gives us less: what counts is that one core would do.
    assert cpu_ticks(process) - before < 1000
    assert not gone(process.popen.pid, 0)
