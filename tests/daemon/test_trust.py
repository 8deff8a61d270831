"""Whose extensions run: a folder's own wait for the user's trust in sessions of editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import ROOT, Client, Frame, Machine
from tests.daemon.puppets import event

EXTENSION = """
import json, os, sys
from pathlib import Path
place = Path.cwd()
print(json.dumps({"type": "hello", "name": "own", "version": "1"}), flush=True)
for line in sys.stdin:
    if json.loads(line)["type"] == "hello_ack":
        print(json.dumps({"type": "register_command", "name": place.parent.parent.parent.name}), flush=True)
        print(json.dumps({"type": "ready"}), flush=True)
"""


def bring(machine: Machine, folder: Path, name: str = "own") -> None:
    """Have a folder bring an extension, whose command is named after the folder."""
    (place := folder / ".zot" / "extensions").mkdir(parents=True)
    machine.extension(name, EXTENSION).rename(place / name)


def loaded(client: Client, session: str) -> dict[str, str]:
    """The states of a session's extensions by their directory's place, once they are known."""
    rows = client.call("extension/list", session_id=session)["extensions"]
    return {f"{row['scope']} {row['name']}": row["state"] for row in rows}


def commands(client: Client, session: str) -> list[str]:
    rows = client.call("command/list", session_id=session)["commands"]
    return [row["name"] for row in rows if row["source"] == "extension"]


def news(client: Client, trusted: bool, **members: Any) -> Frame:
    """The next time that a session is said to be trusted, or not."""
    while True:
        changed: Frame = client.event("session_changed")["session"]
        if changed["trusted"] is trusted and members.items() <= changed.items():
            return changed


def record(machine: Machine) -> Path:
    return machine.home / "trusted.json"


@pytest.fixture
def editors(machine: Machine) -> Iterator[list[Client]]:
    """Two clients of one daemon."""
    _, path = machine.listen()
    yield [machine.connect(path).greet() for _ in range(2)]


def test_sessions_follow_what_is_said_of_their_folder(machine: Machine, editors: list[Client]) -> None:
    first, second = editors
    below, beside = machine.cwd / "below", machine.root / "beside"
    for folder in (machine.cwd, below, beside):
        folder.mkdir(exist_ok=True)
    bring(machine, below)
    bring(machine, beside, "other")
    here = first.session(cwd=str(below))
    there = second.session(cwd=str(beside))
    assert event(first, "ext_state", extension="own")["state"] == "untrusted"
    assert loaded(first, here) == {"project own": "untrusted"}
    assert loaded(second, there) == {"project other": "untrusted"}
    assert not (machine.home / "logs").exists(), "something was started"

    # Said by another client, of the folder above
    assert second.call("workspace/trust", cwd=str(machine.cwd), trusted=True) == {}
    changed = news(first, True, session_id=here)
    assert [row["state"] for row in changed["extensions"]] in (["ready"], ["auto_ready"])
    assert commands(first, here) == ["below"]
    assert first.call("session/state", session_id=here)["session"]["trusted"] is True

    # Where it makes no difference nothing is loaded anew, and a new session knows
    assert first.call("workspace/trust", cwd=str(below), trusted=True) == {}
    new = first.call("session/new", cwd=str(below))["session"]
    assert new["trusted"] is True
    assert commands(first, new["session_id"]) == ["below"]
    assert loaded(second, there) == {"project other": "untrusted"}
    first.call("session/state", session_id=here)
    others = [told for told in first.events + second.events if told["session_id"] != new["session_id"]]
    assert "starting" not in [told.get("state") for told in others]

    # Taken back: what runs is stopped, in every session
    first.call("workspace/trust", cwd=str(below), trusted=False)
    told = {news(first, False)["session_id"] for _ in range(2)}
    assert told == {here, new["session_id"]}
    assert loaded(first, here) == loaded(first, new["session_id"]) == {"project own": "untrusted"}
    assert commands(first, here) == []
    assert json.loads(record(machine).read_text()) == {"folders": {str(machine.cwd): True, str(below): False}}


def test_an_extension_that_is_not_trusted_takes_no_name_from_another(
    machine: Machine, editors: list[Client]
) -> None:
    bring(machine, machine.cwd)
    (machine.home / "extensions").mkdir()
    machine.extension("own", EXTENSION).rename(machine.home / "extensions" / "own")
    client, _ = editors
    session = client.session(cwd=str(machine.cwd))
    assert loaded(client, session) == {"global own": "ready", "project own": "untrusted"}
    client.call("workspace/trust", cwd=str(machine.cwd), trusted=True)
    assert news(client, True)["session_id"] == session
    assert loaded(client, session) == {"project own": "ready", "global own": "shadowed"}


def test_a_word_from_the_command_line_is_heard_at_the_next_reload(
    machine: Machine, editors: list[Client]
) -> None:
    bring(machine, machine.cwd)
    client, _ = editors
    session = client.session(cwd=str(machine.cwd))
    assert loaded(client, session) == {"project own": "untrusted"}
    done = machine.run("trust")
    assert (done.returncode, done.stderr) == (0, "")
    assert client.call("extension/reload", session_id=session)["ready"] == ["own"]
    assert news(client, True)["session_id"] == session


def test_print_mode_json_mode_and_zot_clients_start_them_as_zot_does(machine: Machine) -> None:
    bring(machine, machine.cwd)
    machine.run("trust", "--remove")
    assert "own" in json.dumps(machine.rpc().ask("get_extensions")["data"])
    events, _, _ = machine.json("--provider", "scripted", "hello")
    states = [told["state"] for told in events if told["type"] == "ext_state"]
    assert "ready" in states
    assert "untrusted" not in states


def test_what_a_zot_client_had_running_waits_for_trust_when_an_editor_brings_it_back(
    machine: Machine,
) -> None:
    bring(machine, machine.cwd)
    _, path = machine.listen("--provider", "scripted", "--session", str(machine.cwd / "talk.jsonl"))
    zot = machine.connect(path)
    zot.ask("prompt", message="hello")
    session = zot.until("done")[-1]["session_id"]
    editor = machine.connect(path).greet()
    fork = editor.call("session/fork", session_id=session, message_id=1)["session"]
    assert fork["trusted"] is False
    assert loaded(editor, fork["session_id"]) == {"project own": "untrusted"}
    assert loaded(editor, session) == {"project own": "ready"}
    assert editor.call("extension/reload", session_id=session)["ready"] == []
    assert loaded(editor, session) == {"project own": "untrusted"}
    editor.call("session/close", session_id=session)
    back = editor.call("session/load", path=str(machine.cwd / "talk.jsonl"))["session"]
    assert (back["session_id"], back["message_count"], back["trusted"]) == (session, 2, False)
    assert loaded(editor, session) == {"project own": "untrusted"}


def test_trust_is_taken_back_though_its_client_leaves_at_once_or_gives_up(
    machine: Machine, editors: list[Client]
) -> None:
    bring(machine, machine.cwd)
    client, hasty = editors
    client.call("workspace/trust", cwd=str(machine.cwd), trusted=True)
    session = client.session(cwd=str(machine.cwd))
    assert loaded(client, session) == {"project own": "ready"}
    hasty.request("workspace/trust", cwd=str(machine.cwd), trusted=False)
    hasty.hang_up()
    news(client, False)
    assert loaded(client, session) == {"project own": "untrusted"}
    number = client.request("workspace/trust", cwd=str(machine.cwd), trusted=True)
    client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
    assert client.reply(number)["result"] == {}
    news(client, True)
    assert loaded(client, session) == {"project own": "ready"}


def test_a_broken_record_is_told_and_nothing_is_trusted(machine: Machine, editors: list[Client]) -> None:
    bring(machine, machine.cwd)
    client, _ = editors
    client.call("workspace/trust", cwd=str(machine.cwd), trusted=True)
    record(machine).write_text("{")
    opened = client.call("session/new", cwd=str(machine.cwd))["session"]
    assert opened["trusted"] is False
    note = client.event("ext_notify")
    assert note["message"].startswith(f"{record(machine)}: expected JSON: ")
    assert note["message"].endswith("; until it is mended, no folder is trusted")
    assert loaded(client, opened["session_id"]) == {"project own": "untrusted"}
    error = client.error("workspace/trust", cwd=str(machine.cwd), trusted=True)
    assert (error["data"]["kind"], error["data"]["hint"][:13]) == ("storage", "mend the file")
    assert error["message"].startswith(f"{record(machine)}: expected JSON: ")
    assert record(machine).read_text() == "{"


def test_folders_that_nobody_can_mean_are_refused_and_one_that_is_gone_can_be_taken_back(
    machine: Machine, editors: list[Client]
) -> None:
    client, _ = editors
    gone = str(machine.root / "gone")

    def said(**params: Any) -> Frame:
        return client.error("workspace/trust", **params)

    assert (
        said(cwd="work", trusted=True)["message"]
        == "workspace/trust: $.cwd: expected an absolute path, got 'work'"
    )
    assert said(cwd=gone, trusted=True)["message"] == f"workspace/trust: $.cwd: {gone} is not a directory"
    assert "NUL" in said(cwd="/a\0b", trusted=False)["message"]
    assert "$.trusted" in said(cwd=gone)["message"]
    assert not record(machine).exists()
    assert client.call("workspace/trust", cwd=gone, trusted=False) == {}
    assert json.loads(record(machine).read_text()) == {"folders": {gone: False}}


def test_a_project_s_files_cannot_say_that_it_is_trusted(machine: Machine, editors: list[Client]) -> None:
    bring(machine, machine.cwd)
    for place in (machine.cwd, machine.cwd / ".zot"):
        (place / "trusted.json").write_text(json.dumps({"folders": {str(machine.cwd): True}}))
    client, _ = editors
    elsewhere = {"ZOT_HOME": str(machine.cwd / ".zot"), "PATH": machine.env["PATH"]}
    session = client.session(cwd=str(machine.cwd), env=elsewhere)
    assert loaded(client, session) == {"project own": "untrusted"}


def test_the_extensions_of_the_examples_wait_too(machine: Machine, editors: list[Client]) -> None:
    place = machine.cwd / ".zot" / "extensions"
    place.mkdir(parents=True)
    (place / "guard").symlink_to(ROOT / "examples" / "extensions" / "guard")
    client, _ = editors
    session = client.session(cwd=str(machine.cwd))
    assert loaded(client, session) == {"project guard": "untrusted"}
