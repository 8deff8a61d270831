"""Two terminals attached to one session by the example that readers copy, with a real daemon between them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import LONG, Machine
from tests.daemons import SCRIPTED, Shared, shared

ATTACH = Path(__file__).resolve().parents[2] / "examples" / "rpc" / "attach.py"
SCRIPT = (
    {"match": "^make", "reply": [{"tool_call": {"name": "bash", "args": {"command": "echo do > done"}}}]},
    {
        "match": "^write",
        "reply": [{"tool_call": {"name": "write", "args": {"path": "a.txt", "content": "new\x1b[2J\n"}}}],
    },
    {"match": "^make|^write", "reply": [{"text": "All done."}], "times": 0},
    {"reply": [{"text": "Hello there."}], "times": 0},
)

__all__ = ["shared"]


class Terminal:
    """A terminal in which `attach.py` runs, with somebody in front of it."""

    def __init__(self, machine: Machine, *argv: str) -> None:
        self._screen, inside = pty.openpty()
        path = f"{machine.program.parent}:{machine.env['PATH']}"
        self.popen = subprocess.Popen(
            [sys.executable, ATTACH, *argv],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            cwd=machine.cwd,
            env={**machine.env, "PATH": path},
            start_new_session=True,
        )
        os.close(inside)
        self.seen = ""
        self.at = 0

    def types(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def sees(self, pattern: str) -> re.Match[str]:
        """Wait until something is shown, behind what was waited for before."""
        until = time.monotonic() + LONG
        while (found := re.compile(pattern).search(self.seen, self.at)) is None:
            ready = select.select([self._screen], [], [], max(0, until - time.monotonic()))[0]
            assert ready, f"{pattern!r} is not shown: {self.seen!r}"
            assert self._look(), f"it ended without {pattern!r}: {self.seen!r}"
        self.at = found.end()
        return found

    def _look(self) -> bool:
        """Take what is shown; False at the end, which a terminal tells by an error."""
        try:
            data = os.read(self._screen, 1 << 16)
        except OSError:
            return False
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def leaves(self) -> int:
        self.types("\x04")
        return self.popen.wait(LONG)

    def close(self) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGTERM)
            self.popen.wait(LONG)
        os.close(self._screen)


class Desk:
    """Terminals of one machine, all closed in the end."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.terminals: list[Terminal] = []

    def terminal(self, *argv: str) -> Terminal:
        self.terminals.append(Terminal(self.shared.machine, *argv))
        return self.terminals[-1]

    def both(self) -> tuple[Terminal, Terminal]:
        """Two terminals of one session: the first made it, the second found it."""
        one = self.terminal(*self.shared.machine.script(*SCRIPT))
        session_id = one.sees(r"attached to session (\S+)\n")[1]
        other = self.terminal(*SCRIPTED)
        other.sees("flags count for a new session only: this one goes on as it is\n")
        assert other.sees(r"attached to session (\S+)\n")[1] == session_id
        return one, other


@pytest.fixture
def desk(shared: Shared) -> Iterator[Desk]:
    made = Desk(shared)
    yield made
    for terminal in made.terminals:
        terminal.close()


def test_one_terminal_approves_what_the_other_one_asked_for(desk: Desk) -> None:
    one, other = both = desk.both()
    cwd = desk.shared.machine.cwd
    one.types("make it\n")
    for terminal in both:
        terminal.sees(r"\n\$ echo do > done\nMay it run\?")
    other.types("y\n")
    for terminal in both:
        terminal.sees(rf"\[allow by terminal {other.popen.pid}\]\n")
        terminal.sees("All done.")
    assert (cwd / "done").read_text() == "do\n"
    (cwd / "a.txt").write_bytes(b"new\x1b[2J\r\n")
    other.types("write it\n")
    for terminal in both:
        terminal.sees(r"a\.txt\n\+\+\+ .*a\.txt\n@@ .*\n-new\ufffd\[2J\ufffd\n\+new\ufffd\[2J\nMay it run\?")
    one.types("maybe\n")
    one.sees("y, n, s or a: ")
    one.types("n\n")
    for terminal in both:
        terminal.sees(rf"\[deny by terminal {one.popen.pid}\]\n")
        terminal.sees("All done.")
    assert (cwd / "a.txt").read_bytes() == b"new\x1b[2J\r\n"
    # The question is gone on the terminal that did not answer it: a line is a prompt again.
    other.types("y\n")
    one.sees(r"> y\n")
    for terminal in both:
        terminal.sees("Hello there.")
    assert one.leaves() == 0
    assert other.leaves() == 0
    late = desk.terminal()
    assert late.sees("(?s).*?attached to session")[0] == "attached to session"
    late.sees("All done.(.|\n)*All done.(.|\n)*Hello there.")
    # A prompt of a client without a name is shown, too.
    shell = desk.shared.machine.run("-p", "--connect", "auto", "-c", "from a shell", stdin=None)
    assert (shell.returncode, shell.stdout) == (0, "Hello there.\n"), shell.stderr
    late.sees(r"> from a shell\nHello there.")
    assert late.leaves() == 0


def test_a_session_that_has_no_model_is_not_taken_for_one_to_join(desk: Desk) -> None:
    none = desk.terminal()
    session_id = none.sees(r"attached to session (\S+)\n")[1]
    none.types("hello\n")
    none.sees("no model is chosen")
    some = desk.terminal(*desk.shared.machine.script(*SCRIPT))
    assert some.sees(r"attached to session (\S+)\n")[1] != session_id
    some.types("hello\n")
    some.sees("Hello there.")
    some.popen.send_signal(signal.SIGINT)
    assert some.popen.wait(LONG) == -signal.SIGINT
    assert "Traceback" not in some.seen


def test_what_rules_deny_is_shown_though_nobody_is_asked(desk: Desk) -> None:
    rule = {"tool": "bash", "decision": "deny", "reason": "no shell today"}
    (desk.shared.machine.home / "permissions.json").write_text(json.dumps({"rules": [rule]}))
    one = desk.terminal(*desk.shared.machine.script(*SCRIPT))
    one.types("make it\n")
    one.sees(r"\[not run: .*no shell today\]\n(.|\n)*All done.")


def test_it_says_that_a_session_is_not_there_and_that_the_daemon_went_away(desk: Desk) -> None:
    one, other = desk.both()
    nowhere = desk.terminal("00000000", *SCRIPTED)
    nowhere.sees("00000000")
    assert nowhere.popen.wait(LONG) == 1
    assert desk.shared.daemon("stop").returncode == 0
    for terminal in (one, other):
        terminal.sees("the daemon went away")
        assert terminal.popen.wait(LONG) == 1


def test_it_is_short_and_the_readme_shows_how_to_run_it() -> None:
    assert len(ATTACH.read_text("utf-8").splitlines()) <= 86
    assert f"[{ATTACH.name}]({ATTACH.name})" in (ATTACH.parent / "README.md").read_text("utf-8")
