"""`zotd service`: files for the service manager, written once, taken back, and never over somebody else's."""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import LONG, ROOT, ZOTD, Machine
from zotd.cli import units
from zotd.cli.service import lacking


def folder(machine: Machine) -> Path:
    return machine.root / ".config" / "systemd" / "user"


def verify(*files: Path, runtime: Path) -> str:
    """What systemd has to say of units. It says unknown keys, and exits 0 all the same."""
    said = subprocess.run(
        ["systemd-analyze", "verify", "--user", *files],
        env={"XDG_RUNTIME_DIR": str(runtime), "PATH": "/usr/bin:/bin", "HOME": str(runtime)},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    return said.stdout + said.stderr


def test_it_writes_units_that_start_this_program_and_systemd_has_nothing_to_say(machine: Machine) -> None:
    done = machine.run("service", "install")
    assert (done.returncode, done.stderr) == (0, "")
    service, socket = folder(machine) / "zotd.service", folder(machine) / "zotd.socket"
    assert f"ExecStart={ZOTD} daemon run --idle-timeout" in service.read_text()
    assert f"Environment=ZOT_HOME={machine.home}\n" in service.read_text()
    assert str(service) in done.stdout
    assert str(socket) in done.stdout
    # Nobody manages services for a home that was made a moment ago.
    assert "systemctl --user daemon-reload" in done.stdout
    assert "systemctl --user enable --now zotd.socket" in done.stdout
    assert verify(service, socket, runtime=machine.root) == ""
    doctor = machine.run("doctor").stdout
    assert "no service manager of this user answers here: " in doctor


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("ActiveState=active\nUnitFileState=enabled", ""),
        ("UnitFileState=enabled\nActiveState=inactive", "zotd.socket is enabled, but inactive"),
        ("ActiveState=failed\nUnitFileState=enabled", "zotd.socket is enabled, but failed"),
        ("ActiveState=inactive\nUnitFileState=", "zotd.socket is neither enabled nor active"),
        ("ActiveState=active\nUnitFileState=disabled", "zotd.socket is active, but not after the next login"),
    ],
)
def test_a_unit_that_does_not_start_the_daemon_is_told_from_one_that_does(said: str, lacks: str) -> None:
    assert lacking(said) == lacks


def test_the_copies_in_the_repository_are_fresh_and_systemd_has_nothing_to_say(tmp_path: Path) -> None:
    program = ROOT / "systemd" / "write.py"
    stale = subprocess.run(
        [sys.executable, program, "--check"], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert (stale.returncode, stale.stderr) == (0, "")
    assert (
        verify(*(ROOT / "systemd" / name for name in ("zotd.socket", "zotd.service")), runtime=tmp_path) == ""
    )


def test_a_key_that_systemd_does_not_know_would_be_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "zotd.service"
    wrong.write_text(units.service_unit(["/bin/sh"], {}).replace("WatchdogSec", "WatchdogSeconds"))
    assert "WatchdogSeconds" in verify(wrong, runtime=tmp_path)


def test_a_second_time_changes_nothing_and_uninstall_takes_all_back(machine: Machine) -> None:
    machine.run("service", "install")
    before = {path: path.stat().st_ino for path in folder(machine).iterdir()}
    again = machine.run("service", "install", "--no-start")
    assert again.returncode == 0
    assert again.stdout.count("unchanged") == 2
    assert "\nNothing was started. To do it, run:\n  systemctl --user daemon-reload\n" in again.stdout
    assert {path: path.stat().st_ino for path in folder(machine).iterdir()} == before
    assert "journalctl --user -u zotd.service" in machine.run("daemon", "logs").stderr
    assert machine.run("service", "uninstall").returncode == 0
    assert "journalctl" not in machine.run("daemon", "logs").stderr
    assert list(folder(machine).iterdir()) == []
    assert machine.run("service", "uninstall").returncode == 0


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_a_unit_of_somebody_else_is_left_alone_unless_forced(machine: Machine, kind: str) -> None:
    theirs = folder(machine) / "zotd.service"
    theirs.parent.mkdir(parents=True)
    if kind == "file":
        theirs.write_text("[Service]\nExecStart=/bin/true\n")
    elif kind == "pipe":
        os.mkfifo(theirs)
    else:
        theirs.symlink_to("/dev/null")  # as `systemctl mask` does it
    for what in ("install", "uninstall"):
        refused = machine.run("service", what)
        assert refused.returncode == 1
        assert str(theirs) in refused.stderr
        assert "--force" in refused.stderr
    assert [path.name for path in theirs.parent.iterdir()] == ["zotd.service"]
    assert machine.run("service", "install", "--force").returncode == 0
    assert units.MARK in theirs.read_text()
    assert not theirs.is_symlink()


ODD = [
    "a b$c%d",
    "it's",
    'say "x"',
    "back\\",
    "$$x;",
    "é\u2028",
    "tab\tbell\x07",
    "two\nlines",
    "a=b'",
    "#%h",
    "${HOME}'",
]


def test_odd_paths_are_read_back_as_they_were(tmp_path: Path) -> None:
    written = []
    for number, name in enumerate(ODD):
        program = tmp_path / name / "zotd"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        unit = tmp_path / f"zotd{number}.service"
        text = units.service_unit([str(program)], {"ZOT_HOME": str(program.parent)})
        assert units.started_by(text) == str(program)
        unit.write_text(text.replace("Requires=", "#"))
        written.append(unit)
    assert verify(*written, runtime=tmp_path) == ""
    assert units.started_by("[Service]\nExecStart = -'/a b/c' \\\n x\n") == "/a b/c"
    assert units.started_by("[Service]\nExecStart=\n") == units.started_by("") == ""


def test_a_list_for_launchd_says_odd_paths_too(tmp_path: Path) -> None:
    odd = str(tmp_path / "a b$c%d'<&>")
    agent = plistlib.loads(units.launch_agent([odd], {"ZOT_HOME": odd}, "/l").encode())
    assert agent["ProgramArguments"] == [odd, "daemon", "run"]
    assert agent["EnvironmentVariables"] == {"ZOT_HOME": odd}
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    with pytest.raises(OSError, match="control characters"):
        units.launch_agent(["/x\x07"], {}, "/l")


def test_a_path_that_is_no_text_is_refused_and_a_relative_one_is_told_whole(machine: Machine) -> None:
    refused = machine.run("service", "install", env={"ZOT_HOME": str(machine.root / "\udcff")})
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "not UTF-8: rename it" in refused.stderr
    done = machine.run("service", "install", env={"ZOT_HOME": "here", "XDG_CONFIG_HOME": "relative"})
    assert done.returncode == 0
    # systemd passes over a relative XDG_CONFIG_HOME, so that a file there would never be found.
    assert f"Environment=ZOT_HOME={machine.cwd}/here\n" in (folder(machine) / "zotd.service").read_text()
    assert list(machine.cwd.iterdir()) == []


def test_what_cannot_be_written_is_named_with_what_to_do(machine: Machine) -> None:
    above = folder(machine).parent
    above.parent.mkdir()
    above.write_text("")
    refused = machine.run("service", "install")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        f"zotd: service install: {folder(machine)}: Not a directory; see what is"
    )
    above.unlink()
    (folder(machine) / "zotd.service").mkdir(parents=True)
    refused = machine.run("service", "install", "--force")
    assert f"{folder(machine) / 'zotd.service'}: Is a directory; " in refused.stderr


def test_wrong_words_are_usage_errors(machine: Machine) -> None:
    for words in (["service"], ["service", "start"], ["service", "install", "now"]):
        refused = machine.run(*words)
        assert refused.returncode == 2
        assert "Traceback" not in refused.stderr
        assert refused.stderr.startswith("zotd: service: ")
    assert "uninstall" in machine.run("service", "--help").stdout
