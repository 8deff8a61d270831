"""Owns what `write` and `edit` do to the files of one session: which they may touch, and undoing it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from sys import maxsize
from threading import Lock

from zotd.agent.ports import ToolFailed
from zotd.base.files import Staged, open_regular
from zotd.base.limits import Limits
from zotd.tools.replace import replace_file, stage_file
from zotd.tools.typed import size_of
from zotd.tools.undo import ContentLost, Row, UndoLog, digest


class TurnNotKept(Exception):
    """What the files of a turn held before is not there any more."""


class ChangedSince(Exception):
    """Files were changed after the turn. paths: which, in the order in which the turn touched them."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__("changed since the turn: " + ", ".join(map(str, paths)))
        self.paths = paths


@dataclass(frozen=True, slots=True)
class Reverted:
    """restored: files that have their old content again. removed: files that the turn had made."""

    restored: list[Path]
    removed: list[Path]


class Changes:
    """The files that the turns of one session touched. Without a turn, which `begin` names, nothing is kept.

    cwd: what relative paths of unsaved files start from.
    directory: where it is kept what files held before, None for memory.

    Work on files is done by one thread at a time, even when a turn was aborted in the middle of it.
    """

    def __init__(self, cwd: Path, limits: Limits, directory: Path | None = None) -> None:
        self._cwd = cwd
        self._size = limits.undo_bytes
        self._log = UndoLog(directory, limits.undo_bytes, limits.turns_kept)
        self._lock = Lock()
        self._dirty = _Unsaved(cwd, ())
        self.turn = ""

    def begin(self, turn: str, dirty_files: Iterable[str] = ()) -> None:
        """What follows belongs to a turn. dirty_files: paths with unsaved changes in an editor."""
        self.turn = turn
        self._dirty = _Unsaved(self._cwd, tuple(dirty_files))

    def also_dirty(self, dirty_files: Iterable[str]) -> None:
        """More files of the running turn that have unsaved changes."""
        self._dirty = _Unsaved(self._cwd, (*self._dirty.named, *dirty_files))

    def refuse_unsaved(self, path: Path) -> None:
        """Raises ToolFailed when the file has unsaved changes in an editor."""
        if self._dirty.named and os.path.realpath(path) in self._dirty.real:
            raise ToolFailed(
                f"{path} has unsaved changes in the editor; nothing was changed. "
                "Ask the user to save or discard them, then read the file again"
            )

    def weight(self, path: Path, data: bytes) -> int:
        """How much work `replace` is, in bytes; no end of it while another thread is at work or much is to be
        read first.
        """
        if self._lock.locked() or not self._log.at_hand:
            return maxsize
        return max(len(data), size_of(path))

    def replace(self, turn: str, path: Path, data: bytes) -> bool:
        """As `replace_file`, and keeps what was there. turn: `self.turn` when the tool was called."""
        with self._lock:
            if not turn:
                return replace_file(path, data)
            target = os.fsencode(os.path.realpath(path))
            previous = self._log.row(turn, target)
            self._keep(turn, target, previous, digest(data))
            try:
                return replace_file(path, data)
            except BaseException:
                self._log.take_back(turn, target, previous)
                raise

    def revert(self, turn: str) -> Reverted | None:
        """Restore the files of a turn; None when it is not known to have touched any.

        A file that is as it was already is left alone. Directories made for files that go are removed when
        nothing else is in them. Raises ChangedSince and TurnNotKept, and then nothing was done; ToolFailed
        and OSError when a file cannot be written.
        """
        with self._lock:
            match self._log.state(turn):
                case "":
                    return None
                case "dropped":
                    raise TurnNotKept
                case "reverted":
                    return Reverted([], [])
            rows = self._log.rows(turn)
            now = {row.path: _digest_now(row.path) for row in rows}
            changed = [row for row in rows if self._changed(row, now[row.path])]
            if changed:
                raise ChangedSince([_path(row) for row in changed])
            reverted = self._restore([row for row in rows if now[row.path] != row.before])
            self._log.end(turn, "reverted")
            return reverted

    def _keep(self, turn: str, target: bytes, previous: Row | None, left: str) -> None:
        """Keep what the file holds, unless that is known. What cannot be replaced is not looked at."""
        if previous is not None:
            row = Row(
                turn=turn,
                path=target,
                before=previous.before,
                size=previous.size,
                left=left,
                made=previous.made,
            )
            self._log.add(row, None)
            return
        path = Path(os.fsdecode(target))
        try:
            status = path.stat()
        except FileNotFoundError:
            self._log.add(Row(turn=turn, path=target, left=left, made=_missing(path)), None)
            return
        except OSError:
            return  # replacing it says what is wrong
        if not stat.S_ISREG(status.st_mode):
            return
        if status.st_size > self._size:
            self._log.end(turn, "dropped")
            return
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                before = file.read(self._size + 1)
        except OSError:
            self._log.end(turn, "dropped")
            return
        row = Row(turn=turn, path=target, before=digest(before), size=len(before), left=left)
        self._log.add(row, before)

    def _changed(self, row: Row, now: str | None) -> bool:
        if now == row.before:
            return False
        return now != row.left or self._log.touched_after(row.turn, row.path)

    def _restore(self, rows: list[Row]) -> Reverted:
        """All new contents lie beside their files before the first of them is put in place."""
        restored = [row for row in rows if row.before]
        removed = [row for row in rows if not row.before]
        staged: list[Staged] = []
        try:
            for row in restored:
                staged.append(stage_file(_path(row), self._log.content(row.before)))  # noqa: PERF401 - kept on errors
        except ContentLost:
            raise TurnNotKept from None
        else:
            while staged:
                staged.pop(0).commit()
        finally:
            for each in staged:
                each.cancel()
        for row in removed:
            _path(row).unlink()
        for folder in {folder: None for row in removed for folder in reversed(row.made)}:
            _remove_if_empty(folder)
        return Reverted([*map(_path, restored)], [*map(_path, removed)])


class _Unsaved:
    """Files with unsaved changes. Their real paths are looked up when somebody asks for the first time."""

    def __init__(self, cwd: Path, named: tuple[str, ...]) -> None:
        self._cwd = cwd
        self.named = named

    @cached_property
    def real(self) -> frozenset[str]:
        return frozenset(os.path.realpath(self._cwd / name) for name in self.named)


def _path(row: Row) -> Path:
    return Path(os.fsdecode(row.path))


def _digest_now(path: bytes) -> str | None:
    """The digest of a file as it is, empty when there is nothing, None for what cannot be read as a file."""
    from hashlib import file_digest

    try:
        with os.fdopen(open_regular(Path(os.fsdecode(path))), "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None


def _missing(path: Path) -> tuple[bytes, ...]:
    """The directories above a file that are not there, the outermost first."""
    missing = [os.fsencode(above) for above in path.parents if not os.path.lexists(above)]
    return tuple(reversed(missing))


def _remove_if_empty(folder: bytes) -> None:
    try:
        Path(os.fsdecode(folder)).rmdir()
    except OSError:
        return  # something else is in it by now, or it has gone already
