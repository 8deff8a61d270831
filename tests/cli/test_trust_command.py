"""`zotd trust`: what people say of folders, and what they are told."""

from __future__ import annotations

import json

import pytest

from tests.clients import Machine


def said(machine: Machine, *argv: str) -> str:
    done = machine.run("trust", *argv)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_folder_is_trusted_listed_and_taken_back(machine: Machine) -> None:
    odd = machine.cwd / "a\x1b[31mb"
    odd.mkdir()
    (machine.root / "link").symlink_to(machine.cwd)
    assert said(machine, "--list") == "no folder is trusted; zotd trust DIR trusts one\n"
    assert said(machine) == f"trusted: {machine.cwd}\n"
    assert said(machine, "a\x1b[31mb") == f"trusted: {machine.cwd}/a\\x1b[31mb\n"
    assert json.loads(said(machine, "--remove", "../link", "--json")) == {
        "folder": str(machine.cwd),
        "trusted": False,
    }
    assert said(machine, "--list").splitlines() == [
        "trusted  folder",
        f"no       {machine.cwd}",
        f"yes      {machine.cwd}/a\\x1b[31mb",
    ]
    assert json.loads(said(machine, "--list", "--json")) == {
        "folders": [
            {"folder": str(machine.cwd), "trusted": False},
            {"folder": str(odd), "trusted": True},
        ]
    }
    assert "usage: zotd trust" in said(machine, "--help")


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["gone"], "/gone is not a directory"),
        (["--list", "."], "--list takes no folder"),
        (["--list", "--remove"], "--list changes nothing: give it without --remove"),
        (["--lst"], "unrecognized arguments: --lst"),
        (["~nobody-of-that-name"], "there is no such user's home"),
    ],
)
def test_a_wrong_command_line_exits_2_and_changes_nothing(
    machine: Machine, argv: list[str], why: str
) -> None:
    done = machine.run("trust", *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert list(machine.home.iterdir()) == []


def test_a_broken_record_is_named_and_left_alone(machine: Machine) -> None:
    record = machine.home / "trusted.json"
    record.write_text("[]")
    for argv in ([], ["--list"]):
        done = machine.run("trust", *argv)
        assert (done.returncode, done.stdout) == (1, "")
        why = f"zotd: {record}: expected a JSON object; mend the file or remove it: until then no folder"
        assert done.stderr.startswith(why)
    assert record.read_text() == "[]"
