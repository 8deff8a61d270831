"""A user's shared daemon for tests, on a machine with a run directory of its own; it is ended behind them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Machine, Process, gone
from zotd.base.limits import Limits
from zotd.cli.starting import wait_until

SCRIPTED = ("--provider", "scripted")


class Shared:
    """A machine on which a daemon may run. `place` is where it is met."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        # A socket's path has to be short, and pytest's folders are not.
        self.runtime = Path(tempfile.mkdtemp(prefix="zd-"))
        machine.env["XDG_RUNTIME_DIR"] = str(self.runtime)
        self.place = self.runtime / "zotd"
        self.socket = self.place / "zotd.sock"

    def forward(self, *argv: str | Path, env: dict[str, str] | None = None) -> Process:
        """A client behind `zotd rpc --connect auto`."""
        return self.machine.rpc("--connect", "auto", *SCRIPTED, *argv, env=env)

    def daemon(self, *argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run `zotd daemon`."""
        return self.machine.run("daemon", *argv, stdin=None, env=env)

    def status(self) -> dict[str, Any]:
        done = self.daemon("status", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def started(self, *argv: str, env: dict[str, str] | None = None) -> int:
        """Start the daemon by hand; its process id."""
        done = self.daemon("start", *argv, env=env)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.split("process ")[1].split(",")[0])

    def running(self) -> list[str]:
        """Command lines of daemons that run."""
        return [line for line in self.machine.left_running() if " daemon run" in line]

    def clear_away(self) -> None:
        try:
            if self.socket.is_socket() and _listens(self.socket):
                done = self.daemon("stop")
                assert done.returncode == 0, done.stderr
                assert done.stdout == "no daemon runs\n" or gone(int(done.stdout.split()[-1]), 0)
            # One that had nothing to do may be about to end, and is met no more.
            assert wait_until(lambda: not self.running(), Limits().drain_s), self.running()
        finally:
            self.end_all()
            shutil.rmtree(self.runtime)

    def end_all(self) -> None:
        """Those too that cannot be met any more, as one that drains because a source file was just edited."""
        mark = f"XDG_RUNTIME_DIR={self.runtime}\0".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    mark in (entry / "environ").read_bytes()
                    and b"\0run\0" in (entry / "cmdline").read_bytes()
                ):
                    os.kill(int(entry.name), signal.SIGTERM)
                    assert gone(int(entry.name))


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture
def shared(machine: Machine) -> Iterator[Shared]:
    shared = Shared(machine)
    try:
        yield shared
    finally:
        shared.clear_away()
