"""A daemon whose disk fills up while it works: clear errors, nothing lost, and on it goes with room."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clients import LONG, Client, Machine, Process

ENDLESS = {"match": "endless", "reply": [{"text": "one two three", "delay_ms": 60_000}], "times": 0}
ECHO = {"reply": [{"text": "an answer"}], "times": 0}


class Disk:
    """The small file system that a daemon has its home on. That process and its children see it."""

    def __init__(self, daemon: Process, home: Path) -> None:
        self.home = Path(f"/proc/{daemon.popen.pid}/root{home}")

    def fill(self) -> None:
        with suppress(OSError), (self.home / "ballast").open("ab", buffering=0) as ballast:
            while True:
                ballast.write(bytes(512))

    def make_room(self) -> None:
        (self.home / "ballast").unlink()


@pytest.fixture
def crowded(machine: Machine) -> Iterator[tuple[Process, Path, Disk]]:
    path = machine.root / "zotd.sock"
    program = machine.root / "program"
    as_root = "" if os.geteuid() == 0 else "--map-root-user"
    program.write_text(
        "#!/bin/sh\n"
        f"""exec unshare {as_root} -m sh -c 'mount -t tmpfs -o size=512k tmpfs "$ZOT_HOME" && exec "$@"' """
        f"""- "{machine.program}" "$@"\n"""
    )
    program.chmod(0o755)
    machine.program = program
    daemon = machine.rpc("--listen", f"unix:{path}", *machine.script(ENDLESS, ECHO))
    machine.appears(path, daemon)
    yield daemon, path, Disk(daemon, machine.home)


def run(client: Client, session: str, text: str) -> dict[str, object]:
    turn = client.call("turn/start", session_id=session, text=text)["turn_id"]
    result: dict[str, object] = client.call("turn/wait", session_id=session, turn_id=turn)
    return result


def test_turns_fail_in_words_and_go_on_when_there_is_room(
    machine: Machine, crowded: tuple[Process, Path, Disk]
) -> None:
    _, path, disk = crowded
    client = machine.connect(path).greet()
    session = client.session(cwd=str(machine.cwd))
    assert run(client, session, "before")["text"] == "an answer"
    disk.fill()
    failed = run(client, session, "x" * 20_000)  # more than the last page of a file has room for
    assert failed["stop"] == "error"
    assert "No space left" in str(failed["error"])
    assert machine.connect(path).ask("ping")["success"]
    disk.make_room()
    assert run(client, session, "afterwards")["text"] == "an answer"
    saved = client.call("session/state", session_id=session)["session"]["path"]
    file = disk.home / Path(saved).relative_to(machine.home)
    texts = json.dumps([json.loads(line) for line in file.read_text().splitlines()])
    assert "before" in texts
    assert "afterwards" in texts


def test_it_stops_in_time_all_the_same(machine: Machine, crowded: tuple[Process, Path, Disk]) -> None:
    daemon, path, disk = crowded
    client = machine.connect(path).greet()
    session = client.session(cwd=str(machine.cwd))
    turn = client.call("turn/start", session_id=session, text="endless")["turn_id"]
    client.event("text_delta")
    disk.fill()
    before = time.monotonic()
    daemon.signal(signal.SIGTERM)
    assert daemon.popen.wait(LONG) == 0
    assert time.monotonic() - before < 5
    assert client.event("done")["turn_id"] == turn
    assert not path.exists()
    assert "Traceback" not in daemon.stderr
