"""Sessions that last: over restarts, between daemons, from zot and back, copied, named, listed, removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from tests.clients import Client, Frame, Machine, types

VECTOR = Path(__file__).parents[1] / "protocol" / "vectors" / "zot-session-file.jsonl"
ROWS = {"meta", "message", "usage", "compaction", "rename"}
"""Types of rows that zot knows."""
ZOT_FIELDS = {"role", "content", "time", "meta", "added_tool_names"}


def files(machine: Machine) -> list[Path]:
    return sorted((machine.home / "sessions").glob("*/*.jsonl"))


def rows(path: Path) -> list[Frame]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def turn(client: Client, session_id: str, text: str, **params: Any) -> Frame:
    turn_id = client.call("turn/start", session_id=session_id, text=text, **params)["turn_id"]
    return {"turn_id": turn_id, **client.call("turn/wait", session_id=session_id, turn_id=turn_id)}


def said(client: Client, session_id: str) -> list[tuple[str, str]]:
    page = client.call("session/messages", session_id=session_id)["messages"]
    return [
        (message["role"], "".join(block.get("text", "") for block in message["content"])) for message in page
    ]


def test_a_session_of_zot_goes_on_and_stays_one_of_zot(machine: Machine) -> None:
    path = machine.root / "zot.jsonl"
    path.write_bytes(VECTOR.read_bytes())
    before = rows(path)
    client = machine.rpc("--provider", "scripted").greet()
    session = client.call("session/load", path=str(path))["session"]
    assert session["session_id"] == "8f37d5f6-56b2-4009-9483-54c62488e107"
    assert (session["provider"], session["path"], session["ephemeral"]) == ("scripted", str(path), False)
    assert (session["message_count"], session["last_message_id"], session["usage"]["input"]) == (4, 4, 20)
    ended = turn(client, session["session_id"], "and now")
    assert ended["text"] == "You said: and now"
    page = client.call("session/messages", session_id=session["session_id"], since=4)["messages"]
    assert [(row["message_id"], row["turn_id"]) for row in page] == [
        (5, ended["turn_id"]),
        (6, ended["turn_id"]),
    ]
    after = rows(path)
    assert after[: len(before)] == before
    added = after[len(before) :]
    assert [row["type"] for row in added] == ["model", "message", "usage", "message"]
    assert added[2]["cumulative"]["input_tokens"] == 20 + added[2]["usage"]["input_tokens"]
    for row in added:
        if row["type"] == "message":
            assert set(row["message"]) <= ZOT_FIELDS
            assert all(set(block) == {"text"} for block in row["message"]["content"])


def test_everything_is_there_after_a_daemon_was_killed(machine: Machine) -> None:
    script = machine.script(
        {
            "match": "tool",
            "reply": [{"thinking": "hm"}, {"tool_call": {"name": "bash", "args": {"command": "echo hi"}}}],
        },
        {"reply": [{"text": "done"}], "times": 0},
    )
    client = machine.rpc(*script)
    session_id = client.greet().session(reasoning="high")
    assert files(machine) == []
    turn(client, session_id, "use a tool", key="k1")
    client.call("session/rename", session_id=session_id, title="the  parser")
    state = client.call("session/state", session_id=session_id)["session"]
    messages = client.call("session/messages", session_id=session_id)
    [path] = files(machine)
    assert state["path"] == str(path)
    client.signal(signal.SIGKILL)
    client.exit_code()

    client = machine.rpc(*script)
    client.greet()
    assert client.error("session/state", session_id=session_id)["data"]["kind"] == "session_not_found"
    for found in ({"session_id": session_id[:6]}, {"path": str(path)}, {"latest": True}):
        session = client.call("session/load", **found)["session"]
        for name in ("session_id", "path", "title", "cwd", "model", "reasoning", "created", "usage"):
            assert session[name] == state[name], name
        assert (session["message_count"], session["last_message_id"]) == (4, 4)
        assert session["epoch"] != state["epoch"]
    assert client.call("session/messages", session_id=session_id) == messages
    again = turn(client, session_id, "use a tool", key="k1")
    assert again["turn_id"] == messages["messages"][0]["turn_id"]
    assert again["text"] == "done"
    assert turn(client, session_id, "more", key="k2")["text"] == "done"
    assert len(said(client, session_id)) == 6
    assert session["title"] == "the parser"


def test_what_a_crash_left_is_mended_and_told(machine: Machine) -> None:
    call = {"id": "c1", "name": "bash", "arguments": {"command": "sleep 9"}}
    path = machine.root / "cut.jsonl"
    path.write_bytes(VECTOR.read_bytes())
    with path.open("a") as file:
        file.write(
            json.dumps({"type": "message", "message": {"role": "assistant", "content": [call], "time": "t"}})
        )
        file.write('\nno row\n{"type":"mess')
    client = machine.rpc("--provider", "scripted").greet()
    session = client.call("session/load", path=str(path))["session"]
    session_id = session["session_id"]
    gone, *notes = [note["text"] for note in session["notes"]]
    assert len(notes) == 3
    assert gone.startswith("there is no folder /home/user/project, where this session worked")
    assert notes[0] == f"the last line of {path} was cut off: its 13 bytes are set aside in {path}.torn"
    assert notes[1].startswith(f"line 8 of {path} is left out: malformed json")
    assert notes[2] == "the conversation ends with a call that has no result: it counts as interrupted"
    assert Path(f"{path}.torn").read_text() == '{"type":"mess\n'
    assert said(client, session_id)[5:] == [("tool", "")]
    turn(client, session_id, "go on")
    added = rows_after(path, "no row")
    assert [row["type"] for row in added] == ["model", "message", "message", "usage", "message"]
    assert added[1]["message"]["content"] == [
        {"call_id": "c1", "content": [{"text": "interrupted"}], "is_error": True}
    ]


def test_a_fork_in_the_middle_of_a_turn_says_so(machine: Machine) -> None:
    calls = [{"tool_call": {"name": "bash", "args": {"command": f"echo {number}"}}} for number in (1, 2)]
    _, socket = machine.listen(*machine.script({"reply": calls}, {"reply": [{"text": "done"}], "times": 0}))
    client = machine.connect(socket).greet()
    for options in ({}, {"ephemeral": True}):
        source = client.session(**options)
        turn(client, source, "use tools")
        other = machine.connect(socket).greet()
        state = other.call("session/fork", session_id=source, message_id=2)["session"]
        fork = state["session_id"]
        notes = [note["text"] for note in state["notes"]] or [other.event("ext_notify")["message"]]
        note = "the conversation ends with 2 calls that have no result: they count as interrupted"
        assert notes == [note]
        assert [row[0] for row in said(other, fork)] == ["user", "assistant", "tool"]


def test_an_open_session_from_elsewhere_is_in_the_list(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted").greet()
    path = machine.root / "elsewhere.jsonl"
    path.write_bytes(VECTOR.read_bytes())
    session = client.call("session/load", path=str(path))["session"]
    turn(client, client.session(), "hello")
    listed = client.call("session/list")["sessions"]
    assert [row["session_id"] for row in listed].count(session["session_id"]) == 1
    assert len(listed) == 2
    mine = client.call("session/list", cwd=session["cwd"])["sessions"]
    assert session["session_id"] in [row["session_id"] for row in mine]
    first = client.call("session/list", limit=1)
    rest = client.call("session/list", cursor=first["next_cursor"])
    assert [*first["sessions"], *rest["sessions"]] == listed
    client.call("session/close", session_id=session["session_id"])
    assert len(client.call("session/list")["sessions"]) == 1


def test_copies_of_a_session_are_listed_each_and_meant_by_their_files(machine: Machine) -> None:
    client = machine.rpc().greet()
    this = {"session_id": client.session()}
    turn(client, this["session_id"], "hello")
    [path] = files(machine)
    copies = {path.with_name("copy.jsonl"), path.with_name("link.jsonl")}
    shutil.copy(path, min(copies))
    os.link(path, max(copies))

    def listed() -> dict[Path, bool]:
        listed = client.call("session/list")["sessions"]
        assert {row["session_id"] for row in listed} == set(this.values())
        assert len({row["path"] for row in listed}) == len(listed)
        return {Path(row["path"]): row["open"] for row in listed}

    assert listed() == {path: True, **dict.fromkeys(copies, False)}
    client.call("session/close", **this)
    for method, params in (
        ("session/load", {}),
        ("session/delete", {}),
        ("session/rename", {"title": "new"}),
        ("session/fork", {"message_id": 1}),
    ):
        error = client.error(method, **this, **params)
        assert error["data"]["kind"] == "session_not_found"
        assert all(str(each) in error["message"] for each in (path, *copies))
    assert listed() == dict.fromkeys((path, *copies), False)
    for copy in copies:
        assert client.call("session/load", path=str(copy))["session"]["path"] == str(copy)
        assert listed()[copy]
        client.call("session/delete", **this)
    assert listed() == {path: False}
    assert client.call("session/load", **this)["session"]["path"] == str(path)


def rows_after(path: Path, line: str) -> list[Frame]:
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(row) for row in lines[lines.index(line) + 1 :]]


def test_one_process_has_a_session_and_the_other_is_told_which(machine: Machine) -> None:
    first = machine.rpc()
    session_id = first.greet().session()
    turn(first, session_id, "hello")
    second = machine.rpc().greet()
    for method in ("session/load", "session/attach", "session/delete"):
        error = second.error(method, session_id=session_id)
        assert error["data"]["kind"] == "session_locked"
        assert f"process {first.popen.pid} has the session open" in error["message"]
    assert (
        second.error("session/rename", session_id=session_id, title="x")["data"]["kind"] == "session_locked"
    )
    fork = second.call("session/fork", session_id=session_id, message_id=1)["session"]
    assert said(second, fork["session_id"]) == [("user", "hello")]
    first.call("session/close", session_id=session_id)
    attached = second.call("session/attach", session_id=session_id)
    assert attached["session"]["message_count"] == 2
    assert turn(second, session_id, "mine now")["text"] == "You said: mine now"


def test_two_clients_share_what_either_loads(machine: Machine) -> None:
    _, path = machine.listen()
    one, two = (machine.connect(path).greet() for _ in range(2))
    session_id = one.session()
    turn(one, session_id, "hello")
    one.call("session/close", session_id=session_id)
    asked = [client.request("session/load", session_id=session_id) for client in (one, two, one, two)]
    loaded = [
        client.reply(number)["result"]["session"]
        for client, number in zip((one, two) * 2, asked, strict=True)
    ]
    assert len({session["epoch"] for session in loaded}) == 1
    turn(one, session_id, "both")
    assert one.event("user_message")["content"][0]["text"] == "hello"
    assert [client.event("user_message")["content"][0]["text"] for client in (one, two)] == ["both"] * 2


def test_a_fork_and_an_import_are_sessions_of_their_own(machine: Machine) -> None:
    client = machine.rpc().greet()
    for options in ({}, {"ephemeral": True}):
        source = client.session(**options)
        turn(client, source, "one")
        turn(client, source, "two")
        fork = client.call("session/fork", session_id=source, message_id=3)["session"]
        assert fork["session_id"] != source
        assert fork["ephemeral"] == bool(options)
        assert said(client, fork["session_id"]) == [
            ("user", "one"),
            ("assistant", "You said: one"),
            ("user", "two"),
        ]
        turn(client, fork["session_id"], "three")
        assert len(said(client, source)) == 4
        assert (
            client.error("session/fork", session_id=source, message_id=9)["data"]["kind"]
            == "message_not_found"
        )
    assert len(files(machine)) == 2
    listed = client.call("session/list")["sessions"]
    assert {(row.get("parent") is not None, row.get("fork_point")) for row in listed if "path" in row} == {
        (True, 3),
        (False, None),
    }
    exported = VECTOR.read_text().replace('"cwd":"/home/user/project",', "")
    (machine.root / "a.zotsession").write_text(exported)
    for source_of in ({"content": exported}, {"path": str(machine.root / "a.zotsession")}):
        imported = client.call("session/import", **source_of, cwd=str(machine.cwd))["session"]
        assert (imported["message_count"], imported["cwd"]) == (4, str(machine.cwd))
        assert turn(client, imported["session_id"], "on")["stop"] == "end_turn"
    assert client.error("session/import", content="[]\n")["data"]["kind"] == "bad_session_file"
    assert client.error("session/import")["data"]["kind"] == "invalid_params"
    assert client.error("session/load")["data"]["kind"] == "invalid_params"


def test_sessions_are_listed_named_and_removed(machine: Machine) -> None:
    _, socket = machine.listen()
    client = machine.connect(socket).greet()
    saved = []
    for text in ("a", "b", "c"):
        saved.append(client.session())
        turn(client, saved[-1], text)
    empty, hidden = client.session(), client.session(ephemeral=True)
    turn(client, hidden, "secret")
    client.call("session/close", session_id=saved[0])
    page, seen = client.call("session/list", limit=2), []
    while True:
        seen += page["sessions"]
        if "next_cursor" not in page:
            break
        page = client.call("session/list", limit=2, cursor=page["next_cursor"])
    by_id = {row["session_id"]: row for row in seen}
    assert len(seen) == 5
    assert [row["updated"] for row in seen] == sorted((row["updated"] for row in seen), reverse=True)
    assert {name for name, row in by_id.items() if "path" not in row} == {empty, hidden}
    assert [by_id[name]["open"] for name in saved] == [False, True, True]
    assert [by_id[name]["first_prompt"] for name in saved] == ["a", "b", "c"]
    assert by_id[hidden]["ephemeral"] is True
    assert len(client.call("session/list", cwd=str(machine.cwd))["sessions"]) == 5
    assert client.call("session/list", cwd="/")["sessions"] == []

    assert client.call("session/rename", session_id=saved[0], title="first")["session"]["title"] == "first"
    assert client.call("session/rename", session_id=saved[1], title="second")["session"]["title"] == "second"
    assert client.event("session_changed")["session"]["title"] == "second"
    titles = {row["session_id"]: row.get("title") for row in client.call("session/list")["sessions"]}
    assert [titles[name] for name in saved] == ["first", "second", None]
    assert (
        client.error("session/rename", session_id=empty, title="x" * 201)["data"]["kind"] == "invalid_params"
    )

    for name in (*saved, empty, hidden):
        client.call("session/delete", session_id=name)
    assert client.call("session/list")["sessions"] == []
    assert files(machine) == []
    assert client.error("session/delete", session_id=saved[0])["data"]["kind"] == "session_not_found"
    assert client.error("session/load", latest=True)["data"]["kind"] == "session_not_found"


def test_a_provider_that_is_not_here_is_said_and_can_be_mended(machine: Machine) -> None:
    path = machine.root / "zot.jsonl"
    path.write_bytes(VECTOR.read_bytes())
    daemon = machine.start("rpc").greet()
    session = daemon.call("session/load", path=str(path))["session"]
    assert (session["provider"], session["model"]) == ("anthropic", "claude-sonnet-4-5")
    refused = daemon.error("turn/start", session_id=session["session_id"], text="hello")
    assert refused["data"]["kind"] == "provider_auth"
    assert "The session used provider anthropic, model claude-sonnet-4-5" in refused["message"]
    daemon.call("session/set", session_id=session["session_id"], provider="scripted")
    assert turn(daemon, session["session_id"], "hello")["text"] == "You said: hello"
    daemon.call("session/close", session_id=session["session_id"])
    again = machine.start("rpc").greet().call("session/load", path=str(path))["session"]
    assert (again["provider"], again["model"]) == ("scripted", "scripted")


def test_an_emptied_conversation_stays_so_and_its_ids_go_on(machine: Machine) -> None:
    client = machine.rpc().greet()
    session_id = client.session()
    turn(client, session_id, "one")
    client.call("session/clear", session_id=session_id)
    client.call("session/close", session_id=session_id)
    session = client.call("session/attach", session_id=session_id)["session"]
    assert (session["message_count"], session["last_message_id"]) == (0, 2)
    turn(client, session_id, "two")
    assert ids(client, session_id) == [3, 4]
    [path] = files(machine)
    assert {row["type"] for row in rows(path)} <= ROWS


def test_a_turn_that_cannot_be_written_down_fails_and_is_caught_up_with(machine: Machine) -> None:
    client = machine.rpc().greet()
    session_id = client.session()
    (folder := machine.home / "sessions").write_text("in the way")
    failed = turn(client, session_id, "one")
    assert (failed["stop"], failed["error"]["kind"]) == ("error", "storage")
    assert "cannot be written" in failed["error"]["message"]
    assert client.event("error")["kind"] == "storage"
    assert "user_message" not in types(client.events)
    folder.unlink()
    assert turn(client, session_id, "two")["text"] == "You said: two"
    [path] = files(machine)
    kept = [row["message"] for row in rows(path) if row["type"] == "message"]
    assert [message["content"][0]["text"] for message in kept] == ["one", "two", "You said: two"]
    assert ids(client, session_id) == [1, 2, 3]


def test_what_cannot_be_gone_on_with_is_said_in_words(machine: Machine) -> None:
    client = machine.rpc().greet()
    circle = machine.root / "circle.jsonl"
    circle.symlink_to(circle)
    for wrong in (str(circle), str(machine.root)):
        assert client.error("session/load", path=wrong)["data"]["kind"] == "bad_session_file"
    for wrong in ("/a\0b", str(machine.root / ("x" * 300))):
        assert client.error("session/load", path=wrong)["data"]["kind"] == "session_not_found"
    for wrong in (str(circle), str(machine.root / ("x" * 300)), "/a\0b", "/proc/self/mem"):
        assert client.error("session/import", path=wrong)["data"]["kind"] == "bad_session_file"
    path = machine.root / "zot.jsonl"
    for gone in (str(machine.root / "gone"), "/" + "x" * 5_000):
        session_id = gone[-8:]
        meta = {
            "type": "meta",
            "meta": {"id": session_id, "cwd": gone, "provider": "scripted", "model": "scripted"},
        }
        path.write_text(json.dumps(meta) + "\n")
        session = client.call("session/load", path=str(path))["session"]
        assert session["cwd"] == str(machine.cwd)
        (note,) = session["notes"]
        assert note["text"] == (
            f"there is no folder {gone}, where this session worked: it works in {machine.cwd} now"
        )
        client.call("session/close", session_id=session_id)


def test_the_session_is_deleted_whatever_link_it_was_loaded_by(machine: Machine) -> None:
    client = machine.rpc().greet()
    older, newer = client.session(ephemeral=False), client.session(ephemeral=False)
    for session_id in (older, newer):
        turn(client, session_id, "hello")
        client.call("session/close", session_id=session_id)
    session = client.call("session/load", latest=True)["session"]
    client.call("session/close", session_id=session["session_id"])
    link = machine.root / "link.jsonl"
    link.symlink_to(session["path"])
    by_link = client.call("session/load", path=str(link))["session"]
    assert (by_link["session_id"], by_link["path"]) == (session["session_id"], session["path"])
    deleting = client.request("session/delete", session_id=session["session_id"])
    latest = client.request("session/load", latest=True)
    assert client.reply(latest)["result"]["session"]["session_id"] in (older, newer)
    client.reply(deleting)
    assert not Path(session["path"]).exists()


def test_pages_of_messages_fit_a_frame(machine: Machine) -> None:
    script = machine.script(
        {"match": "look", "reply": [{"tool_call": {"name": "read", "args": {"path": "p"}}}] * 3},
        {"reply": [{"text": "ok"}], "times": 0},
    )
    client = machine.rpc(*script).greet()
    session_id = client.session()
    (machine.cwd / "p").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(4 << 20))
    picture = {"mime_type": "image/png", "path": str(machine.cwd / "p")}
    turn(client, session_id, "one", images=[picture, picture])
    turn(client, session_id, "look")
    turn(client, session_id, "two", images=[picture, picture])
    pages: list[list[Frame]] = []
    since: int | None = 0
    while since is not None:
        page = client.call("session/messages", session_id=session_id, since=since)
        pages.append(page["messages"])
        since = page.get("next")
    assert [[row["message_id"] for row in page] for page in pages] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    [told] = {block["content"][-1]["text"] for block in pages[1][0]["content"]}
    assert told.startswith("[a picture of 5592")


def ids(client: Client, session_id: str) -> list[int]:
    page = client.call("session/messages", session_id=session_id)["messages"]
    return [message["message_id"] for message in page]


def test_what_cannot_be_written_down_changes_nothing(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted").greet()
    session_id = client.session()
    turn(client, session_id, "hello")
    [path] = files(machine)
    before = client.call("session/state", session_id=session_id)["session"]
    aside = path.rename(machine.root / "aside")
    path.write_bytes(aside.read_bytes())
    for method, params in (
        ("session/clear", {}),
        ("session/rename", {"title": "new"}),
        ("session/set", {"reasoning": "high"}),
        ("session/set", {"model": "another", "reasoning": "low"}),
        ("session/fork", {"message_id": 2}),
        ("session/delete", {}),
    ):
        error = client.error(method, session_id=session_id, **params)
        assert error["data"]["kind"] == "storage", method
    assert client.call("session/state", session_id=session_id)["session"] == before
    assert path.read_bytes() == aside.read_bytes()
    aside.rename(path)
    assert turn(client, session_id, "go on")["text"] == "You said: go on"
    assert [row["type"] for row in rows(path)].count("rename") == 0
    assert [row["type"] for row in rows(path)].count("model") == 0
    client.call("session/delete", session_id=session_id)
    assert not path.parent.exists()
