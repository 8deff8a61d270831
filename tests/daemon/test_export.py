"""`session/export`, as clients see it: open sessions and saved ones, as answers and as files."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from tests.clients import Client, Machine
from tests.e2e.test_nothing_unapproved import REDACTOR, SECRET, TELLS

FORMS = {"jsonl": '{"type":"meta"', "markdown": "# ", "html": "<!DOCTYPE html>"}


def prompt(client: Client, session: str, text: str) -> None:
    turn = client.call("turn/start", session_id=session, text=text)["turn_id"]
    client.call("turn/wait", session_id=session, turn_id=turn)


def saved(machine: Machine, *messages: str) -> str:
    """A session file as zot writes it; its id."""
    meta = {
        "id": "0a1b2c3d4e",
        "cwd": str(machine.cwd),
        "model": "m",
        "provider": "p",
        "started": "2026-11-30T03:43:15Z",
    }
    rows: list[dict[str, Any]] = [{"type": "meta", "meta": meta}]
    rows += [
        {"type": "message", "message": {"role": "user", "content": [{"text": text}], "time": ""}}
        for text in messages
    ]
    folder = machine.home / "sessions" / "0123456789abcdef"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "20261130-034315-0a1b2c3d.jsonl").write_text(lines)
    return "0a1b2c3d4e"


def test_an_open_session_is_answered_in_each_format_or_written_to_a_file(machine: Machine) -> None:
    client = machine.rpc().greet()
    session = client.session()
    prompt(client, session, f"look at {machine.root}/x")
    for form, start in FORMS.items():
        answer = client.call("session/export", session_id=session, format=form)
        assert list(answer) == ["content"]
        assert answer["content"].startswith(start)
        assert "look at ~/x" in answer["content"].replace("\\", "")
        assert str(machine.root) not in answer["content"]
        path = machine.root / f"session.{form}"
        asked = client.call("session/export", session_id=session, format=form, path=str(path))
        assert asked == {"path": str(path)}
        assert path.read_text() == answer["content"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_there_stays_and_a_place_that_is_not_is_named(
    machine: Machine, tmp_path: Path
) -> None:
    client = machine.rpc().greet()
    session = client.session()

    def refused(path: str) -> tuple[str, str]:
        error = client.error("session/export", session_id=session, format="html", path=path)
        return error["data"]["kind"], error["message"]

    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("mine")
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (there, link):
        assert refused(str(taken)) == ("storage", f"{taken} cannot be made: File exists")
    assert there.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
    lost = tmp_path / "no" / "x.html"
    assert refused(str(lost)) == ("storage", f"{lost} cannot be made: No such file or directory")
    for path in ("x.html", "", "/tmp/\0x"):
        assert refused(path) == ("invalid_params", "session/export: $.path: expected an absolute path")
    full = client.error("session/export", session_id=session, format="html", path="/dev/full")
    assert full["data"]["kind"] == "storage"


def test_a_saved_session_is_exported_without_being_opened(machine: Machine) -> None:
    client = machine.rpc().greet()
    session = saved(machine, "what is tea?")
    text = client.call("session/export", session_id=session[:6], format="markdown")["content"]
    assert "# what is tea?" in text
    assert client.error("session/state", session_id=session)["data"]["kind"] == "session_not_found"


def test_a_session_that_is_nowhere_is_refused(machine: Machine) -> None:
    client = machine.rpc().greet()
    saved(machine, "x")
    error = client.error("session/export", session_id="ffffffff", format="jsonl")
    assert error["data"]["kind"] == "session_not_found"
    assert error["data"]["hint"]


def test_a_text_that_no_answer_has_room_for_goes_to_a_file_and_others_do_not_wait(machine: Machine) -> None:
    client = machine.rpc().greet()
    session = saved(machine, *["x" * 1_000_000] * 17)
    slow = client.request("session/export", session_id=session, format="html")
    client.call("ping")
    assert slow not in client.replies
    error = client.reply(slow)["error"]
    assert error["data"]["kind"] == "storage"
    assert "path" in error["data"]["hint"]
    path = machine.root / "large.html"
    client.call("session/export", session_id=session, format="html", path=str(path))
    assert path.stat().st_size > 17_000_000


def test_an_export_holds_what_was_approved_and_nothing_else(machine: Machine) -> None:
    extension = machine.extension("redactor", REDACTOR)
    client = machine.rpc("--ext", str(extension), *machine.script(TELLS)).greet()
    session = client.session()
    prompt(client, session, "tell")
    for form in FORMS:
        text = client.call("session/export", session_id=session, format=form)["content"]
        assert SECRET not in text
        assert "[key]" in text.replace("\\", "")
