"""Saved sessions on disk: named as zot names them, found, listed, forked, imported, renamed, removed."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import stat
import uuid
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from zotd.agent.ports import NotKept
from zotd.base.limits import Limits
from zotd.protocol.content import Message, Text, ToolCall, Usage
from zotd.store.catalog import SessionStore, is_cursor
from zotd.store.errors import Ambiguous, BadSessionFile, NoMessage, NoSession, SessionLocked
from zotd.store.log import SessionLog
from zotd.wire.codec import decode

VECTOR = Path(__file__).parents[1] / "protocol" / "vectors" / "zot-session-file.jsonl"
LIMITS = Limits()
CWD = Path("/home/user/project")
SECONDS = count(1_700_000_000)
STARTED = "2026-11-30T03:43:15.576Z"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path, LIMITS)


def said(text: str, role: Any = "user") -> Message:
    return Message(role, [Text(text)], STARTED)


def save(store: SessionStore, *texts: str, cwd: Path = CWD, session_id: str = "", **more: Any) -> Path:
    """A session whose file is a second older than the one saved after it."""
    session_id = session_id or str(uuid.uuid4())
    path = store.new_path(cwd, session_id, STARTED)
    meta = {"id": session_id, "cwd": str(cwd), "provider": "scripted", "model": "m", "started": STARTED}
    log = SessionLog.new(path, {**meta, **more})
    for text in texts or ("hello",):
        log.message(said(text))
    log.close()
    os.utime(path, (second := next(SECONDS), second))
    return path


def ids(store: SessionStore, cwd: Path | None = None, after: str = "") -> list[str]:
    return [listed.row.session_id for listed in store.rows(cwd, after)]


def texts(store: SessionStore, path: Path) -> list[str]:
    return [message.text for message in store.read(path).messages]


def test_a_row_says_all_that_the_whole_file_says(store: SessionStore, tmp_path: Path) -> None:
    meta = {"id": "aaaabbbb-1111", "cwd": str(CWD), "provider": "scripted", "model": "m", "started": STARTED}
    log = SessionLog.new(path := store.new_path(CWD, "aaaabbbb-1111", STARTED), meta)
    log.use("scripted", "m", "high")
    for number in range(4):
        log.message(said(f"{number}"))
        log.usage(Usage(input=1), Usage(input=number + 1, output=7))
    log.compaction([said("summary"), said("3")])
    log.message(said("4"))
    log.close()
    row, saved = store.row(path), store.read(path)
    assert (row.message_count, row.last_message_id) == (len(saved.messages), saved.last_id) == (3, 7)
    assert (row.reasoning, row.usage, row.usage.input) == (saved.reasoning, saved.usage, 4)
    assert (row.reasoning, row.approval, row.ephemeral, row.trusted) == ("high", "auto", False, False)
    path.write_bytes(path.read_bytes().replace(b'{"type"', b'{ "type"'))
    slowly = SessionStore(tmp_path, LIMITS).row(path)
    assert replace(slowly, updated=row.updated) == row
    trusting = SessionStore(tmp_path, LIMITS, lambda folder: folder == CWD)
    assert [listed.row.trusted for listed in trusting.rows()] == [True]


def test_a_file_is_named_as_zot_names_it(store: SessionStore, tmp_path: Path) -> None:
    path = store.new_path(CWD, "8f37d5f6-56b2-4009-9483-54c62488e107", STARTED)
    folder = hashlib.sha256(b"/home/user/project").hexdigest()[:16]
    assert path == tmp_path / "sessions" / folder / "20261130-034315-8f37d5f6.jsonl"


def test_a_session_is_found_by_the_beginning_of_its_id_in_any_folder(store: SessionStore) -> None:
    one = save(store, session_id="aaaabbbb-1111-4000-8000-000000000001")
    two = save(store, session_id="aaaacccc-1111-4000-8000-000000000002", cwd=Path("/other"))
    assert store.find("aaaab") == store.find("aaaabbbb-1111-4000-8000-000000000001") == one
    assert store.find("aaaacccc-11") == two
    with pytest.raises(Ambiguous, match=r"aaaabbbb-1111.*, aaaacccc-1111"):
        store.find("aaaa")
    with pytest.raises(NoSession, match="no session 'aaaacccc-2' is saved"):
        store.find("aaaacccc-2")
    with pytest.raises(NoSession, match="at least 4 characters"):
        store.find("aaa")
    one.rename(renamed := one.with_name("kept.jsonl"))
    assert store.find("aaaabbbb") == renamed


@pytest.mark.parametrize("name", ["20261130-034315-aaaabbbbc", "20261130-034315-aaaabbbb (copy)", "kept"])
@pytest.mark.parametrize("copy", [shutil.copy, os.link])
def test_of_several_files_with_one_id_none_is_meant_by_it(store: SessionStore, copy: Any, name: str) -> None:
    one = save(store, session_id="aaaabbbb-1111-4000-8000-000000000001")
    save(store, session_id="aaaabbbb-2222-4000-8000-000000000002", cwd=Path("/other"))
    copy(one, other := one.with_name(f"{name}.jsonl"))
    both = ", ".join(sorted((str(one), str(other))))
    for session_id in ("aaaabbbb-1", "aaaabbbb-1111-4000-8000-000000000001"):
        with pytest.raises(Ambiguous) as refused:
            store.find(session_id)
        assert str(refused.value).endswith(f"are session aaaabbbb-1111-4000-8000-000000000001: {both}")
    with pytest.raises(Ambiguous, match="several sessions begin with"):
        store.find("aaaabbbb")


def test_the_latest_of_a_folder_is_the_one_changed_last_and_not_hidden(store: SessionStore) -> None:
    assert store.latest(CWD) is None
    first, second = save(store), save(store)
    save(store, hide_from_sessions=True)
    save(store, cwd=Path("/other"))
    bad = second.with_name("20261130-000000-00000000.jsonl")
    bad.write_text("")
    assert store.latest(CWD) == second
    os.utime(first)
    assert store.latest(CWD) == first
    assert ids(store, CWD) == [store.read(first).session_id, store.read(second).session_id]
    assert len(ids(store)) == 3


def test_a_row_says_what_the_file_says_last(store: SessionStore) -> None:
    path = save(store, "first line\nsecond " + "x" * 500, "b", title="old", parent="p", fork_point=3)
    log, _ = SessionLog.open(path, LIMITS)
    log.rename("new")
    log.use("local", "small", "")
    log.compaction([said("summary"), said("kept", "assistant")])
    log.message(said("c"))
    log.close()
    row = store.row(path)
    assert (row.title, row.provider, row.model, row.message_count) == ("new", "local", "small", 3)
    assert row.first_prompt is not None
    assert row.first_prompt.startswith("first line second xxx")
    assert len(row.first_prompt) == LIMITS.title_chars
    assert (row.created, row.parent, row.fork_point, row.open) == (STARTED, "p", 3, False)


@pytest.mark.parametrize("spell", [lambda data: data, lambda data: data.replace(b'","', b'", "')])
def test_a_list_says_the_same_of_a_file_however_it_is_spelled(store: SessionStore, spell: Any) -> None:
    path = store.new_path(CWD, "8f37d5f6-56b2-4009-9483-54c62488e107", STARTED)
    path.parent.mkdir(parents=True)
    path.write_bytes(spell(VECTOR.read_bytes()) + b'{"type":"message","mess')
    row = store.row(path)
    assert (row.session_id[:8], row.message_count) == ("8f37d5f6", 4)
    assert row.first_prompt == 'CALL read {"path":"a.txt"}'


def test_rows_go_on_behind_a_place_in_the_list(store: SessionStore) -> None:
    for _ in range(5):
        save(store)
    everything = [*store.rows()]
    assert [one.row.updated for one in everything] == sorted(
        (one.row.updated for one in everything), reverse=True
    )
    assert ids(store, after=everything[2].cursor) == [one.row.session_id for one in everything[3:]]
    assert ids(store, after=everything[4].cursor) == []


def test_a_fork_has_the_rows_up_to_a_message_as_they_stood(store: SessionStore) -> None:
    path = save(store, "a", "b")
    with path.open("ab") as file:
        file.write(b'{"type":"mine","n":1}\n')
    log, saved = SessionLog.open(path, LIMITS)
    log.message(said("c"))
    fork = store.fork(path, 3)  # though somebody writes it
    log.close()
    assert fork.read_bytes().splitlines()[1:] == path.read_bytes().splitlines()[1:]
    meta = store.read(fork).meta
    assert (meta["parent"], meta["fork_point"], meta["cwd"]) == (saved.session_id, 3, str(CWD))
    assert meta["id"] != saved.session_id
    assert fork.stem.endswith(meta["id"][:8])
    assert stat.S_IMODE(fork.stat().st_mode) == 0o600
    assert texts(store, store.fork(path, 1)) == ["a"]
    for absent in (0, -1, 4):
        with pytest.raises(NoMessage, match=f"no message {absent}; its last is 3"):
            store.fork(path, absent)


def test_a_fork_reaches_behind_and_into_a_compaction(store: SessionStore) -> None:
    path = save(store, "a", "b")
    log, _ = SessionLog.open(path, LIMITS)
    log.compaction([said("summary"), said("kept")])  # 3, 4
    log.message(said("c"))  # 5
    log.close()
    assert texts(store, store.fork(path, 2)) == ["a", "b"]
    assert texts(store, store.fork(path, 3)) == ["summary"]
    assert texts(store, store.fork(path, 4)) == ["summary", "kept"]
    assert texts(store, fork := store.fork(path, 5)) == ["summary", "kept", "c"]
    assert store.read(fork).first_id == 3


def test_an_import_is_a_session_of_its_own(store: SessionStore, tmp_path: Path) -> None:
    exported = tmp_path / "a.zotsession"
    shutil.copy(VECTOR, exported)
    exported.write_bytes(exported.read_bytes().replace(b'"cwd":"/home/user/project",', b"") + b'{"torn')
    for source in (exported, exported.read_bytes()):
        saved = store.read(store.import_file(source, CWD))
        assert (len(saved.messages), saved.cwd, saved.torn) == (4, CWD, b"")
        assert saved.session_id != "8f37d5f6-56b2-4009-9483-54c62488e107"
    assert len(ids(store, CWD)) == 2
    with pytest.raises(BadSessionFile, match=r"the text, line 1: malformed json"):
        store.import_file(b"hello\n", CWD)
    with pytest.raises(NoSession):
        store.import_file(tmp_path / "none", CWD)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "sessions").write_text("a file")
    with pytest.raises(NotKept):
        SessionStore(tmp_path / "elsewhere", LIMITS).import_file(exported, CWD)


def test_a_title_is_given_and_a_file_removed_unless_somebody_has_it_open(store: SessionStore) -> None:
    path = save(store)
    store.rename(path, "the parser")
    assert store.row(path).title == "the parser"
    assert decode(path.read_bytes().splitlines()[-1]) == {"type": "rename", "title": "the parser"}
    log, _ = SessionLog.open(path, LIMITS)
    with pytest.raises(SessionLocked):
        store.rename(path, "x")
    with pytest.raises(SessionLocked) as refused:
        store.delete(path)
    assert refused.value.pid == os.getpid()
    log.close()
    store.delete(path)
    assert not path.parent.exists()
    with pytest.raises(NoSession):
        store.delete(path)
    with pytest.raises(NoSession):
        store.row(path)


def test_calls_at_the_end_of_a_fork_wait_for_their_results(store: SessionStore) -> None:
    path = save(store)
    log, _ = SessionLog.open(path, LIMITS)
    log.message(Message("assistant", [ToolCall("c1", "bash", {})], STARTED))
    log.message(said("later", "tool"))
    log.close()
    assert store.read(store.fork(path, 2)).messages[-1].content == [ToolCall("c1", "bash", {})]


def test_copies_know_no_keys_of_prompts(store: SessionStore) -> None:
    path = save(store, "one")
    log, _ = SessionLog.open(path, LIMITS)
    keyed = replace(said("two"), meta={"turn_id": "t", "key": "k", "other": "o"})
    log.compaction([keyed])
    log.message(keyed)
    log.close()
    unkeyed = replace(keyed, meta={"turn_id": "t", "other": "o"})
    for copy in (
        store.fork(path, 3),
        store.import_file(path, CWD),
        store.import_file(path.read_bytes(), CWD),
    ):
        assert store.read(copy).messages == [unkeyed, unkeyed]
    assert store.read(path).messages == [keyed, keyed]


def test_pages_lose_nothing_that_was_changed_at_one_moment(store: SessionStore) -> None:
    for folder in range(4):
        path = save(store, cwd=Path(f"/p{folder}"), session_id=f"aaaabbbb-{folder}")
        os.utime(path, ns=(5, 5))
    os.utime(save(store, session_id="older"), ns=(-5, -5))
    after, seen = "", []
    while page := list(store.rows(None, after))[:1]:
        seen += [page[0].row.session_id]
        after = page[0].cursor
        assert is_cursor(after)
    assert sorted(seen) == [*(f"aaaabbbb-{folder}" for folder in range(4)), "older"]
    assert seen[-1] == "older"


def test_who_deletes_by_a_link_deletes_the_session(store: SessionStore, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(path := save(store))
    beside = path.with_suffix(".undo")
    beside.symlink_to(kept := tmp_path / "kept")
    kept.mkdir()
    store.delete(link)
    assert [*path.parent.parent.iterdir(), *kept.iterdir()] == []
    assert not link.is_symlink()


def test_what_cannot_be_read_for_a_moment_is_listed_afterwards(store: SessionStore) -> None:
    path = save(store, session_id="aaaabbbb")
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open("/", os.O_RDONLY)]
    store.latest(Path("/elsewhere"))  # all that has to be imported is
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0], descriptors[1]))
    try:
        with pytest.raises(BadSessionFile):
            store.row(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
        os.close(taken[0])
    assert store.row(path).session_id == "aaaabbbb"
