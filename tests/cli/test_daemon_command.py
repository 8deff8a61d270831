"""`zotd daemon`: starting, stopping and looking at the shared daemon by hand."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clients import LONG, gone
from tests.daemons import Shared
from zotd.base.limits import Limits
from zotd.cli.daemon_call import Line, NotDone, Silent
from zotd.cli.rendezvous import NoDaemon, greet
from zotd.cli.stopping import stop

SHORT = Limits(preface_s=0.3, daemon_answer_s=0.3, drain_s=0.3, contained_s=LONG)


def test_the_life_of_a_daemon_by_hand(shared: Shared) -> None:
    none = shared.daemon("status")
    assert (none.returncode, none.stdout) == (3, f"no daemon runs ({shared.socket}: there is no socket)\n")
    as_json = shared.daemon("status", "--json")
    assert as_json.returncode == 3
    assert json.loads(as_json.stdout) == {"running": False, "socket": str(shared.socket), "finishing": []}
    assert shared.daemon("stop").stdout == "no daemon runs\n"
    started = shared.daemon("start")
    pid = shared.status()["pid"]
    assert started.stdout == f"started: process {pid}, socket {shared.socket}\n"
    assert shared.daemon("start").stdout == f"runs already: process {pid}, socket {shared.socket}\n"
    kept = shared.daemon("start", "--idle-timeout", "5").stdout.splitlines()[1:]
    assert kept == ["This command did not start it: it stays when idle."]
    shown = shared.daemon("status").stdout
    assert f"process {pid}" in shown
    assert f"listening: unix:{shared.socket}" in shown
    assert "stays when idle" in shown
    assert "idle_exit_s" not in shared.status()
    again = shared.daemon("restart", "--idle-timeout", "600")
    assert again.returncode == 0
    assert again.stdout.startswith(f"stopped: process {pid}\nstarted: process ")
    assert gone(pid, 0)
    status = shared.status()
    assert status["idle_exit_s"] == 600
    assert shared.daemon("stop").stdout == f"stopped: process {status['pid']}\n"
    assert gone(status["pid"], 0)
    assert not shared.socket.exists()


def test_a_stopped_daemon_is_named_and_can_be_ended(shared: Shared) -> None:
    pid = shared.started()
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(NoDaemon, match=rf"process {pid}.*did not answer.*kill -CONT {pid}.*zotd daemon stop"):
        greet(str(shared.socket), b'{"zotd":1}\n', SHORT)
    big = b'{"zotd":1,"env":{"A":"' + b"x" * 3_000_000 + b'"}}\n'
    with pytest.raises(NoDaemon, match="did not answer"):
        greet(str(shared.socket), big, SHORT)

    def dialled() -> Line:
        return Line(shared.machine.env, str(shared.machine.home), SHORT)

    with dialled() as line, pytest.raises(Silent, match=f"process {pid}"):
        line.ask("daemon/status")
    assert stop(dialled, SHORT, drain=False) == pid
    assert gone(pid, 0)
    assert stop(dialled, SHORT, drain=False) == 0


DEAF = """
import signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with socket.socket(socket.AF_UNIX) as listening:
    listening.bind(sys.argv[1])
    listening.listen()
    print("ready", flush=True)
    signal.pause()
"""


ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], [sys.argv[2], "daemon", "run"])
"""


def test_one_that_its_service_starts_as_we_come_is_told_of_as_that(shared: Shared) -> None:
    shared.place.mkdir(mode=0o700)
    program = str(shared.machine.program)
    with socket.socket(socket.AF_UNIX) as listening:  # as a service manager does
        listening.bind(str(shared.socket))
        listening.listen()
        start = subprocess.Popen(
            [program, "daemon", "start"], env=shared.machine.env, stdout=subprocess.PIPE, text=True
        )
        assert select.select([listening], [], [], LONG)[0]
        handle = listening.fileno()
        command = [sys.executable, "-c", ACTIVATED, str(handle), program]
        served = subprocess.Popen(command, env=shared.machine.env, pass_fds=[handle])
        try:
            said = start.communicate(timeout=LONG)[0]
            again = shared.daemon("start").stdout
        finally:
            served.terminate()
            assert served.wait(LONG) == 0
    shared.socket.unlink()
    where = f"process {served.pid}, socket {shared.socket}\n"
    assert (said, again) == (f"started by the service: {where}", f"runs already: {where}")


def test_what_is_configured_of_a_daemon_holds_whoever_starts_it(shared: Shared) -> None:
    joined = shared.forward().greet()
    assert shared.status()["idle_exit_s"] == Limits().idle_exit_s
    joined.hang_up()
    shared.daemon("stop")
    (shared.machine.home / "config.json").write_text('{"idle_timeout": 500, "log_level": "debug"}')
    shared.forward().greet().hang_up()
    assert shared.status()["idle_exit_s"] == 500
    variables = {"ZOTD_IDLE_TIMEOUT": "400", "ZOTD_LOG_LEVEL": "error"}
    shared.daemon("restart", env=variables)
    assert shared.status()["idle_exit_s"] == 400
    shared.daemon("stop")
    wrong = shared.daemon("start", env={"ZOTD_IDLE_TIMEOUT": "soon"})
    assert (wrong.returncode, "idle_exit_s" in shared.status()) == (0, True)
    assert wrong.stderr.startswith("zotd: ZOTD_IDLE_TIMEOUT: expected a number")
    shared.daemon("stop")
    (shared.machine.home / "logs" / "zotd.log").unlink()
    shared.forward(env=variables).greet().hang_up()
    assert shared.status()["idle_exit_s"] == 400
    assert (shared.machine.home / "logs" / "zotd.log").read_text() == ""


def test_one_that_drains_is_told_of_and_ended_with_the_others(shared: Shared) -> None:
    old = shared.started()
    slow = shared.machine.script({"reply": [{"text": "one two", "delay_ms": 60_000}]})
    client = shared.machine.rpc("--connect", "auto", *slow).greet()
    turn = client.call("turn/start", session_id=client.session(), text="go")["turn_id"]
    client.call("daemon/stop", drain=True)
    none = shared.daemon("status")
    assert none.returncode == 3
    assert none.stdout.splitlines()[1:] == [
        f"process {old} finishes its turns and then ends; zotd daemon stop ends it now"
    ]
    assert json.loads(shared.daemon("status", "--json").stdout)["finishing"] == [old]
    new = shared.started()
    assert f"process {old} finishes its turns" in shared.daemon("status").stdout
    assert shared.daemon("stop").stdout == f"stopped: process {new}\nstopped: process {old}\n"
    assert gone(old, 0)
    assert client.event("done")["turn_id"] == turn
    assert sorted(path.name for path in shared.place.iterdir()) == ["start.lock"]
    shared.started()
    left = shared.place / f"zotd.draining.{old}"
    left.touch(0o600)  # of one that was killed while it drained
    assert "finishes" not in shared.daemon("status").stdout
    assert not left.exists()


@pytest.mark.parametrize("name", ["zotd", "something-else"])
def test_only_a_daemon_is_ended_by_force_whatever_a_pid_file_says(shared: Shared, name: str) -> None:
    shared.place.mkdir(mode=0o700)
    bystander = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    (shared.place / "zotd.pid").write_text(f"{bystander.pid}\n")
    command = [os.fspath(Path("/proc/self/exe").resolve()), "-c", DEAF, str(shared.socket), name]
    deaf = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert deaf.stdout is not None
    assert deaf.stdout.readline() == b"ready\n"

    def dialled() -> Line:
        return Line(shared.machine.env, str(shared.machine.home), SHORT)

    short = Limits(daemon_answer_s=0.1, drain_s=0.1, contained_s=0.3)
    try:
        if name == "zotd":
            assert stop(dialled, short, drain=False) == deaf.pid
            assert deaf.wait(LONG) == -signal.SIGKILL
        else:
            with pytest.raises(NoDaemon, match=rf"process {deaf.pid}.*is no zotd.*systemctl --user stop"):
                stop(dialled, short, drain=False)
            assert deaf.poll() is None
        assert bystander.poll() is None
    finally:
        for process in (bystander, deaf):
            process.kill()
            process.communicate()
        shared.socket.unlink()


def test_logs_are_shown_from_their_end_and_followed_into_the_next_file(shared: Shared) -> None:
    missing = shared.daemon("logs")
    assert (missing.returncode, missing.stdout) == (1, "")
    log = shared.machine.home / "logs" / "zotd.log"
    assert str(log) in missing.stderr
    log.parent.mkdir()
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(30_000)) + b"\x1b[2Jbad \xff\tcut")
    assert shared.daemon("logs", "-n", "2").stdout == "line 29999\n\\x1b[2Jbad \ufffd\tcut\n"
    assert shared.daemon("logs", "-n", "0").stdout == ""
    assert len(shared.daemon("logs").stdout.splitlines()) == 50
    command = [str(shared.machine.program), "daemon", "logs", "-f", "-n", "1"]
    with subprocess.Popen(command, env=shared.machine.env, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline().endswith("cut\n")
        with log.open("a") as file:
            file.write("added\n")
        assert following.stdout.readline() == "added\n"
        log.rename(log.with_suffix(".1"))
        log.write_text("fresh\n")
        assert following.stdout.readline() == "fresh\n"
        log.write_text("cut\n")
        assert following.stdout.readline() == "cut\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(LONG) == 130


@pytest.mark.parametrize("kind", ["pipe", "hard link", "folder that is a link"])
def test_what_is_no_log_is_neither_written_to_nor_waited_for(shared: Shared, kind: str) -> None:
    log = shared.machine.home / "logs" / "zotd.log"
    theirs = shared.machine.root / "theirs"
    if kind == "folder that is a link":
        theirs.mkdir()
        log.parent.symlink_to(theirs)
    else:
        log.parent.mkdir()
        theirs.write_text("theirs\n")
        os.mkfifo(log) if kind == "pipe" else log.hardlink_to(theirs)
    refused = shared.daemon("start")
    assert refused.returncode == 1
    assert refused.stderr.startswith("zotd: the daemon has nowhere to write: ")
    assert str(log.parent) in refused.stderr
    assert list(theirs.iterdir()) == [] if theirs.is_dir() else theirs.read_text() == "theirs\n"
    if kind == "pipe":
        assert "expected a regular file" in shared.daemon("logs").stderr


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"x" * 70_000, "did not answer within"),
        (b'{"jsonrpc":"2.0","method":"text_delta","params":{}}\n', "did not answer within"),
        (b'{"jsonrpc":"2.0","id":0,"result":[]}\n[]\n', "what answers there is no zotd"),
        (b'{"error":"no"}\n', "no"),
    ],
)
def test_whoever_talks_without_end_or_sense_holds_nobody_up(shared: Shared, said: bytes, why: str) -> None:
    def talk() -> None:
        met, _ = listener.accept()
        with met, suppress(OSError):
            while True:
                met.sendall(said)

    shared.place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(shared.socket))
        listener.listen(1)
        talking = threading.Thread(target=talk)
        talking.start()
        with (
            pytest.raises((NotDone, Silent), match=why),
            Line(shared.machine.env, str(shared.machine.home), SHORT) as line,
        ):
            line.ask("daemon/status")
        talking.join(LONG)
    shared.socket.unlink()


def test_wrong_words_and_the_help_tell_what_there_is(shared: Shared) -> None:
    assert "start" in shared.daemon("--help").stdout
    for command in ("start", "stop", "status", "restart", "logs", "run"):
        done = shared.daemon(command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"usage: zotd daemon {command}")
    for words in (["frob"], ["start", "--idle-timeout", "0"], ["logs", "-n", "-1"], ["stop", "now"]):
        done = shared.daemon(*words)
        assert done.returncode == 2
        assert done.stderr.startswith("zotd: daemon: ")
        assert done.stderr.count("\n") == 1


def test_no_answer_on_the_socket_is_no_answer_about_a_daemon(shared: Shared) -> None:
    shared.place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(shared.socket))
        other.listen(1)
        with pytest.raises(NoDaemon, match=f"process {os.getpid()}"):
            greet(str(shared.socket), b'{"zotd":1}\n', SHORT)
    shared.socket.unlink()
