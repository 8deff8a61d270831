"""The clients that readers copy do what they say, against a real daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import LONG, Machine, node, nvim

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "rpc"
OVER_A_SOCKET: dict[str, list[str | Path]] = {
    "prompt.py": [sys.executable],
    "prompt.mjs": [node()],
    "prompt.lua": [nvim(), "--clean", "--headless", "-l"],
}
ANSWER = "One “fine” answer,\nin two lines and a tool call."
SCRIPT = (
    {"match": "^fix", "reply": [{"tool_call": {"name": "bash", "args": {"command": "echo hi"}}}], "times": 0},
    {"match": "^fail", "error": {"status": 400, "message": "no such model"}, "times": 0},
    {"reply": [{"text": ANSWER, "delta_chars": 5}], "times": 0},
)


def run(machine: Machine, *command: str | Path) -> subprocess.CompletedProcess[str]:
    path = f"{machine.program.parent}:{machine.env['PATH']}"
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        cwd=machine.cwd,
        env={**machine.env, "PATH": path, "NVIM_LOG_FILE": "/dev/null"},
        timeout=LONG,
        check=False,
    )


@pytest.mark.parametrize("name", OVER_A_SOCKET)
def test_a_client_over_a_socket_prints_the_answer_or_says_what_is_wrong(name: str, machine: Machine) -> None:
    client = [*OVER_A_SOCKET[name], EXAMPLES / name]
    daemon, path = machine.listen(*machine.script(*SCRIPT))
    done = run(machine, *client, path, "hello")
    assert (done.stdout, done.stderr, done.returncode) == (ANSWER + "\n", "", 0)
    failed = run(machine, *client, path, "fail")
    assert (failed.stdout, failed.returncode) == ("\n", 1)
    assert "no such model" in failed.stderr
    nobody = run(machine, *client, machine.root / "nothing.sock", "hello")
    assert (nobody.stdout, nobody.returncode) == ("", 1)
    assert len(nobody.stderr.splitlines()) == 1
    assert daemon.popen.poll() is None


def test_the_client_in_shell_prints_the_answer_or_says_what_is_wrong(machine: Machine) -> None:
    client = [EXAMPLES / "prompt.sh"]
    flags = machine.script(*SCRIPT)
    done = run(machine, *client, "hello", *flags)
    assert (done.stdout, done.stderr, done.returncode) == (ANSWER + "\n", "", 0)
    failed = run(machine, *client, "fail", *flags)
    assert failed.returncode == 1
    assert "no such model" in failed.stderr
    wrong = run(machine, *client, "hello", "--no-such-flag")
    assert (wrong.stdout, wrong.returncode) == ("", 1)
    assert "--no-such-flag" in wrong.stderr


@pytest.mark.parametrize("name", ["prompt.sh", *OVER_A_SOCKET])
def test_a_client_is_short_and_the_readme_shows_how_to_run_it(name: str) -> None:
    assert len((EXAMPLES / name).read_text("utf-8").splitlines()) < 60
    assert f"[{name}]({name})" in (EXAMPLES / "README.md").read_text("utf-8")
