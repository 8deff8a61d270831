"""What a wrong command line is told: the flag, what was given, what was expected, the nearest right word."""

from __future__ import annotations

import re
import socket

import pytest

from tests.clients import ROOT, Machine
from zotd.cli.flags import LATER, UNNEEDED, UsageError, parse

LEVELS = "off, minimum, minimal, low, medium, high, xhigh, max, maximum"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--timeout", "abc"], "--timeout: abc is not a number of seconds above 0"),
        (["--timeout", "-1"], "--timeout: -1 is not a number of seconds above 0"),
        (["--max-steps", "abc"], "--max-steps: abc is not a whole number of at least 1"),
        (["--max-steps", "2.5"], "--max-steps: 2.5 is not a whole number of at least 1"),
        (["--temperature", "hot"], "--temperature: hot is not a number of at least 0"),
        (["--temperature", "nan"], "--temperature: nan is not a number of at least 0"),
        (["--reasoning", "hig"], f"--reasoning: hig is none of {LEVELS}; did you mean high?"),
        (["--reasoning", "zzz"], f"--reasoning: zzz is none of {LEVELS}"),
        (["--mode", "jsn"], "--mode: jsn is none of print, json, rpc; did you mean json?"),
        (["--approval", "aut"], "--approval: aut is none of auto, ask, rules; did you mean auto?"),
        (["--approval="], "--approval: nothing is none of auto, ask, rules"),
        (["--no-yolo", "--approval", "auto"], "--no-yolo asks, --approval auto does not: give one of them"),
        (["--connect="], "--connect: expected auto or the path of a socket, got nothing"),
        (["--idle-timeout", "0"], "--idle-timeout: 0 is not a number of seconds above 0"),
        (["--idle-timeout", "5"], "--idle-timeout goes with rpc --listen and zotd daemon run"),
        (["--max-cost-usd", "1"], "--max-cost-usd needs prices of models, which this version does not have"),
        (["--model"], "--model: expected one argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_value_is_named_with_what_was_expected(argv: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(["-p", "hi", *argv])
    assert str(caught.value) == said


def test_right_values_are_taken() -> None:
    flags = parse(
        ["--timeout", "0.5", "--max-steps", "2", "--temperature", "0", "--approval", "auto", "-p", "x"]
    )
    assert (flags.mode, flags.timeout, flags.max_steps, flags.temperature) == ("print", 0.5, 2, 0.0)
    assert parse(["--mode", "json", "--reasoning", "maximum", "x"]).reasoning == "max"
    assert parse(["--reasoning", "off", "-p", "x"]).reasoning == "off"
    assert parse(["-p", "x"]).reasoning == ""


def test_both_ways_to_say_that_calls_are_asked_about_mean_the_same() -> None:
    for argv in (["--no-yolo"], ["--approval", "ask"], ["--approval=ask", "--no-yolo"]):
        assert parse([*argv, "-p", "x"]).approval == "ask"
    assert parse(["--approval", "rules", "-p", "x"]).approval == "rules"
    assert parse(["-p", "x"]).approval == ""


def test_a_daemon_is_joined_or_is_one_itself() -> None:
    assert parse(["--connect", "auto", "-p", "x"]).connect == "auto"
    assert parse(["rpc", "--connect=/run/z.sock"]).connect == "/run/z.sock"
    assert parse(["rpc", "--listen", "unix:a", "--idle-timeout", "2.5"]).idle_timeout == 2.5
    with pytest.raises(UsageError, match="--connect and --listen: one joins a daemon, the other is one"):
        parse(["rpc", "--connect", "auto", "--listen", "unix:a"])


def test_an_unknown_flag_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        parse(["--version", "--foo"])
    assert str(caught.value) == "unknown flag --foo; zotd --help lists all"


@pytest.mark.parametrize(
    ("typed", "meant"), [("--jsn", "--json"), ("--time", "--timeout"), ("--no-tool", "--no-tools")]
)
def test_a_mistyped_flag_still_finds_its_neighbour(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"unknown flag {typed}: did you mean {meant}"):
        parse([typed, "-p", "x"])


def test_the_help_names_the_command_that_lists_installable_models() -> None:
    assert "zotd model list" in parse(["--help"]).help_text


def refused(machine: Machine, address: str) -> str:
    done = machine.run("rpc", "--provider", "scripted", "--listen", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_an_address_without_a_path_is_refused(machine: Machine) -> None:
    assert refused(machine, "unix:") == "zotd: --listen unix: names no path\n"


def test_a_path_in_the_home_of_nobody_is_refused(machine: Machine) -> None:
    assert "~nobody-of-that-name/s: there is no such user's home" in refused(
        machine, "unix:~nobody-of-that-name/s"
    )


def test_a_file_where_the_socket_would_be_is_named_and_left_alone(machine: Machine) -> None:
    path = machine.root / "notes.txt"
    path.write_text("precious")
    assert f"{path}: exists and is not a socket" in refused(machine, f"unix:{path}")
    assert path.read_text() == "precious"


def test_a_directory_where_the_socket_would_be_is_named(machine: Machine) -> None:
    assert f"{machine.root}: exists and is not a socket" in refused(machine, f"unix:{machine.root}")


def test_a_link_to_nowhere_where_the_socket_would_be_is_named(machine: Machine) -> None:
    path = machine.root / "link.sock"
    path.symlink_to(machine.root / "gone.sock")
    assert f"{path}: is a symbolic link; remove it" in refused(machine, f"unix:{path}")
    assert path.is_symlink()


def test_a_path_too_long_for_a_socket_is_refused_with_the_limit(machine: Machine) -> None:
    path = machine.root / "é" / ("x" * 120)
    size = len(str(path).encode())
    said = refused(machine, f"unix:{path}")
    assert f"{path}: {size} bytes are too long for a socket's path" in said
    with socket.socket(socket.AF_UNIX) as probe, pytest.raises(OSError, match="too long"):
        probe.bind(str(path))


def test_a_missing_directory_is_named_and_not_made(machine: Machine) -> None:
    path = machine.root / "run" / "zotd.sock"
    assert f"there is no directory {path.parent}" in refused(machine, f"unix:{path}")
    assert not path.parent.exists()


PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")


def test_help_and_the_page_have_the_same_exit_codes() -> None:
    told = dict(re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE))
    codes = parse(["--help"]).help_text.partition("exit codes:")[2]
    assert re.findall(r"\d+", codes) == [*told]


def test_the_page_names_every_flag_that_help_leaves_out() -> None:
    _, _, waiting = PAGE.partition("## Flags that wait")
    refused, _, accepted = waiting.partition("\n## ")[0].partition("exit 2")
    assert set(re.findall(r"(?<!\S)`?(-[\w-]+)", refused)) == set(LATER)
    assert set(re.findall(r"`(--[\w-]+)`", accepted)) == set(UNNEEDED)
    shown = set(re.findall(r"(?<!\S)--[\w-]+", parse(["--help"]).help_text))
    assert not shown & {*LATER, *UNNEEDED}
    assert parse([*UNNEEDED, "-p", "x"]).prompt == "x"


@pytest.mark.parametrize(
    "argv", [["ext"], ["ext", "list"], ["ext", "install", "./x"], ["--cwd", "/", "ext", "doctor"]]
)
def test_a_command_that_is_not_there_yet_says_what_to_do_instead(argv: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(argv)
    said = str(caught.value)
    assert said.startswith("zotd ext is not there yet: ")
    assert "--ext DIR" in said
    assert "$ZOT_HOME/extensions" in said


def test_its_name_can_still_be_the_beginning_of_a_prompt() -> None:
    assert parse(["-p", "ext", "list"]).prompt == "ext list"
