"""Others on the same machine: what they cannot read, and what nobody can trick a daemon into writing to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import LONG, Machine
from tests.daemons import Shared

NOBODY = 65534
STRANGER = """
import json, os, socket, sys
paths = json.load(sys.stdin)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
got = []
for path in paths:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK))
            got.append(path)
        except OSError:
            pass
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            got.append(path)
    except OSError:
        pass
print(json.dumps(got))
"""
CALLS = [
    {"tool_call": {"name": "write", "args": {"path": "a.txt", "content": "new"}}},
    {"tool_call": {"name": "bash", "args": {"command": "echo hi"}}},
]


@pytest.fixture
def open_shared() -> Iterator[Shared]:
    """A machine with a daemon in a place that everybody may look into, whose home zotd itself makes."""
    with tempfile.TemporaryDirectory(prefix="zd-") as root:
        Path(root).chmod(0o755)
        machine = Machine(Path(root))
        machine.home.rmdir()
        shared = Shared(machine)
        try:
            yield shared
        finally:
            shared.clear_away()
            machine.clear_away()


@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_another_user_can_read_nothing_of_what_is_kept(open_shared: Shared, mask: int) -> None:
    assert os.geteuid() == 0, "only root can try what another user can do"
    shared, machine = open_shared, open_shared.machine
    shared.runtime.chmod(0o755)
    plain = machine.extension("plain", "import sys; sys.stderr.write('hello'); sys.stderr.flush(); input()")
    before = os.umask(mask)
    try:
        shared.started()
    finally:
        os.umask(before)
    (machine.cwd / "a.txt").write_text("old")
    client = shared.machine.rpc("--connect", "auto", *machine.script({"reply": CALLS}, {"reply": []}))
    client.greet(capabilities={"approvals": True})
    session = client.session(cwd=str(machine.cwd), approval="ask", extensions=[str(plain)])
    started = client.request("turn/start", session_id=session, text="go")
    for _ in CALLS:
        client.answer(client.question(), decision="allow", scope="always")
    turn = client.reply(started)["result"]["turn_id"]
    client.call("turn/wait", session_id=session, turn_id=turn)
    client.call("workspace/trust", cwd=str(machine.cwd), trusted=True)
    exported = machine.cwd / "exported.html"
    client.call("session/export", session_id=session, format="html", path=str(exported))
    kept = [path for top in (machine.home, shared.place) for path in top.rglob("*")]
    names = {path.name for path in kept} | {path.suffix for path in kept}
    assert names >= {"zotd.log", "permissions.json", "trusted.json", "index.jsonl", ".jsonl", "zotd.sock"}
    tried = subprocess.run(
        [sys.executable, "-c", STRANGER],
        input=json.dumps([str(path) for path in (*kept, machine.home / "logs", exported)]),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    assert json.loads(tried.stdout) == []


RACER = """
import itertools, os, sys
victim, *paths = sys.argv[1:]
print("go", flush=True)
for number in itertools.count():
    path = paths[number % len(paths)]
    beside = f"{path}.racer"
    try:
        if number % 3:
            os.symlink(victim, beside)
            os.rename(beside, path)
        else:
            os.unlink(path)
    except OSError:
        pass
"""


def race(shared: Shared, names: list[Path], starts: int) -> None:
    """Start daemons while somebody keeps putting links where their files go."""
    victim = shared.runtime / "victim"
    victim.write_text("as it was")
    victim.chmod(0o644)
    os.utime(victim, (1, 1))
    before = victim.stat()
    shared.place.mkdir(mode=0o700, exist_ok=True)
    (shared.machine.home / "logs").mkdir(mode=0o700, exist_ok=True)
    racer = subprocess.Popen(
        [sys.executable, "-c", RACER, victim, *names], stdout=subprocess.PIPE, env=shared.machine.env
    )
    assert racer.stdout is not None
    racer.stdout.readline()
    try:
        for number in range(starts):
            if number % 2:
                done = shared.machine.run("daemon", "run", "--log", "auto", "--idle-timeout", "0.02")
                assert done.returncode in (0, 2)
            else:
                shared.daemon("start")
                done = shared.daemon("stop")
            assert "Traceback" not in done.stderr
    finally:
        racer.send_signal(signal.SIGTERM)
        racer.wait(LONG)
        racer.stdout.close()
    after = victim.stat()
    assert victim.read_text() == "as it was"
    assert (after.st_mode, after.st_ino, after.st_mtime) == (before.st_mode, before.st_ino, before.st_mtime)
    for name in names:
        name.unlink(missing_ok=True)


def places(shared: Shared) -> list[Path]:
    """Where files of a daemon and its start go."""
    beside = [shared.place / name for name in ("zotd.sock", "zotd.lock", "zotd.pid", "start.lock")]
    return [*beside, shared.machine.home / "logs" / "zotd.log"]


def test_links_that_are_put_in_place_as_it_starts_lead_it_nowhere(shared: Shared) -> None:
    for path in places(shared):
        race(shared, [path], 2)
        shared.end_all()
    assert shared.started()


@pytest.mark.long
def test_links_in_all_places_at_once_lead_it_nowhere_however_often(shared: Shared) -> None:
    race(shared, places(shared), 60)
    shared.end_all()
    assert shared.started()
