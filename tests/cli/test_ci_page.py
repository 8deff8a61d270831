"""Every command of the page about CI is run, with a scripted model in the place of a real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients import LONG, ROOT, Machine

PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")
SHELL: list[str] = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
YAML: list[str] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
GITHUB, GITLAB = map(yaml.safe_load, YAML)

ANSWERS: list[dict[str, Any]] = [
    {"match": "Answer with one JSON", "reply": [{"text": '```json\n{"ok": true, "reason": "fine"}\n```'}]},
    {"match": "notes.txt", "reply": [{"tool_call": {"name": "read", "args": {"path": "notes.txt"}}}]},
    {"match": "Publish", "reply": [{"tool_call": {"name": "bash", "args": {"command": "git push"}}}]},
    {"reply": [{"text": "All is well."}], "times": 0},
]


class Job:
    """A job's folder, with a `zotd` on the PATH that asks a scripted model."""

    def __init__(self, machine: Machine) -> None:
        self.cwd = machine.cwd
        self._machine = machine
        programs = machine.root / "bin"
        programs.mkdir()
        script = " ".join(machine.script(*ANSWERS))
        self._program(programs / "zotd", f'exec {machine.program} {script} "$@"')
        self._program(programs / "pip", 'test "$*" = "install zotd" && echo "$*"')
        self._path = f"{programs}:{os.environ['PATH']}"
        for name in ("test.log", "change.diff", "notes.txt"):
            (self.cwd / name).write_text(f"what {name} says\n")

    def _program(self, path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run(self, commands: str, **env: str) -> str:
        """Run commands as a job does, which ends with the first that fails; what they print."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.cwd,
            env={**self._machine.env, "PATH": self._path, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * LONG,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


REPOSITORY = "git init -q -b main; git add .; git -c user.name=x -c user.email=x@x commit -qm one"


@pytest.fixture
def job(machine: Machine) -> Job:
    return Job(machine)


def block(words: str) -> str:
    (found,) = [text for text in SHELL if words in text]
    return found


def test_no_block_is_left_out() -> None:
    named = ("test.log", "case $code", "run.jsonl", "verdict", "permissions.json", "env -i")
    assert sorted(block(words) for words in named) == sorted(SHELL)


def test_what_went_wrong_is_piped_in_and_the_answer_piped_on(job: Job) -> None:
    assert job.run(block("test.log")) == "All is well.\n"
    assert job.run(block("case $code")) == "All is well.\n"
    assert (job.cwd / "review.md").read_text() == "All is well.\n"


def test_a_job_goes_on_or_ends_as_the_exit_code_says(job: Job) -> None:
    slow = block("case $code").replace("--timeout 600", "--timeout 0.001")
    assert job.run(slow) == ""
    wrong = block("case $code").replace("--timeout 600", "--timeout never")
    with pytest.raises(AssertionError, match="--timeout: never is not a number of seconds"):
        job.run(wrong)


def test_the_events_are_read_with_jq(job: Job) -> None:
    assert job.run(block("run.jsonl")) == "read\nAll is well.\n"
    assert (job.cwd / "ok.txt").read_text() == "true\n"


def test_the_verdict_is_json_of_that_shape(job: Job) -> None:
    assert job.run(block("verdict")) == "fine\ntrue\n"
    assert json.loads((job.cwd / "verdict.json").read_text()) == {"ok": True, "reason": "fine"}


def test_what_rules_allow_runs_and_the_rest_is_denied(job: Job) -> None:
    assert job.run(block("permissions.json")) == "All is well.\nAll is well.\n"


def test_it_runs_where_next_to_nothing_is_set(job: Job) -> None:
    assert job.run(block("env -i")) == "All is well.\n" * 2
    assert [*(job.cwd / "state" / "sessions").rglob("*.jsonl")]


def test_the_steps_for_github_run(job: Job, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    job.run(f"{REPOSITORY}; git update-ref refs/remotes/origin/main HEAD")
    for step in GITHUB["jobs"]["review"]["steps"]:
        if "run" in step:
            job.run(step["run"], GITHUB_BASE_REF="main", GITHUB_STEP_SUMMARY=str(summary))
    assert summary.read_text() == "All is well.\n"


def test_the_script_for_gitlab_runs(job: Job) -> None:
    job.run(REPOSITORY)
    job.run("\n".join(GITLAB["review"]["script"]), CI_MERGE_REQUEST_DIFF_BASE_SHA="HEAD")
    for path in GITLAB["review"]["artifacts"]["paths"]:
        assert (job.cwd / path).read_text() == "All is well.\n"


def test_a_user_whom_the_system_does_not_know_can_run_it(machine: Machine) -> None:
    """As with an id that has no line in /etc/passwd."""
    program = (
        "import pwd, sys\n"
        "def unknown(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = unknown\n"
        "from zotd.cli.main import main\n"
        "sys.exit(main())\n"
    )
    argv = [sys.executable, "-c", program, "-p", "--no-session", "--provider", "scripted", "hello"]
    for env in ({}, {"ZOT_HOME": str(machine.home)}):
        done = subprocess.run(
            argv,
            env={"PATH": os.environ["PATH"], **env},
            cwd=machine.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hello\n", "")


def test_a_home_that_cannot_be_written_is_named_before_a_model_is_asked(machine: Machine) -> None:
    blocked = machine.root / "file"
    blocked.write_text("in the way")
    env = {"ZOT_HOME": str(blocked / "zot")}
    done = machine.run("-p", "--provider", "scripted", "hello", stdin=None, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{blocked}/zot/sessions/" in done.stderr
    assert "cannot be written" in done.stderr
    done = machine.run("-p", "--no-session", "--provider", "scripted", "hello", stdin=None, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hello\n", "")
