"""Callers that close a standard stream, or give one that cannot be written."""

from __future__ import annotations

import shlex
import subprocess

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
