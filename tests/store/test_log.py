"""An open session file: when it is made, who may write it, and what a full disk or a crash leaves."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from zotd.agent.ports import NotKept
from zotd.base.limits import Limits
from zotd.protocol.content import Message, Text, Usage
from zotd.store.errors import BadSessionFile, NoSession, SessionLocked
from zotd.store.log import SessionLog, read_saved, real_path, remove_beside, torn_path, undo_path
from zotd.wire.codec import decode

LIMITS = Limits()
META = {"id": "abcdef12-3456", "cwd": "/p", "provider": "scripted", "model": "m", "started": "t"}


def said(text: str) -> Message:
    return Message("user", [Text(text)], "2026-11-30T03:43:15.576Z")


def new(path: Path, reasoning: str = "") -> SessionLog:
    return SessionLog.new(path, META, reasoning)


def kinds(path: Path) -> list[str]:
    return [decode(line)["type"] for line in path.read_bytes().splitlines()]


def test_a_session_without_a_message_leaves_no_file(tmp_path: Path) -> None:
    log = new(tmp_path / "sub" / "a.jsonl")
    log.rename("title")
    log.use("scripted", "other", "")
    log.flush()
    log.close()
    assert not log.saved
    assert [*tmp_path.iterdir()] == []


def test_the_first_message_makes_a_file_for_the_user_alone(tmp_path: Path) -> None:
    log = new(path := tmp_path / "x" / "y" / "a.jsonl", reasoning="high")
    log.rename("title")
    log.message(said("one"))
    assert kinds(path) == ["meta", "model", "rename", "message"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)} == {0o700}
    log.usage(Usage(input=1), Usage(input=3))
    log.compaction([said("two")])
    log.close()
    _, saved = SessionLog.open(path, LIMITS)
    assert saved.messages == [said("two")]
    assert (saved.usage, saved.title, saved.reasoning, saved.first_id) == (Usage(input=3), "title", "high", 2)


def test_a_second_writer_is_refused_and_told_which_process_writes(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    program = (
        "import sys; from pathlib import Path; from zotd.base.limits import Limits\n"
        "from zotd.store.log import SessionLog\n"
        "try: SessionLog.open(Path(sys.argv[1]), Limits())\n"
        "except Exception as refused: print(type(refused).__name__, refused)\n"
    )
    run = [sys.executable, "-c", program, str(path)]
    answer = subprocess.run(run, capture_output=True, text=True, check=True)
    assert answer.stdout == f"SessionLocked process {os.getpid()} has the session open: {path}\n"
    with pytest.raises(SessionLocked):
        SessionLog.open(path, LIMITS)
    log.close()
    again, saved = SessionLog.open(path, LIMITS)
    assert saved.messages == [said("one")]
    again.close()


def test_a_line_that_was_cut_off_is_set_aside_and_the_next_row_begins_a_line(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    log.close()
    for torn in (b'{"type":"mess', b"\x00\xff"):
        with path.open("ab") as file:
            file.write(torn)
        log, saved = SessionLog.open(path, LIMITS)
        assert saved.torn == torn
        log.close()
    assert torn_path(path).read_bytes() == b'{"type":"mess\n\x00\xff\n'
    log, _ = SessionLog.open(path, LIMITS)
    log.message(said("two"))
    log.close()
    assert read_saved(path, LIMITS).messages == [said("one"), said("two")]


def test_a_last_row_without_a_line_end_is_kept_whole(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    log.close()
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    log, _ = SessionLog.open(path, LIMITS)
    log.message(said("two"))
    log.close()
    assert read_saved(path, LIMITS).messages == [said("one"), said("two")]
    assert not torn_path(path).exists()


def test_what_a_full_disk_refused_is_taken_back_whole_and_written_first_the_next_time(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: both cut a write in its middle."""
    program = """
import resource, sys
from pathlib import Path
from zotd.agent.ports import NotKept
from zotd.protocol.content import Message, Text
from zotd.store.log import SessionLog
path = Path(sys.argv[1])
def said(text): return Message("user", [Text(text)], "t")
log = SessionLog.new(path, {"id": "abcdef", "provider": "p", "model": "m"})
def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
limit(10)
try: log.message(said("one"))
except NotKept as refused: print(refused.reason, path.exists())
limit(1000)
log.message(said("two"))
whole = path.read_bytes()
try: log.message(said("x" * 1000))
except NotKept as refused: print(refused.reason, path.read_bytes() == whole)
try: log.message(said("three"))
except NotKept as refused: print(refused.kind, path.read_bytes() == whole)
try: log.compaction([said("gist")], or_never=True)
except NotKept as refused: print(refused.kind, path.read_bytes() == whole)
limit(10000)
log.message(said("four"))
"""
    run = [sys.executable, "-c", program, str(path := tmp_path / "a.jsonl")]
    answer = subprocess.run(run, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [
        "File too large False",
        "File too large True",
        *["storage True"] * 2,
    ]
    texts = [message.text for message in read_saved(path, LIMITS).messages]
    assert texts == ["one", "two", "x" * 1000, "three", "four"]


def test_a_file_that_somebody_removed_is_not_written_into_nowhere(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    path.unlink()
    with pytest.raises(NotKept, match="was removed while the session had it open") as refused:
        log.message(said("two"))
    assert refused.value.path == path
    log.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").write_text("a file")
    log = new(tmp_path / "sub" / "a.jsonl")
    with pytest.raises(NotKept, match=r"sub/a\.jsonl cannot be written: "):
        log.message(said("one"))
    (tmp_path / "sub").unlink()
    log.message(said("two"))
    log.close()
    assert [message.text for message in read_saved(log.path, LIMITS).messages] == ["one", "two"]


def test_a_file_that_somebody_else_made_meanwhile_is_not_mixed_up(tmp_path: Path) -> None:
    one, two = new(path := tmp_path / "a.jsonl"), new(path)
    one.message(said("one"))
    one.close()
    with pytest.raises(NotKept, match="somebody else"):
        two.message(said("two"))
    assert read_saved(path, LIMITS).messages == [said("one")]


def test_what_is_no_session_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NoSession, match="no session file"):
        SessionLog.open(tmp_path / "none.jsonl", LIMITS)
    with pytest.raises(BadSessionFile, match="cannot be read: Is a directory"):
        SessionLog.open(tmp_path, LIMITS)
    (tmp_path / "other.jsonl").write_text('{"type":"theme"}\n')
    with pytest.raises(BadSessionFile, match=r"other\.jsonl, line 1: expected the row `meta`, got `theme`"):
        SessionLog.open(tmp_path / "other.jsonl", LIMITS)
    assert (tmp_path / "other.jsonl").read_text() == '{"type":"theme"}\n'


def test_a_change_of_the_model_that_cannot_be_written_never_is(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    aside = path.rename(tmp_path / "aside")
    with pytest.raises(NotKept):
        log.use("scripted", "m", "low")
    aside.rename(path)
    log.message(said("two"))
    assert kinds(path) == ["meta", "message", "message"]
    log.use("scripted", "m", "low")
    assert kinds(path)[-1] == "model"
    log.close()


def test_a_change_of_the_model_is_written_once(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    log.use("scripted", "m", "")
    assert kinds(path) == ["meta", "message"]
    log.use("scripted", "m", "low")
    log.use("scripted", "m", "low")
    assert kinds(path) == ["meta", "message", "model"]
    log.close()


def test_a_file_that_was_replaced_cut_or_removed_is_not_written_until_it_is_back(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    aside = path.rename(tmp_path / "a.bak")
    with pytest.raises(NotKept, match="it was removed while the session had it open"):
        log.message(said("two"))
    path.write_bytes(copy := aside.read_bytes())
    with pytest.raises(NotKept, match="another file was put in its place"):
        log.message(said("three"))
    assert (path.read_bytes(), aside.read_bytes()) == (copy, copy)
    aside.rename(path)
    log.message(said("four"))
    assert [message.text for message in read_saved(path, LIMITS).messages] == ["one", "two", "three", "four"]
    os.truncate(path, len(copy))
    with pytest.raises(NotKept, match=rf"cut it from \d+ bytes to {len(copy)} while"):
        log.message(said("five"))
    assert path.read_bytes() == copy
    log.close()


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    log = SessionLog.new(path := tmp_path / "a.jsonl", META, "", Limits(session_bytes=600, row_bytes=300))
    log.message(said("one"))
    before = path.read_bytes()
    with pytest.raises(NotKept, match="one row has at most 300 bytes, this would have"):
        log.compaction([said("x" * 300)], or_never=True)
    with pytest.raises(NotKept, match="a session has at most 600 bytes, this would have"):
        for _ in range(6):
            log.compaction([said("y" * 100)], or_never=True)
    assert path.read_bytes().startswith(before)
    log.close()
    assert path.stat().st_size <= 600
    assert read_saved(path, LIMITS).messages == [said("y" * 100)]


def test_of_a_long_tail_that_is_no_row_the_beginning_is_set_aside(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    log.close()
    size = path.stat().st_size
    os.truncate(path, size + (1 << 26))
    log, saved = SessionLog.open(path, bounds := Limits(row_bytes=1_000))
    assert (len(saved.torn), saved.torn_size) == (1_000, 1 << 26)
    log.message(said("two"))
    log.close()
    assert torn_path(path).read_bytes() == bytes(1_000) + b"\n"
    assert read_saved(path, bounds).messages == [said("one"), said("two")]


def test_a_path_that_leads_nowhere_is_told_of_in_words(tmp_path: Path) -> None:
    circle = tmp_path / "circle.jsonl"
    circle.symlink_to(circle)
    for path, kind in (
        (circle, BadSessionFile),
        (tmp_path / ("x" * 300), BadSessionFile),
        (tmp_path / "a\0b", NoSession),
        (Path("/proc/self/mem"), BadSessionFile),
    ):
        with pytest.raises(kind):
            SessionLog.open(real_path(path), LIMITS)
        with pytest.raises(kind):
            read_saved(path, LIMITS)


@pytest.mark.parametrize("written", [False, True])
def test_what_comes_after_the_end_makes_no_file(tmp_path: Path, written: bool) -> None:
    log = new(path := tmp_path / "a.jsonl")
    if written:
        log.message(said("one"))
    log.close()
    before = path.read_bytes() if written else b""
    path.unlink(missing_ok=True)
    message = partial(log.message, said("late"))
    use = partial(log.use, "scripted", "late", "")
    for late in (message, partial(log.rename, "late"), partial(log.compaction, []), use):
        with pytest.raises(NotKept, match="closed"):
            late()
    log.flush()
    assert not path.exists()
    assert bool(before) is written


def test_a_file_that_was_removed_on_purpose_takes_its_companions_along_and_nothing_more_in(
    tmp_path: Path,
) -> None:
    log = new(path := tmp_path / "folder" / "a.jsonl")
    log.message(said("one"))
    torn_path(path).write_text("torn")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    undo_path(path).symlink_to(elsewhere)
    log.remove()
    assert (log.removed, path.exists()) == (True, False)
    log.message(said("late"))
    log.close()
    remove_beside(path)
    assert [*tmp_path.iterdir()] == [elsewhere]


def test_a_file_that_cannot_be_removed_goes_on(tmp_path: Path) -> None:
    log = new(path := tmp_path / "a.jsonl")
    log.message(said("one"))
    aside = path.rename(tmp_path / "aside")
    path.mkdir()
    with pytest.raises(NotKept):
        log.remove()
    path.rmdir()
    path.write_text("another's")
    for refused in (log.remove, log.check_place):
        with pytest.raises(NotKept, match="another file was put in its place"):
            refused()
    assert path.read_text() == "another's"
    aside.rename(path)
    log.message(said("two"))
    log.close()
    assert [message.text for message in read_saved(path, LIMITS).messages] == ["one", "two"]
