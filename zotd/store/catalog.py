"""Owns where saved sessions are: naming, finding, listing, copying and removing their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zotd.base.limits import Limits
from zotd.protocol.session_methods import SessionRow
from zotd.store.errors import (  # noqa: F401 - what callers of the store catch
    Ambiguous,
    BadSessionFile,
    NoSession,
    SessionLocked,
    StoreError,
)
from zotd.store.saved import Saved


class Listed(NamedTuple):
    """A row, and the place in the order of all of them: pass it as `after` to go on behind it."""

    row: SessionRow
    cursor: str


class SessionStore:
    """The session files under `home`/sessions. Everything here reads or writes disk at once: call it in a
    thread where that may take long. Errors are those of `errors`, and `NotKept` for what cannot be written.
    """

    def __init__(self, home: Path, limits: Limits) -> None: ...

    def new_path(self, cwd: Path, session_id: str, started: str) -> Path:
        """Where a session's file belongs; nothing is made. `started`: RFC 3339 UTC."""
        raise NotImplementedError

    def latest(self, cwd: Path) -> Path | None:
        """The file of `cwd` that was changed last; None where there is none. Hidden ones do not count."""
        raise NotImplementedError

    def find(self, session_id: str) -> Path:
        """The file of a session by its id, or by the beginning of one. Raises NoSession, Ambiguous."""
        raise NotImplementedError

    def rows(self, cwd: Path | None = None, after: str = "") -> Iterator[Listed]:
        """Saved sessions, the one that was changed last first, hidden and unreadable ones left out.

        cwd: only those of this directory. Each file is read when its row is asked for, not before.
        """
        raise NotImplementedError

    def read(self, path: Path) -> Saved:
        """What a file holds, whoever has it open; nothing is changed. Raises NoSession, BadSessionFile."""
        raise NotImplementedError

    def fork(self, path: Path, message_id: int) -> Path:
        """A new session with the rows up to a message.

        Raises NoSession, NoMessage, BadSessionFile, NotKept.
        """
        raise NotImplementedError

    def import_file(self, source: Path | bytes, cwd: Path) -> Path:
        """A new session of `cwd` with the rows of an exported one: of a file, or of its bytes.

        Raises NoSession, BadSessionFile, NotKept.
        """
        raise NotImplementedError

    def rename(self, path: Path, title: str) -> None:
        """Give a session that nobody has open a title. Raises NoSession, SessionLocked, NotKept."""
        raise NotImplementedError

    def delete(self, path: Path) -> None:
        """Remove a session's file. Raises NoSession, SessionLocked, NotKept."""
        raise NotImplementedError
