"""One daemon that all front ends of a user join: real forwarders, real daemons, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import LONG, Machine, gone
from tests.daemons import SCRIPTED, Shared

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def answered(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a run of the forwarder got the answer to one ping, and nothing else came."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return bool(json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}})


def test_twenty_that_come_at_once_start_one_daemon(shared: Shared) -> None:
    clients = [shared.forward() for _ in range(20)]
    pids = {client.greet().call("daemon/status")["pid"] for client in clients}
    assert len(pids) == 1
    assert len(shared.running()) == 1
    for client in clients:
        client.hang_up()
        assert client.exit_code() == 0
        assert client.stderr == ""
    assert not gone(pids.pop(), 0)


def test_a_killed_daemon_ends_its_forwarders_with_one_line_and_the_next_one_starts_anew(
    shared: Shared,
) -> None:
    first = shared.forward()
    pid = first.greet().call("daemon/status")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert first.raw() is None
    assert first.exit_code() == 1
    assert first.stderr == "zotd: the daemon ended this connection; zotd daemon logs may tell why\n"
    assert gone(pid)
    assert shared.socket.is_socket(), "it was to be a stale socket"
    second = shared.forward()
    assert second.greet().call("daemon/status")["pid"] != pid
    assert len(shared.running()) == 1


def test_what_a_client_has_asked_is_answered_after_its_input_is_over(shared: Shared) -> None:
    word = "x" * 3_000_000
    prompt = json.dumps({"type": "prompt", "id": 1, "message": word}).encode() + b"\n"
    done = shared.machine.run("rpc", "--connect", "auto", *SCRIPTED, stdin=prompt)
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert "".join(frame["delta"] for frame in frames if frame["type"] == "text_delta") == f"You said: {word}"
    assert frames[-1]["type"] == "done"
    assert "zotd" not in frames[0], "the answer to the preface is the forwarder's"


def test_a_preface_brings_folder_environment_and_flags_and_nothing_of_them_is_in_the_daemon(
    shared: Shared,
) -> None:
    machine = shared.machine
    work = machine.root / "elsewhere"
    work.mkdir()
    command = 'echo "$PLANTED_API_KEY|$ODD|$PWD"'
    calls = machine.script(
        {"reply": [{"tool_call": {"name": "bash", "args": {"command": command}}}]}, {"reply": []}
    )
    planted = {"PLANTED_API_KEY": "sk-in-the-environment", "ODD": '"\\\n\tä', "ZOTD_TOKEN": "token-of-caller"}
    flags = ("--cwd", "../elsewhere", "--api-key", "sk-on-the-command-line", *calls)
    client = machine.rpc("--connect", "auto", *flags, env=planted)
    client.send({"type": "prompt", "id": 1, "message": "go"})
    results = [frame for frame in client.until("done") if frame["type"] == "tool_result"]
    said = results[0]["content"][0]["text"]
    assert f'sk-in-the-environment|"\\\n\tä|{work}' in said
    client.hang_up()
    assert client.exit_code() == 0
    pid = shared.status()["pid"]
    for name in ("environ", "cmdline"):
        known = Path(f"/proc/{pid}/{name}").read_bytes()
        assert b"ZOT_HOME" in known or name == "cmdline"
        for secret in (b"sk-in-the-environment", b"sk-on-the-command-line", b"token-of-caller", b"ODD"):
            assert secret not in known


def test_a_daemon_holds_nothing_of_who_started_it(shared: Shared) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    before = os.umask(0)
    try:
        subprocess.run(
            [shared.machine.program, "daemon", "start"],
            check=True,
            env=shared.machine.env,
            cwd=shared.machine.cwd,
            stdout=subprocess.DEVNULL,
            pass_fds=[writing],
            timeout=LONG,
        )
    finally:
        os.umask(before)
        os.close(writing)
    assert os.read(reading, 1) == b"", "nobody has the other end"
    os.close(reading)
    pid = shared.status()["pid"]
    process = Path(f"/proc/{pid}")
    assert (process / "cwd").readlink() == Path("/")
    assert os.getsid(pid) == pid
    assert "Umask:\t0022" in (process / "status").read_text()
    assert (process / "fd" / "0").readlink() == Path(os.devnull)
    assert {(process / "fd" / each).readlink() for each in ("1", "2")} == {
        shared.machine.home / "logs" / "zotd.log"
    }
    assert (shared.machine.home / "logs" / "zotd.log").stat().st_mode & 0o777 == 0o600
    assert shared.place.stat().st_mode & 0o777 == 0o700
    assert shared.socket.stat().st_mode & 0o777 == 0o600


def test_a_daemon_that_ends_as_somebody_comes_is_followed_by_another(shared: Shared) -> None:
    for _ in range(4):
        shared.daemon("start", "--idle-timeout", "0.05")  # on a busy machine it has ended before it is asked
        assert answered(shared.machine.run("rpc", "--connect", "auto", *SCRIPTED, stdin=PING))


def test_who_comes_while_a_daemon_drains_gets_the_next_one(shared: Shared) -> None:
    slow = shared.machine.script(
        {"reply": [{"text": "a b c d e f g h i j", "delta_chars": 1, "delay_ms": 100}]}
    )
    busy = shared.machine.rpc("--connect", "auto", *slow)
    busy.send({"type": "prompt", "id": 1, "message": "go"})
    busy.until("text_delta")
    old = shared.status()["pid"]
    with subprocess.Popen(
        [shared.machine.program, "daemon", "stop", "--drain"],
        env=shared.machine.env,
        stdout=subprocess.PIPE,
        text=True,
    ) as stopping:
        while shared.socket.exists():
            assert not gone(old, 0.01), "it was to wait for its turn"
        new = shared.forward().greet().call("daemon/status")["pid"]
        assert new != old
        assert busy.until("done")[-1]["stop"] == "end_turn"
        assert gone(old)
        assert stopping.communicate(timeout=LONG)[0] == f"stopped: process {old}\n"
    assert shared.status()["pid"] == new


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_forwarder_that_is_told_to_end_does_so_without_a_word(
    shared: Shared, number: signal.Signals, code: int
) -> None:
    client = shared.forward()
    pid = client.greet().call("daemon/status")["pid"]
    client.signal(number)
    assert client.exit_code() == code
    assert client.stderr == ""
    assert not gone(pid, 0)


def test_a_forwarder_ends_quietly_when_nobody_reads_and_when_its_client_says_goodbye(shared: Shared) -> None:
    deaf = shared.forward()
    deaf.greet()
    deaf.break_off()
    deaf.request("ping")
    assert deaf.exit_code() == 0
    polite = shared.forward()
    polite.greet().call("shutdown")
    polite.send({"jsonrpc": "2.0", "method": "exit"})
    assert polite.exit_code() == 0
    assert deaf.stderr == polite.stderr == ""


def test_a_second_home_on_the_same_socket_is_refused_by_name(shared: Shared) -> None:
    shared.started()
    other = shared.machine.root / "other"
    done = shared.machine.run("rpc", "--connect", "auto", stdin=PING, env={"ZOT_HOME": str(other)})
    assert done.returncode == 2
    assert done.stdout == ""
    assert str(other) in done.stderr
    assert str(shared.machine.home) in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_runtime_directory_the_daemon_is_met_under_its_home(shared: Shared) -> None:
    home = shared.runtime / "h"
    env = {"XDG_RUNTIME_DIR": "", "ZOT_HOME": str(home)}
    done = shared.machine.run("rpc", "--connect", "auto", *SCRIPTED, stdin=PING, env=env)
    ended = shared.daemon("stop", env=env)
    assert answered(done)
    assert ended.stdout.startswith("stopped: process ")
    assert (home / "run").stat().st_mode & 0o777 == 0o700
    missing = shared.machine.run("rpc", "--connect", "auto", stdin=PING, env={"XDG_RUNTIME_DIR": "/no/such"})
    assert missing.returncode == 1
    assert "XDG_RUNTIME_DIR /no/such is not a directory" in missing.stderr


def _link(path: Path, target: Path) -> None:
    target.mkdir()
    path.symlink_to(target)


def _open_folder(path: Path, _: Path) -> None:
    path.mkdir(mode=0o755)


def _file(path: Path, _: Path) -> None:
    path.write_text("")


def _inside(name: str, plant: Callable[[Path], None]) -> Callable[[Path, Path], None]:
    def planted(path: Path, _: Path) -> None:
        path.mkdir(mode=0o700)
        plant(path / name)

    return planted


HOSTILE: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "the place is a link": (_link, "is a symbolic link: remove it"),
    "the place is open": (_open_folder, "chmod 700"),
    "the place is a file": (_file, "is no directory: remove it"),
    "a file for a socket": (
        _inside("zotd.sock", Path.touch),
        "is not a socket: remove it",
    ),
    "a pipe for a socket": (_inside("zotd.sock", os.mkfifo), "is not a socket: remove it"),
    "a pipe for a lock": (_inside("start.lock", os.mkfifo), "is no plain file"),
    "a link for a lock": (
        _inside("start.lock", lambda path: path.symlink_to("../planted")),
        "is no plain file: remove it",
    ),
    "a folder for a lock": (_inside("start.lock", Path.mkdir), "is no plain file: remove it"),
}


@pytest.mark.parametrize("planted", HOSTILE)
def test_nobody_is_led_to_a_place_that_others_have_prepared(shared: Shared, planted: str) -> None:
    plant, words = HOSTILE[planted]
    plant(shared.place, shared.runtime / "target")
    for argv in (("rpc", "--connect", "auto"), ("daemon", "start")):
        done = shared.machine.run(*argv, stdin=PING)
        assert done.returncode == 1
        assert done.stdout == ""
        assert str(shared.place) in done.stderr
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    assert shared.running() == []
    assert not (shared.runtime / "planted").exists()


def test_a_path_is_joined_and_never_started(machine: Machine) -> None:
    nobody = machine.root / "nobody.sock"
    for path, words in (
        (nobody, "there is no socket"),
        (machine.cwd, "is not a socket"),
        (machine.root / ("x" * 120), "too long"),
    ):
        done = machine.run("rpc", "--connect", path, stdin=PING)
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        assert words in done.stderr
        assert str(path) in done.stderr
    assert machine.left_running() == []


def test_a_path_may_be_that_of_any_zotd_and_the_line_may_be_an_odd_one(shared: Shared) -> None:
    path = shared.runtime / "own.sock"
    daemon = shared.machine.rpc("--listen", f"unix:{path}", *SCRIPTED)
    shared.machine.appears(path, daemon)
    for odd in ([], ["--reasoning=high"], ["--tools", "read,bash"], ["--approval", "rules"]):
        assert answered(shared.machine.run("--mode", "rpc", "--connect", path, *odd, stdin=PING))
    done = shared.machine.run("rpc", "--connect", path, "--insecure", stdin=PING)
    assert done.returncode == 2
    assert "--insecure does not go with --connect" in done.stderr


def test_a_daemon_that_cannot_start_is_quoted(shared: Shared) -> None:
    shared.place.mkdir(mode=0o700)
    (shared.place / "zotd.lock").mkdir()
    done = shared.machine.run("rpc", "--connect", "auto", stdin=PING)
    assert done.returncode == 1
    assert "the daemon ended with exit code 2 as it started" in done.stderr
    assert str(shared.place / "zotd.lock") in done.stderr
    assert done.stderr.count("\n") == 1
