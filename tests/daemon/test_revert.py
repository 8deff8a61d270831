"""What clients get when they undo a turn, and when files have unsaved changes."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine


def calls(match: str, *steps: tuple[str, dict[str, Any]]) -> list[Frame]:
    """Entries of a script: a prompt makes the model call these tools, then say so."""
    tools = [{"tool_call": {"name": name, "args": args}} for name, args in steps]
    return [{"match": match, "reply": tools}, {"match": match, "reply": [{"text": "done"}]}]


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write", {"path": path, "content": content}


@pytest.fixture
def client(machine: Machine) -> Iterator[Client]:
    (machine.cwd / "a.txt").write_text("old\n")
    script = machine.script(
        *calls("one", write("a.txt", "1\n"), write("new/b.txt", "1\n")),
        *calls("two", ("edit", {"path": "a.txt", "edits": [{"oldText": "1", "newText": "2"}]})),
        *calls("dirty", write("a.txt", "3\n"), write("c.txt", "3\n")),
        *calls("wait", ("bash", {"command": f"cat {machine.cwd}/pipe"})),
        *calls("mind", write("c.txt", "4\n")),
        {"reply": [{"text": "nothing to do"}], "times": 0},
    )
    yield machine.rpc(*script).greet()


def turn(client: Client, session: str, text: str, **params: Any) -> str:
    """Run a turn to its end; its id."""
    turn_id: str = client.call("turn/start", session_id=session, text=text, **params)["turn_id"]
    assert client.call("turn/wait", session_id=session, turn_id=turn_id)["stop"] == "end_turn"
    return turn_id


def test_turns_are_undone_or_refused_by_name(machine: Machine, client: Client) -> None:
    session = client.session()

    def revert(turn_id: str) -> Any:
        return client.call("turn/revert", session_id=session, turn_id=turn_id)

    def refused(turn_id: str) -> tuple[str, str]:
        error = client.error("turn/revert", session_id=session, turn_id=turn_id)
        assert error["message"].endswith(f"after the turn: {', '.join(error['data']['paths'])}")
        return error["data"]["kind"], error["message"]

    a, b = machine.cwd / "a.txt", machine.cwd / "new" / "b.txt"
    one, two, idle = (turn(client, session, text) for text in ("one", "two", "hello"))
    assert (a.read_text(), b.read_text()) == ("2\n", "1\n")
    kind, message = refused(one)
    assert kind == "changed_since"
    assert message.endswith(f"after the turn: {a}")
    assert b.exists()
    assert revert(two) == {"restored": [str(a)], "removed": []}
    b.write_text("mine")
    assert refused(one) == ("changed_since", message.replace(str(a), str(b)))
    b.write_text("1\n")
    assert revert(one) == {"restored": [str(a)], "removed": [str(b)]}
    assert a.read_text() == "old\n"
    assert [path.name for path in machine.cwd.iterdir()] == ["a.txt"]
    nothing: Frame = {"restored": [], "removed": []}
    assert revert(one) == revert(idle) == nothing
    unknown = client.error("turn/revert", session_id=session, turn_id="nobody's")["data"]
    assert unknown["kind"] == "turn_not_found"
    assert unknown["hint"].startswith("those whose messages the conversation has")
    a.chmod(0o644)
    assert client.error("turn/revert", session_id="x", turn_id=one)["data"]["kind"] == "session_not_found"


def test_unsaved_files_are_left_alone_in_their_turn_by_prompts_and_those_that_steer(
    machine: Machine, client: Client
) -> None:
    os.mkfifo(machine.cwd / "pipe")
    session = client.session()
    dirty = turn(client, session, "dirty", dirty_files=[str(machine.cwd / "a.txt")])
    first, second = client.event("tool_result"), client.event("tool_result")
    assert first["is_error"]
    assert "a.txt has unsaved changes in the editor" in first["content"][0]["text"]
    assert not second["is_error"]
    assert (machine.cwd / "a.txt").read_text() == "old\n"
    assert client.call("turn/revert", session_id=session, turn_id=dirty)["removed"] == [
        str(machine.cwd / "c.txt")
    ]
    client.call("turn/start", session_id=session, text="wait")
    client.event("tool_call")
    error = client.error("turn/revert", session_id=session, turn_id=dirty)
    assert error["data"]["kind"] == "busy"
    steering = {"text": "and mind c", "if_busy": "steer", "dirty_files": ["c.txt"]}
    assert client.call("turn/start", session_id=session, **steering)["state"] == "steered"
    (machine.cwd / "pipe").write_text("go on")
    assert "go on" in client.event("tool_result")["content"][0]["text"]
    assert "c.txt has unsaved changes" in client.event("tool_result")["content"][0]["text"]
    client.event("done")
    assert not (machine.cwd / "c.txt").exists()
    error = client.error("turn/start", session_id=session, text="x", dirty_files=["a", ""])
    assert error["message"] == "turn/start: $.dirty_files[1]: expected a path, got ''"


def test_what_undoes_a_turn_and_what_was_set_outlive_the_daemon_and_go_with_the_session(
    machine: Machine,
) -> None:
    script = machine.script(
        *calls("one", write("a.txt", "1\n")),
        *calls("two", write("b.txt", "2\n")),
        {"reply": [{"text": "hi"}], "times": 0},
    )
    (machine.cwd / "a.txt").write_text("old\n")
    killed = machine.rpc(*script)
    killed.greet()
    session = killed.session()
    one, two = (turn(killed, session, text) for text in ("one", "two"))
    killed.call("session/set", session_id=session, model="other", reasoning="low")
    killed.signal(signal.SIGKILL)
    killed.exit_code()
    assert machine.left_running() == []

    client = machine.rpc(*script).greet()
    loaded = client.call("session/load", session_id=session)["session"]
    assert (loaded["model"], loaded["reasoning"]) == ("other", "low")
    undo = Path(loaded["path"]).with_suffix(".undo")
    assert stat.S_IMODE(undo.stat().st_mode) == 0o700
    answer = client.call("turn/revert", session_id=session, turn_id=one)
    assert answer == {"restored": [str(machine.cwd / "a.txt")], "removed": []}
    assert (machine.cwd / "a.txt").read_text() == "old\n"

    # A copy of the conversation has no copy of the files: what it cannot restore, it says.
    last = client.call("session/messages", session_id=session)["messages"][-1]["message_id"]
    copy = client.call("session/fork", session_id=session, message_id=last)["session"]["session_id"]
    assert client.error("turn/revert", session_id=copy, turn_id=two)["data"]["kind"] == "not_kept"
    assert client.error("turn/revert", session_id=copy, turn_id="x")["data"]["kind"] == "turn_not_found"
    client.call("session/delete", session_id=session)
    assert not undo.exists()
    assert (machine.cwd / "b.txt").exists()
