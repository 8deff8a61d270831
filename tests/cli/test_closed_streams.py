"""Callers that close a standard stream, or give one that cannot be written."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.clients import LONG, Machine

PING = b'{"type":"ping","id":1}\n'


def _shell(machine: Machine, command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", f"exec {shlex.quote(str(machine.program))} {command}"],
        input=PING,
        capture_output=True,
        cwd=machine.cwd,
        env=machine.env,
        timeout=LONG,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("rpc --provider scripted <&-", 0),
        ("rpc --provider scripted >&-", 0),
        ("rpc --provider scripted 2>&-", 0),
        ("rpc --provider scripted <&- >&- 2>&-", 0),
        ("-p --provider scripted hi <&-", 0),
        ("-p --provider scripted hi >&-", 1),
        ("-p --provider scripted hi 2>&-", 0),
        ("-p --provider scripted 2>&- </dev/null", 2),
        ("--help >&-", 0),
        ("--version >&-", 0),
    ],
)
def test_a_closed_stream_is_no_crash(machine: Machine, command: str, code: int) -> None:
    done = _shell(machine, command)
    assert (done.returncode, done.stderr) == (code, b"")


def test_an_answer_with_half_a_character_is_printed_with_a_mark_in_its_place(machine: Machine) -> None:
    done = _shell(machine, "-p --provider scripted \"$(printf 'a\\377b')\" </dev/null")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"You said: a?b\n", b"")


@pytest.mark.parametrize("schema", ['{"$ref":"#/x"}', '{"$ref":"http://127.0.0.1:1/x"}', '{"$ref":"#"}'])
def test_a_schema_whose_reference_cannot_be_followed_is_refused(machine: Machine, schema: str) -> None:
    (machine.cwd / "schema.json").write_text(schema)
    done = machine.run("-p", "--provider", "scripted", "--output-schema", "schema.json", "hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--output-schema schema.json: a $ref leads" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_whose_output_nobody_reads(machine: Machine, number: int) -> None:
    flags = machine.script({"reply": [{"text": "x" * 3_000_000, "delta_chars": 1000}]})
    reading, writing = os.pipe()
    argv: list[str | Path] = [machine.program, "--json", *flags, "hi"]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=writing, cwd=machine.cwd, env=machine.env
    ) as run:
        assert select.select([reading], [], [], 20)[0]
        run.send_signal(number)
        try:
            assert run.wait(10) == 130
        finally:
            run.kill()
            os.close(reading)
            os.close(writing)


def test_a_reader_that_leaves_ends_a_run_in_the_middle_of_a_tool(machine: Machine) -> None:
    flags = machine.script({"reply": [{"tool_call": {"name": "bash", "args": {"command": "sleep 600"}}}]})
    argv: list[str | Path] = [machine.program, "--json", *flags, "hi"]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=machine.cwd, env=machine.env
    ) as run:
        assert run.stdout is not None
        run.stdout.readline()
        run.stdout.close()
        assert run.wait(20) == 1


def test_an_answer_that_cannot_be_stored_is_a_failure_that_says_why(machine: Machine) -> None:
    command = (
        f"ulimit -f 0; exec {shlex.quote(str(machine.program))}"
        " --no-session -p --provider scripted hi > answer"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=machine.cwd,
        env=machine.env,
        timeout=LONG,
    )
    assert done.returncode == 1
    assert b"standard output: File too large" in done.stderr


def test_an_answer_that_misses_its_schema_is_not_printed(machine: Machine) -> None:
    schema = machine.root / "schema.json"
    schema.write_text('{"type": "integer"}')
    done = _shell(machine, f"-p --provider scripted --output-schema {shlex.quote(str(schema))} hi")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"does not fit the schema" in done.stderr
