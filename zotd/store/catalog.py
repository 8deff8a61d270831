"""Owns where saved sessions are: naming, finding, listing, copying and removing their files."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from zotd.agent.ports import NotKept
from zotd.base.clock import now, stamp
from zotd.base.files import make_private
from zotd.base.limits import Limits
from zotd.store import rows
from zotd.store.errors import (
    Ambiguous,
    BadSessionFile,
    NoMessage,
    NoSession,
    SessionLocked,
    SeveralFiles,
    StoreError,
)
from zotd.store.lock import lock
from zotd.store.log import SessionLog, opened, read_saved, real_path, remove_beside
from zotd.store.saved import Saved
from zotd.wire.codec import encode

if TYPE_CHECKING:
    from zotd.protocol.session_methods import SessionRow
    from zotd.store.summary import Summary

__all__ = [
    "Ambiguous",
    "BadSessionFile",
    "Found",
    "Listed",
    "NoMessage",
    "NoSession",
    "SessionLocked",
    "SessionStore",
    "StoreError",
    "names_a_file",
]


class Listed(NamedTuple):
    """A row, and the place in the order of all of them: pass it as `after` to go on behind it."""

    row: SessionRow
    cursor: str


class Found(NamedTuple):
    """A file that is named as those of sessions are, read or not."""

    changed: int  # nanoseconds
    path: Path

    @property
    def cursor(self) -> str:
        """Files of several folders may have one name, and have been changed in one moment."""
        return cursor(self.changed, f"{self.path.name}/{self.path.parent.name}")


class SessionStore:
    """The session files under `home`/sessions. Everything here reads or writes disk at once: call it in a
    thread where that may take long. Errors are those of `errors`, and `NotKept` for what cannot be written.
    """

    def __init__(
        self, home: Path, limits: Limits, trusts: Callable[[Path], bool] = lambda folder: False
    ) -> None:
        """trusts: whether the user trusts a folder, which rows tell."""
        self.root = home / "sessions"
        self._limits = limits
        self._trusts = trusts
        self._known: dict[Path, tuple[int, int, Summary | None]] = {}

    def new_path(self, cwd: Path, session_id: str, started: str) -> Path:
        """Where a session's file belongs; nothing is made. `started`: RFC 3339 UTC."""
        day, _, hour = started.partition("T")
        name = f"{day.replace('-', '')}-{hour[:8].replace(':', '')}-{session_id.replace('-', '')[:8]}"
        return self._folder(cwd) / f"{name}.jsonl"

    def latest(self, cwd: Path) -> Path | None:
        """The file of `cwd` that was changed last; None where there is none. Hidden ones do not count."""
        for found in _newest_first(_files(self._folder(cwd))):
            if (summary := self._summary(found)) is not None and not summary.hidden:
                return found.path
        return None

    def find(self, session_id: str) -> Path:
        """The file of a session by its id, or by the beginning of one.

        Raises NoSession, and Ambiguous also for copies of one file, which share an id.
        """
        if len(session_id) < (least := self._limits.session_prefix_chars):
            raise NoSession(f"the id of a session has at least {least} characters, got {session_id!r}")
        everywhere = self._everywhere()
        # Ours have the beginning of the id in their name; in any other file it has to be looked for.
        begin = session_id.replace("-", "")[:8]
        likely = [found for found in everywhere if _may_be(found.path.stem, begin)]
        matches = self._beginning(likely, session_id) or self._beginning(everywhere, session_id)
        if not matches:
            raise NoSession(f"no session {session_id!r} is saved")
        if len(matches) > 1:
            raise Ambiguous(f"several sessions begin with {session_id!r}: {', '.join(sorted(matches))}")
        [(whole, paths)] = matches.items()
        if len(paths) > 1:
            raise SeveralFiles(f"several files are session {whole}: {', '.join(map(str, sorted(paths)))}")
        return paths[0]

    def files(self, cwd: Path | None = None) -> list[Found]:
        """What may be saved sessions, in no order. cwd: only those of this directory."""
        return self._everywhere() if cwd is None else _files(self._folder(cwd))

    def rows(
        self, cwd: Path | None = None, after: str = "", files: list[Found] | None = None
    ) -> Iterator[Listed]:
        """Saved sessions, the one that was changed last first, hidden and unreadable ones left out.

        cwd: only those of this directory. files: what `files` has said. Each file is read when its row is
        asked for, not before.
        """
        for one in _newest_first(self.files(cwd) if files is None else files):
            if after and one.cursor >= after:
                continue
            if (summary := self._summary(one)) is not None and not summary.hidden:
                yield Listed(self._row(summary, one), one.cursor)

    def row(self, path: Path) -> SessionRow:
        """What a list says of one file. Raises NoSession, BadSessionFile."""
        found = _found(path)
        if found is None:
            raise NoSession(f"there is no session file {path}")
        if (summary := self._summary(found)) is None:
            read_saved(path, self._limits)
            raise BadSessionFile(path, 0, "cannot be read")
        return self._row(summary, found)

    def read(self, path: Path) -> Saved:
        """What a file holds, whoever has it open; nothing is changed. Raises NoSession, BadSessionFile."""
        return read_saved(path, self._limits)

    def fork(self, path: Path, message_id: int) -> Path:
        """A new session with the rows up to a message.

        Raises NoSession, NoMessage, BadSessionFile, NotKept.
        """
        most = self._limits.row_bytes
        with opened(path, self._limits) as file:
            saved = rows.read_rows(file, path, most)
            file.seek(0)
            lines = _up_to(_rest(file, most), message_id, saved.session_id)
        meta = {key: value for key, value in saved.meta.items() if key != "hide_from_sessions"}
        meta["parent"], meta["fork_point"] = saved.session_id, message_id
        return self._create(meta, lines)

    def import_file(self, source: Path | bytes, cwd: Path) -> Path:
        """A new session of `cwd` with the rows of an exported one: of a file, or of its bytes.

        Raises NoSession, BadSessionFile, NotKept.
        """
        most = self._limits.row_bytes
        if isinstance(source, bytes):
            saved, lines = rows.read_rows(source, None, most), [line for line, _ in _rest(source, most)]
        else:
            try:
                with opened(source, self._limits) as file:
                    saved = rows.read_rows(file, source, most)
                    file.seek(0)
                    lines = [line for line, _ in _rest(file, most)]
            except NoSession:
                missing = NoSession(f"there is no file {source}")
                missing.hint = missing.in_shell = ""
                raise missing from None
        meta = {
            key: value
            for key, value in saved.meta.items()
            if key not in ("hide_from_sessions", "parent", "fork_point")
        }
        return self._create({**meta, "cwd": str(cwd)}, lines)

    def rename(self, path: Path, title: str) -> None:
        """Give a session that nobody has open a title. Raises NoSession, SessionLocked, NotKept."""
        log, _ = SessionLog.open(path, self._limits)
        try:
            log.rename(title)
        finally:
            log.close()

    def delete(self, path: Path) -> None:
        """Remove a session's file and what belongs to it. Raises NoSession, SessionLocked, NotKept."""
        named, path = path, real_path(path)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise NoSession(f"there is no session file {path}") from None
        except OSError as error:
            raise NotKept(path, error.strerror or str(error)) from None
        try:
            lock(handle, path)
            path.unlink()
            if named.is_symlink():
                named.unlink()
            remove_beside(path)
        except OSError as error:
            raise NotKept(path, error.strerror or str(error)) from None
        finally:
            os.close(handle)

    def _folder(self, cwd: Path) -> Path:
        return self.root / sha256(os.fsencode(cwd.absolute())).hexdigest()[:16]

    def _everywhere(self) -> list[Found]:
        try:
            folders = [entry.path for entry in os.scandir(self.root) if entry.is_dir()]
        except OSError:
            return []
        everywhere = [found for folder in folders for found in _files(Path(folder))]
        if len(self._known) > len(everywhere):
            there = {found.path for found in everywhere}
            self._known = {path: known for path, known in self._known.items() if path in there}
        return everywhere

    def _beginning(self, files: list[Found], session_id: str) -> dict[str, list[Path]]:
        """Those whose id begins so, by id; one whose id is the whole of it goes before."""
        matches: dict[str, list[Path]] = {}
        for found in files:
            summary = self._summary(found)
            if summary is not None and summary.session_id.startswith(session_id):
                matches.setdefault(summary.session_id, []).append(found.path)
        return {session_id: matches[session_id]} if session_id in matches else matches

    def _summary(self, found: Found) -> Summary | None:
        """What a file says in short, read again only when it has changed; None when it is no session."""
        from zotd.store.summary import summary_of

        try:
            size = found.path.stat().st_size
        except OSError:
            return None
        known = self._known.get(found.path)
        if known is None or known[:2] != (found.changed, size):
            summary = summary_of(found.path, self._limits)
            known = (found.changed, size, summary)
            if summary is not None:  # what cannot be read now may be another time, unchanged
                self._known[found.path] = known
        return known[2]

    def _row(self, summary: Summary, found: Found) -> SessionRow:
        from zotd.protocol.session_methods import SessionRow

        return SessionRow(
            session_id=summary.session_id,
            path=str(found.path),
            title=summary.title or None,
            first_prompt=summary.first_prompt or None,
            cwd=summary.cwd,
            trusted=self._trusts(Path(summary.cwd)),
            provider=summary.provider,
            model=summary.model,
            reasoning=summary.reasoning,
            approval="auto",
            ephemeral=False,
            created=summary.started,
            updated=stamp(found.changed),
            message_count=summary.message_count,
            last_message_id=summary.last_message_id,
            usage=summary.usage,
            parent=summary.parent or None,
            fork_point=summary.fork_point,
            open=False,
        )

    def _create(self, meta: dict[str, Any], lines: list[bytes]) -> Path:
        """A new file, which is there whole or not at all."""
        meta = {**meta, "id": str(uuid.uuid4()), "started": now()}
        path = self.new_path(Path(str(meta.get("cwd", ""))), meta["id"], meta["started"])
        data = b"\n".join([encode(rows.meta_row(meta)), *lines, b""])
        unfinished = path.with_name(f".{path.name}.part")
        try:
            make_private(path.parent)
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                unfinished.rename(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise NotKept(path, error.strerror or str(error)) from None
        return path


def names_a_file(word: str) -> bool:
    """Whether who names a session so means a file, not an id: there is a slash in it, or it ends so."""
    return "/" in word or word.endswith(".jsonl")


def is_cursor(text: str) -> bool:
    """Whether a text is a place in the order of all sessions."""
    changed, dash, name = text.partition("-")
    return len(changed) == 20 and changed.isascii() and changed.isdigit() and bool(dash and name)


def cursor(changed: int, name: str) -> str:
    """A place in the order of all sessions. `changed`: nanoseconds since 1970."""
    return f"{max(0, changed):020d}-{name}"


def _files(folder: Path) -> list[Found]:
    try:
        entries = [*os.scandir(folder)]
    except OSError:
        return []
    found = []
    for entry in entries:
        if _is_named_as_one(entry.name):
            with suppress(OSError):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    found.append(Found(status.st_mtime_ns, Path(entry.path)))
    return found


def _may_be(stem: str, begin: str) -> bool:
    """Whether a file of that name may be a session whose id begins so: all but those that `new_path` names
    after another.
    """
    *time, last = stem.split("-")
    ours = list(map(len, time)) == [8, 6] and len(last) == 8 and "".join(time).isdecimal()
    return last.startswith(begin) or not ours


def _is_named_as_one(name: str) -> bool:
    return name.endswith(".jsonl") and not name.startswith(".")


def _found(path: Path) -> Found | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return Found(status.st_mtime_ns, path) if stat.S_ISREG(status.st_mode) else None


def _newest_first(files: list[Found]) -> list[Found]:
    return sorted(files, key=lambda found: found.cursor, reverse=True)


def _rest(source: bytes | BinaryIO, most: int) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The rows behind the first one as they stand, but for keys; without lines that are none."""
    found = ((line.data, row) for line, row in rows.rows_of(source, most) if not isinstance(row, str))
    for line, row in islice(found, 1, None):
        yield encode(row) if rows.drop_keys(row) else line, row


def _up_to(found: Iterator[tuple[bytes, dict[str, Any]]], message_id: int, session_id: str) -> list[bytes]:
    """The rows of a file as they stand, the one with that message the last. Raises NoMessage."""
    fold = rows.Fold(Saved(None, {}))
    lines: list[bytes] = []
    for line, row in found:
        before = fold.saved.last_id
        fault = fold.take(row)
        if before >= message_id > 0:
            return lines
        lines.append(line)
        if fault is None and row.get("type") == "compaction" and fold.saved.last_id > message_id > before:
            # It ends in the middle of what a summary kept.
            kept = (rows.compacted(row) or [])[: message_id - before]
            lines[-1] = encode({"type": "compaction", "messages": kept})
            return lines
    if not 0 < message_id <= fold.saved.last_id:
        raise NoMessage(f"session {session_id} has no message {message_id}; its last is {fold.saved.last_id}")
    return lines
