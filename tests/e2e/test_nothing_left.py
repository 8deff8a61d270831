"""Whenever a daemon is killed, all that it and its extensions have started is gone two seconds later."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.children import descendants, ends
from tests.clients import LONG, Machine, Process

LINGERER = Path(__file__).with_name("lingerer.py")
BACKGROUND = "setsid env -i sh -c 'echo $$ > marks; (setsid sleep 1000 &); exec sleep 1000' & "
TRIGGERS = {
    "in a command": "/hang",
    "in a tool call": "call hang_tool",
    "intercepting": "hello",
    "in bash": "call bash",
}
PHASES = (
    "before hello",
    "after hello",
    "registering",
    "running",
    "intercepting",
    "in a command",
    "in a tool call",
    "in bash",
    "shutting down",
)


class Marks:
    """What is written to a named pipe."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._said = ""

    def until(self, text: str) -> str:
        """All that was said so far, once it has `text` in it."""
        end = time.monotonic() + LONG
        while text not in self._said:
            assert select.select([self._fd], [], [], max(0.0, end - time.monotonic()))[0], self._said
            self._said += os.read(self._fd, 4096).decode()
        return self._said

    def close(self) -> None:
        os.close(self._fd)


def lingerer(machine: Machine, name: str, phase: str) -> tuple[Path, Marks]:
    folder = machine.root / name
    folder.mkdir()
    args = ["-S", str(LINGERER), phase]
    manifest = {"name": name, "version": "1", "exec": sys.executable, "args": args}
    (folder / "extension.json").write_text(json.dumps(manifest))
    return folder, Marks(folder / "marks")


def script(machine: Machine) -> list[str]:
    """A model that calls the tool that it is told to."""
    return machine.script(
        {"match": "hang_tool", "reply": [{"tool_call": {"name": "hang_tool", "args": {}}}]},
        {
            "match": "bash",
            "reply": [{"tool_call": {"name": "bash", "args": {"command": f"{BACKGROUND} sleep 1000"}}}],
        },
    )


def pids_in(said: str) -> set[int]:
    return {int(word) for word in said.split() if word.isdigit()}


def all_end(pids: set[int], within_s: float = 2.0) -> list[int]:
    """Those that do not."""
    end = time.monotonic() + within_s
    return [pid for pid in pids if not ends(pid, max(0.0, end - time.monotonic()))]


def kill(daemon: Process) -> set[int]:
    """SIGKILL a daemon; all that was below it."""
    below = descendants(daemon.popen.pid)
    daemon.signal(signal.SIGKILL)
    daemon.exit_code()
    return below


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_daemon_leaves_nothing_whatever_its_extensions_were_doing(
    machine: Machine, phase: str
) -> None:
    folder, marks = lingerer(machine, "lingerer", "running" if phase == "in bash" else phase)
    daemon = machine.rpc("--ext", folder, *script(machine))
    daemon.send({"type": "get_state", "id": 1})
    in_bash = Marks(machine.cwd / "marks")
    if phase in TRIGGERS:
        if phase == "in bash":
            marks.until("at running")
        daemon.until("ext_registered")
        daemon.send({"type": "prompt", "message": TRIGGERS[phase]})
    if phase == "shutting down":
        daemon.until("ext_registered")
        daemon.signal(signal.SIGTERM)
    left = pids_in(in_bash.until("\n") if phase == "in bash" else marks.until(f"at {phase}"))
    below = kill(daemon)
    assert left
    assert left < below
    assert all_end(below) == []
    marks.close()
    in_bash.close()


@contextmanager
def ten_and_a_shell(machine: Machine, phase: str, mark: str) -> Iterator[tuple[Process, set[int]]]:
    """A daemon with ten extensions that go as far as `phase` and a shell command; what these have started.

    mark: in the line by which each extension says that it has come that far.
    """
    made = [lingerer(machine, f"lingerer{number}", phase) for number in range(10)]
    flags = [flag for folder, _ in made for flag in ("--ext", str(folder))]
    daemon = machine.rpc(*flags, *script(machine))
    in_bash = Marks(machine.cwd / "marks")
    daemon.send({"type": "get_state", "id": 1})
    for _ in made:
        daemon.until("ext_registered")
    daemon.send({"type": "prompt", "message": "call bash"})
    left = pids_in(in_bash.until("\n"))
    for _, marks in made:
        left |= pids_in(marks.until(mark))
    yield daemon, left
    in_bash.close()
    for _, marks in made:
        marks.close()


def test_a_daemon_told_to_stop_leaves_nothing_of_ten_extensions_and_a_shell(machine: Machine) -> None:
    with ten_and_a_shell(machine, "never", "\n") as (daemon, left):
        below = descendants(daemon.popen.pid)
        assert left < below
        daemon.signal(signal.SIGTERM)
        assert daemon.exit_code() == 0
        assert all_end(below) == []


def test_a_killed_daemon_with_ten_extensions_and_a_shell_leaves_nothing(machine: Machine) -> None:
    with ten_and_a_shell(machine, "running", "at running") as (daemon, left):
        below = kill(daemon)
        assert len(left) >= 11
        assert left < below
        assert all_end(below) == []
