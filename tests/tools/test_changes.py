"""What the tools that change files refuse and keep, and how a turn is undone."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from zotd.agent.ports import ToolFailed
from zotd.base.limits import Limits
from zotd.protocol.content import ToolCall
from zotd.tools.changes import ChangedSince, Changes, Reverted, TurnNotKept
from zotd.tools.edit import EditTool
from zotd.tools.undo import Row
from zotd.tools.write import WriteTool


def _silent(text: str) -> None:
    raise AssertionError(text)


class Folder:
    """A session's folder, what is kept of its turns, and its two tools that change files."""

    def __init__(self, root: Path, kept: Path | None) -> None:
        self.cwd = root / "work"
        self.cwd.mkdir()
        self.kept = kept
        (root / "s").mkdir()
        self.reopen()

    def reopen(self, **limits: int) -> None:
        """Forget all that is not on disk, as a daemon that is started again does."""
        self.limits = replace(Limits(), **limits)
        self.changes = Changes(self.cwd, self.limits, self.kept)
        environ = {"HOME": str(self.cwd)}
        self._write = WriteTool(self.cwd, environ, self.limits, self.changes)
        self._edit = EditTool(self.cwd, environ, self.limits, self.changes)

    def write(self, path: str, content: str) -> None:
        call = ToolCall("c", "write", {"path": path, "content": content})
        asyncio.run(self._write.run(call, _silent))

    def edit(self, path: str, old: str, new: str) -> None:
        edits = [{"oldText": old, "newText": new}]
        asyncio.run(self._edit.run(ToolCall("c", "edit", {"path": path, "edits": edits}), _silent))

    def turn(self, name: str, *dirty: str, **files: str) -> None:
        """A turn that writes these files."""
        self.changes.begin(name, dirty)
        for path, content in files.items():
            self.write(path, content)

    def text(self, path: str) -> str:
        return (self.cwd / path).read_text()

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.cwd)) for path in self.cwd.rglob("*"))

    def revert(self, turn: str) -> Reverted:
        reverted = self.changes.revert(turn)
        assert reverted is not None
        return reverted

    def changed_since(self, turn: str) -> list[str]:
        with pytest.raises(ChangedSince) as caught:
            self.changes.revert(turn)
        return [path.name for path in caught.value.paths]


@pytest.fixture(params=["in memory", "on disk"])
def folder(request: Any, tmp_path: Path) -> Iterator[Folder]:
    kept = tmp_path / "s" / "a.undo" if request.param == "on disk" else None
    yield Folder(tmp_path, kept)


@pytest.fixture
def lasting(tmp_path: Path) -> Folder:
    return Folder(tmp_path, tmp_path / "s" / "a.undo")


# Unsaved files


@pytest.mark.parametrize("dirty", ["a.txt", "sub/../a.txt", "{cwd}/a.txt", "{cwd}/link"])
def test_a_file_with_unsaved_changes_is_refused_by_name_for_the_turn(lasting: Folder, dirty: str) -> None:
    (lasting.cwd / "sub").mkdir()
    (lasting.cwd / "a.txt").write_text("old")
    (lasting.cwd / "link").symlink_to("a.txt")
    lasting.changes.begin("t1", [dirty.format(cwd=lasting.cwd)])
    for path in ("a.txt", "sub/../a.txt", "link"):
        with pytest.raises(ToolFailed, match=f"{path} has unsaved changes in the editor"):
            lasting.write(path, "new")
        with pytest.raises(ToolFailed, match="unsaved changes"):
            lasting.edit(path, "old", "new")
    lasting.write("b.txt", "new")
    assert (lasting.text("a.txt"), lasting.text("b.txt")) == ("old", "new")
    lasting.changes.also_dirty(["b.txt"])
    with pytest.raises(ToolFailed, match="unsaved changes"):
        lasting.write("b.txt", "newer")
    lasting.turn("t2", **{"a.txt": "new"})
    assert lasting.text("a.txt") == "new"


# Undoing


def test_a_turn_is_undone_file_by_file(folder: Folder) -> None:
    script = folder.cwd / "run.sh"
    script.write_bytes(b"\xff old\r\n")
    script.chmod(0o754)
    (folder.cwd / "same").write_text("same")
    (folder.cwd / "there").mkdir()
    folder.changes.begin("t1")
    folder.edit("run.sh", "old", "new")
    folder.write("run.sh", "newer")
    folder.write("made/by/it/a.txt", "1")
    folder.write("there/b.txt", "2")
    folder.write("same", "same")
    reverted = folder.revert("t1")
    assert reverted.restored == [script]
    assert reverted.removed == [folder.cwd / "made/by/it/a.txt", folder.cwd / "there/b.txt"]
    assert script.read_bytes() == b"\xff old\r\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o754
    assert folder.names() == ["run.sh", "same", "there"]
    assert folder.revert("t1") == Reverted([], [])


def test_directories_that_hold_something_else_by_now_stay(folder: Folder) -> None:
    folder.turn("t1", **{"made/by/a.txt": "1"})
    (folder.cwd / "made/mine").write_text("x")
    folder.revert("t1")
    assert folder.names() == ["made", "made/mine"]


def test_files_changed_since_are_named_and_then_nothing_is_restored(folder: Folder) -> None:
    (folder.cwd / "a").write_text("old")
    folder.turn("t1", a="1", b="1", c="1", d="1")
    (folder.cwd / "b").write_text("mine")
    (folder.cwd / "c").unlink()
    (folder.cwd / "d").unlink()
    (folder.cwd / "d").mkdir()
    assert folder.changed_since("t1") == ["b", "d"]  # c is gone, as it was before
    assert folder.text("a") == "1"
    (folder.cwd / "b").write_text("1")
    (folder.cwd / "d").rmdir()
    assert folder.revert("t1") == Reverted([folder.cwd / "a"], [folder.cwd / "b"])


def test_turns_are_undone_from_the_last_one_on(folder: Folder) -> None:
    folder.turn("t1", a="1", b="1")
    folder.turn("t2", a="2")
    folder.turn("t3", a="3")
    folder.turn("t4", b="1")  # the same again is a change too: whose file is it now?
    assert folder.changed_since("t1") == ["a", "b"]
    assert folder.changed_since("t2") == ["a"]
    folder.revert("t3")
    folder.revert("t4")
    folder.revert("t2")
    assert folder.text("a") == "1"
    assert folder.revert("t1").removed == [folder.cwd / "a", folder.cwd / "b"]
    assert folder.names() == []


def test_what_failed_is_no_touch(folder: Folder) -> None:
    locked = folder.cwd / "locked"
    locked.write_text("old")
    folder.turn("t1", locked="1")
    locked.chmod(0o444)
    folder.changes.begin("t2")
    with pytest.raises(ToolFailed, match="read-only"):
        folder.write("locked", "2")
    assert folder.changes.revert("t2") is None
    with pytest.raises(ToolFailed, match="read-only"):
        folder.changes.revert("t1")
    locked.chmod(0o644)
    assert folder.revert("t1").restored == [locked]
    assert folder.names() == ["locked"]


def test_a_link_stays_and_its_target_is_restored(folder: Folder) -> None:
    (folder.cwd / "real").write_text("old")
    (folder.cwd / "link").symlink_to("real")
    folder.turn("t1", link="new")
    assert folder.revert("t1").restored == [folder.cwd / "real"]
    assert (folder.cwd / "link").is_symlink()
    assert folder.text("real") == "old"


def test_a_turn_nobody_knows_touched_nothing(folder: Folder) -> None:
    folder.write("a", "no turn is told of")
    assert folder.changes.revert("") is None
    assert folder.changes.revert("t1") is None


# Bounds


def test_the_oldest_turns_are_dropped_first_and_one_that_is_too_large_alone(folder: Folder) -> None:
    folder.reopen(undo_bytes=20_000)
    for number in range(4):
        (folder.cwd / f"f{number}").write_text(str(number) * 8_000)
        folder.turn(f"t{number}", **{f"f{number}": "new"})
    for turn in ("t0", "t1"):
        with pytest.raises(TurnNotKept):
            folder.changes.revert(turn)
    (folder.cwd / "large").write_text("x" * 21_000)
    folder.turn("large", large="new", small="new")
    with pytest.raises(TurnNotKept):
        folder.changes.revert("large")
    assert folder.revert("t3").restored == [folder.cwd / "f3"]
    assert folder.revert("t2").restored == [folder.cwd / "f2"]
    assert folder.text("large") == "new"


def test_no_more_turns_than_that_are_known(folder: Folder) -> None:
    folder.reopen(turns_kept=2)
    for number in range(5):
        folder.turn(f"t{number}", **{f"f{number}": "new"})
    states: list[Reverted | str | None] = []
    for number in range(3):
        try:
            states.append(folder.changes.revert(f"t{number}"))
        except TurnNotKept:
            states.append("dropped")
    assert states == [None, "dropped", "dropped"]
    folder.revert("t3")
    folder.revert("t4")


# On disk


def test_what_was_kept_outlives_the_process(lasting: Folder) -> None:
    (lasting.cwd / "a").write_text("old")
    (lasting.cwd / "b").write_text("old")
    odd = os.fsdecode(b"n\xff")
    lasting.turn("t1", a="1", b="1", **{"made/c": "1"})
    (lasting.cwd / odd).write_text("old")
    lasting.turn("t2", a="2")
    lasting.changes.replace("t2", lasting.cwd / odd, b"2")
    assert lasting.kept is not None
    assert stat.S_IMODE(lasting.kept.stat().st_mode) == 0o700
    blobs = [path for path in lasting.kept.iterdir() if path.name != "index.jsonl"]
    assert len(blobs) == 2  # contents are kept once
    assert {stat.S_IMODE(path.stat().st_mode) for path in lasting.kept.iterdir()} == {0o600}
    lasting.reopen()
    assert lasting.changed_since("t1") == ["a"]
    assert lasting.revert("t2").restored == [lasting.cwd / "a", lasting.cwd / odd]
    lasting.reopen()
    lasting.revert("t1")
    assert (lasting.text("a"), lasting.text("b"), lasting.text(odd)) == ("old", "old", "old")
    lasting.reopen()
    assert lasting.revert("t1") == Reverted([], [])
    assert [path.name for path in lasting.kept.iterdir()] == ["index.jsonl"]


def test_a_crash_at_any_byte_of_the_index_leaves_what_came_before(lasting: Folder) -> None:
    assert lasting.kept is not None
    index = lasting.kept / "index.jsonl"
    (lasting.cwd / "a").write_text("old")
    (lasting.cwd / "b").write_text("old b")
    lasting.turn("t1", a="1")
    first = index.stat().st_size
    lasting.turn("t2", b="2")
    whole = index.read_bytes()
    blobs = {path: path.read_bytes() for path in lasting.kept.iterdir() if path != index}
    for cut in (*range(first, first + 20), *range(first + 20, len(whole), 29), len(whole) - 1):
        for path, data in blobs.items():
            path.write_bytes(data)
        index.write_bytes(whole[:cut])
        (lasting.cwd / "a").write_text("1")
        lasting.reopen()
        lasting.turn(f"after-{cut}", c=str(cut))
        lasting.reopen()
        assert lasting.revert("t1").restored == [lasting.cwd / "a"]
        assert lasting.revert(f"after-{cut}").removed == [lasting.cwd / "c"]
        assert lasting.changes.revert("t2") is None or cut == len(whole) - 1


def test_contents_that_are_lost_or_damaged_restore_nothing(lasting: Folder) -> None:
    assert lasting.kept is not None
    (lasting.cwd / "a").write_text("old")
    lasting.turn("t1", b="1", a="1")
    (blob,) = (path for path in lasting.kept.iterdir() if path.name != "index.jsonl")
    blob.write_text("damaged")
    with pytest.raises(TurnNotKept):
        lasting.changes.revert("t1")
    blob.unlink()
    with pytest.raises(TurnNotKept):
        lasting.changes.revert("t1")
    assert (lasting.text("a"), lasting.text("b")) == ("1", "1")
    assert lasting.names() == ["a", "b"]


def test_the_index_stays_as_long_as_what_it_tells(lasting: Folder) -> None:
    assert lasting.kept is not None
    (lasting.cwd / "a").write_text("old")
    lasting.changes.begin("t1")
    for number in range(600):
        lasting.changes.replace("t1", lasting.cwd / "a", b"%d" % number)
    assert len((lasting.kept / "index.jsonl").read_bytes().splitlines()) < 400
    lasting.reopen()
    lasting.revert("t1")
    assert lasting.text("a") == "old"


def test_files_change_though_nothing_can_be_kept(lasting: Folder) -> None:
    assert lasting.kept is not None
    lasting.kept.parent.rmdir()
    lasting.turn("t1", a="1")
    assert lasting.text("a") == "1"
    with pytest.raises(TurnNotKept):
        lasting.changes.revert("t1")


@pytest.mark.parametrize("room", [0, 10, 40])
def test_a_turn_of_which_a_full_disk_keeps_a_part_is_not_kept(lasting: Folder, room: int) -> None:
    """A limit on the size of files stands in for the disk: both cut a write in its middle."""
    assert lasting.kept is not None
    (lasting.cwd / "old").write_text("old")
    lasting.turn("t1", a="1", old="new")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((lasting.kept / "index.jsonl").stat().st_size + room, hard))
    try:
        lasting.turn("t1", b="2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    lasting.turn("t2", c="3")
    for _ in range(2):
        with pytest.raises(TurnNotKept):
            lasting.changes.revert("t1")
        lasting.reopen()
    assert lasting.revert("t2").removed == [lasting.cwd / "c"]
    assert lasting.names() == ["a", "b", "old"]


def test_an_index_that_somebody_else_wrote_reaches_no_other_file(lasting: Folder, tmp_path: Path) -> None:
    assert lasting.kept is not None
    index = lasting.kept / "index.jsonl"
    (lasting.cwd / "a").write_text("old")
    lasting.turn("t1", a="1")
    (victim := tmp_path / "victim").write_text("v")
    path, none, digest = b"/tmp/other", b"/tmp/o\0", "0" * 64
    for row in (
        Row(turn="t2", path=path, before=str(victim), left=digest),
        Row(turn="t2", path=none, before=digest, left=digest),
        Row(turn="t2", path=b"other", before=digest, left=digest),
        Row(turn="t2", path=path, before=digest, left=digest, size=-(10**18)),
        Row(turn="t2", path=path, before=digest, left=digest, made=(none,)),
        Row(turn="t2", state="dropped"),
    ):
        with index.open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")
        lasting.reopen()
        if row.path:
            assert lasting.changes.revert("t2") is None
        else:
            with pytest.raises(TurnNotKept):
                lasting.changes.revert("t2")
    assert victim.read_text() == "v"
    lasting.revert("t1")
    index.unlink()
    os.mkfifo(index)
    lasting.reopen()
    assert lasting.changes.revert("t1") is None
    lasting.turn("t3", a="3")
    assert lasting.text("a") == "3"
