"""`--continue`, `--session` and `--no-session`: which session a run is of, and what is left of it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Machine, types
from zotd.base.limits import Limits
from zotd.cli.flags import UsageError, parse
from zotd.cli.oneshot import oneshot
from zotd.daemon.spec import SessionSpec

SCRIPTED = ("--provider", "scripted")


def files(machine: Machine) -> list[Path]:
    return sorted((machine.home / "sessions").glob("*/*.jsonl"))


def talk(path: Path) -> list[str]:
    """The texts of a session file, in order."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    messages = [row["message"] for row in rows if row["type"] == "message"]
    return ["".join(block["text"] for block in message["content"]) for message in messages]


def said(*words: str) -> list[str]:
    return [text for word in words for text in (word, f"You said: {word}")]


def zot(machine: Machine, *argv: str, prompt: str = "") -> list[dict[str, Any]]:
    """What a zot client finds, which may prompt first."""
    client = machine.rpc(*argv)
    if prompt:
        client.ask("prompt", message=prompt)
        client.until("done")
    messages: list[dict[str, Any]] = client.ask("get_messages")["data"]["messages"]
    client.hang_up()
    assert client.exit_code() == 0
    return messages


@pytest.mark.parametrize("flag", ["-c", "--continue", "-r", "--resume"])
def test_four_spellings_mean_the_session_used_last(flag: str) -> None:
    flags = parse([flag, "-p", "and", "more"])
    assert (flags.latest, flags.session, flags.prompt) == (True, "", "and more")
    assert parse(["-p", flag, "x"]).prompt == "x"


@pytest.mark.parametrize(
    "argv", [["-c", "--session", "x"], ["-r", "--no-session"], ["--session", "x", "--no-session"]]
)
def test_flags_that_name_different_sessions_are_refused(argv: list[str]) -> None:
    with pytest.raises(UsageError, match="ask for different sessions: give one of them"):
        parse([*argv, "-p", "x"])


def test_a_run_is_saved_and_the_next_goes_on_with_it(machine: Machine) -> None:
    done = machine.run(*SCRIPTED, "-p", "one")
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: one\n", "")
    (path,) = files(machine)
    done = machine.run("-p", "--continue", "two")  # the provider too is the session's
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: two\n", "")
    events, result, code = machine.json("--resume", "three")
    assert (code, files(machine), talk(path)) == (0, [path], said("one", "two", "three"))
    assert result["session_id"] == json.loads(path.read_text().split("\n")[0])["meta"]["id"]
    assert {event["session_id"] for event in events} == {result["session_id"]}
    assert types(events)[-1] == "done"

    # Another folder is another matter
    other = machine.root / "other"
    other.mkdir()
    done = machine.run(*SCRIPTED, "--cwd", str(other), "-c", "-p", "four")
    assert (done.returncode, done.stdout) == (0, "You said: four\n")
    assert done.stderr == f"zotd: no session of {other} is saved: a new one begins\n"
    assert len(files(machine)) == 2


def test_a_session_is_named_by_its_id_or_its_file_from_anywhere(machine: Machine) -> None:
    machine.json(*SCRIPTED, "one")
    (path,) = files(machine)
    other = machine.root / "other"
    other.mkdir()
    for word in (path.stem.rpartition("-")[2], str(path)):
        done = machine.run("--cwd", str(other), "--session", word, "-p", "more")
        assert (done.returncode, done.stdout) == (0, "You said: more\n")
        assert done.stderr == f"zotd: the session goes on in its own folder, {machine.cwd}\n"
    assert talk(path) == said("one", "more", "more")


def test_no_session_leaves_nothing(machine: Machine) -> None:
    assert machine.run(*SCRIPTED, "--no-session", "-p", "one").stdout == "You said: one\n"
    _, result, code = machine.json(*SCRIPTED, "--no-session", "two")
    assert (code, bool(result["session_id"])) == (0, True)
    assert not (machine.home / "sessions").exists()


def test_a_file_that_is_missing_is_made(machine: Machine) -> None:
    for prompt in ("one", "two"):
        assert machine.run(*SCRIPTED, "--session", "talk.jsonl", "-p", prompt).returncode == 0
    assert talk(machine.cwd / "talk.jsonl") == said("one", "two")
    assert files(machine) == []


def test_a_file_that_a_crash_left_without_a_row_is_gone_on_with(machine: Machine) -> None:
    path = machine.cwd / "talk.jsonl"
    path.touch()
    assert machine.run(*SCRIPTED, "--session", "talk.jsonl", "-p", "one").returncode == 0
    assert talk(path) == said("one")
    os.truncate(path, 0)
    _, socket = machine.listen(*SCRIPTED, "--session", "./talk.jsonl")
    client = machine.connect(socket).greet()
    session = client.call("session/load", path=str(path))["session"]
    assert (session["message_count"], session["cwd"]) == (0, str(machine.cwd))
    assert client.call("session/load", path=str(path))["session"]["epoch"] == session["epoch"]
    client.call("turn/start", session_id=session["session_id"], text="two")
    client.event("done")
    assert talk(path) == said("two")


def test_what_cannot_be_had_exits_2_before_anything_starts(machine: Machine) -> None:
    machine.json(*SCRIPTED, "one")
    (path,) = files(machine)
    session = path.stem.rpartition("-")[2]
    (machine.cwd / "notes.txt").write_text("precious\n")

    def refused(*argv: str) -> str:
        done = machine.run(*SCRIPTED, *argv)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert refused("rpc", "--session", "zzzz").startswith(
        f"zotd: no session 'zzzz' is saved; the newest are: {session} (one)"
    )
    assert "notes.txt, line 1: " in refused("--session", "./notes.txt", "-p", "x")
    assert (machine.cwd / "notes.txt").read_text() == "precious\n"
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for argv in (["-c", "-p", "x"], ["--session", session, "rpc"]):
            assert f"has the session open: {path}; end that process first" in refused(*argv)
    twin = path.with_name(f"20261130-000000-{session}.jsonl")
    first, rest = path.read_text().split("\n", 1)
    meta = json.loads(first)["meta"]
    meta["id"] = meta["id"][:-4] + "0000"
    twin.write_text(json.dumps({"type": "meta", "meta": meta}, separators=(",", ":")) + "\n" + rest)
    assert f"several sessions begin with '{session}': " in refused("--session", session, "-p", "x")
    assert talk(path) == said("one")


def test_a_session_that_is_taken_while_a_run_starts_is_told_of_with_what_to_do(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    path = machine.cwd / "talk.jsonl"
    machine.run(*SCRIPTED, "--session", path, "-p", "one", stdin=None)
    flags = parse([*SCRIPTED, "--session", str(path), "-p", "two"])
    spec = SessionSpec(
        cwd=machine.cwd,
        home=machine.home,
        user_home=machine.root,
        environ={},
        provider="scripted",
        saved=path,
    )
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert asyncio.run(oneshot(flags, spec, Limits())) == 2
    assert f"has the session open: {path}; end that process first" in capsys.readouterr().err


def test_the_process_that_has_a_session_open_is_named(machine: Machine) -> None:
    client = machine.rpc(*SCRIPTED, "--session", "./talk.jsonl")
    client.ask("prompt", message="one")
    client.until("done")
    done = machine.run(*SCRIPTED, "--session", "./talk.jsonl", "-p", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"process {client.popen.pid} has the session open: " in done.stderr


def test_the_session_of_a_zot_client_is_gone_with_it_unless_it_is_named(machine: Machine) -> None:
    assert len(zot(machine, *SCRIPTED, prompt="one")) == 2
    assert not (machine.home / "sessions").exists()
    assert len(zot(machine, *SCRIPTED, "--continue", prompt="two")) == 2
    (path,) = files(machine)
    assert len(zot(machine, "-c", prompt="three")) == 4
    assert len(zot(machine, "--session", str(path))) == 4
    assert talk(path) == said("two", "three")
    assert files(machine) == [path]


def test_zot_clients_of_one_daemon_that_is_to_go_on_with_a_session_share_it(machine: Machine) -> None:
    machine.json(*SCRIPTED, "one")
    (path,) = files(machine)
    _, socket = machine.listen("--session", str(path))
    first, second = machine.connect(socket), machine.connect(socket)
    assert second.ask("get_state")["data"]["message_count"] == 2
    first.ask("prompt", message="two")
    assert types(first.until("done")) == types(second.until("done"))
    assert second.ask("get_state")["data"]["message_count"] == 4
    assert talk(path) == said("one", "two")


def test_of_json_rpc_clients_the_flags_decide_nothing(machine: Machine) -> None:
    for flag in ("--continue", "--no-session"):
        client = machine.rpc(*SCRIPTED, flag).greet()
        opened = client.call("session/new")["session"]
        assert (opened["ephemeral"], opened["message_count"]) == (False, 0)
        turn = client.call("turn/start", session_id=opened["session_id"], text="one")["turn_id"]
        client.call("turn/wait", session_id=opened["session_id"], turn_id=turn)
    assert [talk(path) for path in files(machine)] == [said("one")] * 2


def test_a_home_that_cannot_be_written_fails_the_run_and_says_so(machine: Machine) -> None:
    (machine.home / "sessions").write_text("in the way")
    done = machine.run(*SCRIPTED, "-p", "one")
    assert done.returncode == 1
    assert f"{machine.home}/sessions/" in done.stderr
    assert "cannot be written: Not a directory" in done.stderr
    assert machine.run(*SCRIPTED, "--no-session", "-p", "one").returncode == 0


def test_what_is_saved_is_the_user_s_alone(machine: Machine) -> None:
    machine.run(*SCRIPTED, "-p", "one")
    (path,) = files(machine)
    modes = [place.stat().st_mode & 0o777 for place in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
