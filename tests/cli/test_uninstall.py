"""`zotd uninstall`: what goes, what stays, and what is never touched."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.clients import LONG, Machine, gone
from tests.daemons import Shared
from zotd.providers.weights import KNOWN


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def tree(root: Path) -> set[str]:
    """Every file and empty directory below."""
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if not path.is_dir() or not any(path.iterdir())
    }


YOURS = (
    "auth.json",
    "config.json",
    "models.json",
    "SYSTEM.md",
    "sessions/0123456789abcdef/a.jsonl",
    "sessions/0123456789abcdef/a.jsonl.torn",
    "extensions/a/extension.json",
    "extensions/a/zotd.log",
    "skills/a/SKILL.md",
    "themes/a.json",
    "logs/ext-a.log",
    "logs/zotd.log.notes",
    "sessions/0123456789abcdef/notes.undo",
    "models/mine.gguf",
)
ZOTDS = (
    "permissions.json",
    "permissions.json.lock",
    "trusted.json",
    "logs/zotd.log",
    "logs/zotd.log.1",
    "sessions/0123456789abcdef/a.undo/t1/file",
)


def furnish(machine: Machine) -> None:
    for name in (*YOURS, *ZOTDS):
        put(machine.home / name)


def test_the_daemon_and_the_service_go_and_all_data_stays(machine: Machine) -> None:
    furnish(machine)
    mark = "# Written by zotd service install; zotd service uninstall removes it.\n"
    units = [
        put(machine.root / ".config/systemd/user" / name, mark) for name in ("zotd.service", "zotd.socket")
    ]
    path = machine.home / "run" / "zotd.sock"
    path.parent.mkdir(mode=0o700)
    put(path.parent / "start.lock")
    daemon = machine.rpc("--listen", f"unix:{path}", "--provider", "scripted")
    machine.appears(path, daemon)
    done = machine.run("uninstall", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"stopped: process {daemon.popen.pid}\n" in done.stdout
    assert gone(daemon.popen.pid)
    assert tree(machine.home) == {*YOURS, *ZOTDS}
    assert not any(unit.exists() for unit in units)
    assert "To remove the program: " in done.stdout
    assert "-m pip uninstall zotd" in done.stdout
    assert f"Your data is in {machine.home} and stays." in done.stdout
    assert machine.run("uninstall", "--yes").returncode == 0


def test_a_daemon_that_drains_is_ended_too(shared: Shared) -> None:
    draining = shared.started()
    slow = shared.machine.script({"reply": [{"text": "one two", "delay_ms": 60_000}]})
    client = shared.machine.rpc("--connect", "auto", *slow).greet()
    client.call("turn/start", session_id=client.session(), text="go")
    client.call("daemon/stop", drain=True)
    done = shared.machine.run("uninstall", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"stopped: process {draining}\n" in done.stdout
    assert gone(draining, 0)
    assert not shared.place.exists()


def test_purge_takes_what_zotd_alone_has_made_and_lists_it_with_its_size_first(machine: Machine) -> None:
    furnish(machine)
    done = machine.run("uninstall", "--purge", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(machine.home) == set(YOURS)
    listed, _, removed = done.stdout.partition("In all 6 bytes of")
    for name in (*ZOTDS[:-1], "sessions/0123456789abcdef/a.undo"):
        assert f"  {machine.home / name}, 1 byte\n" in listed
        assert f"removed {machine.home / name}\n" in removed


def test_folders_that_only_zotd_has_filled_go_with_what_is_in_them(machine: Machine) -> None:
    put(machine.home / "logs" / "zotd.log", "x" * 3 * (1 << 20))
    put(KNOWN[0].path(machine.home))
    for name in ("zotd.lock", "zotd.pid", "start.lock"):  # of one that was killed
        put(machine.home / "run" / name)
    (machine.home / "run").chmod(0o700)
    done = machine.run("uninstall", "--purge", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  {machine.home / 'logs' / 'zotd.log'}, 3 MiB\n" in done.stdout
    assert f"  {machine.home / 'logs'}, which is empty then\n" in done.stdout
    assert f"In all 3 MiB of {machine.home}; whatever is not listed stays.\n" in done.stdout
    assert list(machine.home.iterdir()) == []


def test_links_are_not_followed_out_of_the_home(machine: Machine) -> None:
    outside = machine.root / "outside"
    for name in ("zotd.log", "0123456789abcdef/a.undo/f", "trusted.json", "undone/f", "run/zotd.sock"):
        put(outside / name)
    before = tree(outside)
    (machine.home / "logs").symlink_to(outside)
    (machine.home / "sessions").symlink_to(outside)
    (machine.home / "run").symlink_to(outside / "run")
    (machine.home / "trusted.json").symlink_to(outside / "trusted.json")
    machine.run("uninstall", "--purge", "--yes")
    assert tree(outside) == before
    (machine.home / "run").unlink()
    (machine.home / "sessions").unlink()
    (machine.home / "sessions" / "0123456789abcdef").mkdir(parents=True)
    (machine.home / "sessions" / "0123456789abcdef" / "a.undo").symlink_to(outside / "undone")
    done = machine.run("uninstall", "--purge", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(outside) == before
    assert {path.name for path in machine.home.iterdir()} == {"logs", "sessions"}
    assert tree(machine.home / "sessions") == {"0123456789abcdef"}


@pytest.mark.parametrize("home", ["/", "{root}", "{root}/.."])
def test_nothing_is_done_where_the_home_is_that_of_the_user_or_above(machine: Machine, home: str) -> None:
    put(machine.root / "trusted.json")
    named = home.format(root=machine.root)
    done = machine.run("uninstall", "--purge", "--yes", env={"ZOT_HOME": named})
    assert (done.returncode, done.stdout) == (2, "")
    assert "which holds your whole home" in done.stderr
    assert (machine.root / "trusted.json").exists()


def test_nothing_is_done_where_nobody_can_be_asked(machine: Machine) -> None:
    furnish(machine)
    done = machine.run("uninstall", "--purge")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes goes ahead without; nothing was removed" in done.stderr
    assert tree(machine.home) == {*YOURS, *ZOTDS}


@pytest.mark.parametrize(("typed", "code"), [(b"yes\n", 1), (b"\n", 1), (b"purge\n", 0)])
def test_a_person_types_what_is_to_happen(machine: Machine, typed: bytes, code: int) -> None:
    furnish(machine)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [machine.program, "uninstall", "--purge"], stdin=theirs, stdout=theirs, stderr=theirs, env=machine.env
    ) as asked:
        os.close(theirs)
        said = b""
        while b"Type purge to go on: " not in said:
            said += os.read(ours, 1 << 16)
        os.write(ours, typed)
        while asked.poll() is None or b"\n" not in said.rpartition(b"go on: ")[2]:
            try:
                said += os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
        assert asked.wait(LONG) == code
    os.close(ours)
    assert tree(machine.home) == ({*YOURS} if code == 0 else {*YOURS, *ZOTDS})
    assert (b"Nothing was removed." in said) == (code == 1)


def test_a_daemon_that_cannot_be_stopped_keeps_its_files(machine: Machine) -> None:
    furnish(machine)
    (machine.home / "run").mkdir(mode=0o755)
    (machine.home / "run").chmod(0o755)
    done = machine.run("uninstall", "--purge", "--yes")
    assert done.returncode == 1
    assert "the daemon was not stopped, and no file was removed: " in done.stderr
    assert tree(machine.home) == {*YOURS, *ZOTDS, "run"}
    assert "usage: zotd uninstall" in machine.run("uninstall", "--help").stdout
