"""A run with `--connect` is the run that it is without: the same output, the same words, the same exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_exit_codes import CUT_SHORT, FAILING_COMMAND, FAILS, GATE, MORTAL, RIGHT, STEP, WRONG
from tests.clients import LONG, Frame, Machine, Process, gone, judge_line, types
from tests.daemon.puppets import SOURCE, response, words

SLOW = {"reply": [{"text": "one two three four five six seven eight nine ten", "delay_ms": 5000}]}
STEPS = {"reply": [{"text": "one two three four five six", "delay_ms": 100}]}
BUSY = {"reply": [{"tool_call": {"name": "bash", "args": {"command": "echo up; exec sleep 300"}}}]}
ONCE = {**STEP, "times": 1}
SO_BE_IT = {"reply": [{"text": "so be it"}]}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
JUMP = {"reply": [{"tool_call": {"name": "jump", "args": {}}}], "times": 1}
LATER = {"type": "submit_slash", "text": words("pup", response("display", display="later"))}
ASKS = {"type": "submit_slash", "text": words("pup", response("prompt", prompt="and then"))}

SCRIPTS: dict[str, list[Frame]] = {
    "FAILS": [FAILS],
    "CUT": [CUT_SHORT],
    "STEP": [STEP],
    "REFUSED": [ONCE, SO_BE_IT],
    "REPAIRED": [WRONG, RIGHT],
    "MISSED": [WRONG, WRONG],
    "SLOW": [SLOW],
    "JUMP": [JUMP, SO_BE_IT],
}
EXTENSIONS = {
    "fails": FAILING_COMMAND,
    "gate": GATE.replace("STEP", "1"),
    "fence": GATE.replace("STEP", "0"),
    "mortal": MORTAL.replace("NAME", '"mortal"').replace("DECIDES", "[]"),
    "pup": SOURCE,
}
PLAIN = "--provider scripted"

RUNS: list[tuple[str, str, int]] = [
    ("an answer", f"{PLAIN} hello there", 0),
    ("an error of the provider", "--script FAILS hello", 1),
    ("an answer that is cut", "--script CUT hello", 4),
    ("too many steps", "--script STEP --max-steps 2 go on", 4),
    ("a blocked turn", f"{PLAIN} --ext gate hello", 3),
    ("a refused call", "--script REFUSED --ext fence hello", 0),
    ("a call that would be asked about", "--script REFUSED --no-yolo hello", 3),
    ("a command that fails", f"{PLAIN} --ext fails /fail", 1),
    ("an extension that dies", "--script JUMP --ext mortal hello", 0),
    ("a missing extension", f"{PLAIN} --ext nowhere hello", 0),
    ("an answer that is repaired", "--script REPAIRED --output-schema number.json count", 0),
    ("an answer that is not", "--script MISSED --output-schema number.json count", 1),
    ("no time", "--script SLOW --timeout 0.4 hello", 124),
    ("no credentials", "hello", 5),
    ("an unknown provider", "--provider scriptd hello", 2),
    ("an unknown tool", f"{PLAIN} --tools saw hello", 2),
    ("no script", f"{PLAIN} --script gone.yaml hello", 2),
    ("no prompt", PLAIN, 2),
    ("no folder", f"{PLAIN} --cwd nowhere hello", 2),
    ("an unknown session", f"{PLAIN} --session abcd hello", 2),
    ("nothing saved", f"{PLAIN} --no-session --system-prompt short --no-tools --no-skill hello", 0),
]


class Pair:
    """A daemon, and one machine for runs beside it and in it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.daemon, self.path = machine.listen("--with-skills")  # nothing that its runs would have by themselves
        (machine.cwd / "number.json").write_text(json.dumps(NUMBER))
        self._known = {name: machine.script(*entries) for name, entries in SCRIPTS.items()}
        self._extensions = {name: machine.extension(name, source) for name, source in EXTENSIONS.items()}

    def argv(self, line: str) -> list[str]:
        """The words of a line, with scripts and extensions under the names they have here."""
        said: list[str] = []
        for word in line.split():
            if word in self._known:
                said[-1:] = self._known[word]
            else:
                said.append(str(self._extensions.get(word, word)))
        return said

    def both(self, *argv: str) -> list[tuple[int, Any, str]]:
        """Exit code, output and errors of the same run here and there."""
        ways = [argv, (*argv, "--connect", str(self.path))]
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda way: seen(self.machine.run(*way, stdin=None)), ways))


def seen(done: subprocess.CompletedProcess[str]) -> tuple[int, Any, str]:
    """What a run did, without what differs from run to run."""
    assert "Traceback" not in done.stderr
    output: Any = done.stdout
    if output.startswith("{"):
        lines = [json.loads(line) for line in output.splitlines()]
        output = lines if "seq" in lines[0] else output
    if isinstance(output, list):
        ids: dict[str, str] = {}
        output = [plain(judge_line(line), ids) for line in output]
    return done.returncode, output, re.sub(r"\bpid \d+", "pid N", done.stderr)


def plain(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [plain(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: plain(item, ids) for key, item in value.items() if key not in ("time", "duration_ms")}
    for name in ("session_id", "turn_id"):
        if name in kept:
            kept[name] = ids.setdefault(kept[name], f"{name} {len(ids)}")
    return kept


def same(here: tuple[int, Any, str], there: tuple[int, Any, str]) -> None:
    """Fail at the first line that differs."""
    if isinstance(here[1], list) and isinstance(there[1], list):
        for line, other in zip(here[1], there[1], strict=False):
            assert other == line
    assert there == here


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    machine = Machine(tmp_path_factory.mktemp("pair"))
    yield Pair(machine)
    machine.clear_away()


@pytest.mark.parametrize(("line", "code"), [(line, code) for _, line, code in RUNS], ids=[r[0] for r in RUNS])
def test_printed_it_is_the_same(pair: Pair, line: str, code: int) -> None:
    here, there = pair.both("-p", *pair.argv(line))
    same(here, there)
    assert there[0] == code


@pytest.mark.parametrize(
    ("line", "code"), [(line, code) for _, line, code in RUNS[:13]], ids=[r[0] for r in RUNS[:13]]
)
def test_as_json_it_is_the_same_events_in_their_order(pair: Pair, line: str, code: int) -> None:
    here, there = pair.both("--json", *pair.argv(line))
    same(here, there)
    assert there[0] == code


def test_what_it_makes_extensions_do_is_waited_for_as_well(pair: Pair) -> None:
    text = words("pup", ASKS, response("prompt", prompt="first"))
    here, there = pair.both("-p", *pair.argv(f"{PLAIN} --ext pup"), text)
    assert there == here == (0, "You said: first\nYou said: and then\n", "")
    text = words("pup", LATER, response("display", display="now"))
    code, output, said = pair.both("-p", *pair.argv(f"{PLAIN} --ext pup"), text)[1]
    assert (code, sorted(output.splitlines()), said) == (0, ["later", "now"], "")
