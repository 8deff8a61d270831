"""What `--ext` names and is not loaded is told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients import Machine
from tests.daemon.puppets import SOURCE


def disabled(machine: Machine) -> Path:
    folder = machine.extension("off", SOURCE)
    manifest = json.loads((folder / "extension.json").read_text())
    (folder / "extension.json").write_text(json.dumps({**manifest, "enabled": False}))
    return folder


def namesake(machine: Machine) -> Path:
    """Another folder whose extension is called `pup`."""
    folder = machine.extension("other", SOURCE)
    manifest = json.loads((folder / "extension.json").read_text())
    (folder / "extension.json").write_text(json.dumps({**manifest, "name": "pup"}))
    return folder


def test_one_that_is_disabled_is_left_out_with_a_note(machine: Machine) -> None:
    folder = disabled(machine)
    argv = ["--provider", "scripted", "--ext", str(folder)]
    why = f"extension off was not loaded: `enabled` is false in {folder}/extension.json"
    done = machine.run("-p", *argv, "hello", stdin=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hello\n", f"[off] warn: {why}\n")
    events, _, _ = machine.json(*argv, "hello")
    (note,) = [event for event in events if event["type"] == "ext_notify"]
    assert (note["extension"], note["level"], note["message"]) == ("off", "warn", why)


def test_one_whose_name_is_taken_is_left_out_with_a_note(machine: Machine) -> None:
    first, second = machine.extension("pup", SOURCE), namesake(machine)
    argv = ["--provider", "scripted", "--ext", str(first), "--ext", str(second)]
    done = machine.run("-p", *argv, "hello", stdin=None)
    why = f"extension pup in {second} was not loaded: an earlier one has its name"
    assert done.stderr == f"[pup] warn: {why}\n"


def test_those_that_are_installed_are_left_out_without_one(machine: Machine) -> None:
    (machine.home / "extensions").mkdir()
    disabled(machine).rename(machine.home / "extensions" / "off")
    done = machine.run("-p", "--provider", "scripted", "hello", stdin=None)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argv", [["--ext", ""], ["--ext="], ["-e", " "]])
def test_no_folder_at_all_is_a_mistake(machine: Machine, argv: list[str]) -> None:
    done = machine.run("-p", "--provider", "scripted", *argv, "hello", stdin=None)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected the folder of an extension, got nothing" in done.stderr
