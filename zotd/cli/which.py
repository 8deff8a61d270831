"""Owns what a person means who names a saved session: a file, or the beginning of an id."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path

from zotd.base.files import is_empty_file, is_folder
from zotd.base.limits import Limits
from zotd.base.paths import absolute
from zotd.cli.console import complain, escaped
from zotd.daemon.spec import SessionSpec
from zotd.protocol.session_methods import SessionRow
from zotd.store.catalog import NoSession, SessionStore, StoreError, names_a_file
from zotd.store.lock import lock

_ID = 8
"""Characters of an id that are shown: as many as names of files have."""
_TOLD = 5
"""Sessions that are named to somebody who asked for one that is not there."""


def file_of(store: SessionStore, word: str) -> Path:
    """The file that is meant; it need not be there.

    Raises NoSession, which says what is there, Ambiguous and OSError.
    """
    if names_a_file(word):
        return absolute(word, "session")
    try:
        return store.find(word)
    except NoSession as missing:
        rows = [listed.row for listed in islice(store.rows(), _TOLD)]
        there = ", ".join(f"{short(row.session_id)} ({name_of(row) or 'no prompt yet'})" for row in rows)
        told = f"the newest are: {there}" if there else "none is"
        missing = NoSession(f"{missing}; {told}; a file is named with a slash, as in ./{word}")
        missing.in_shell = ""
        raise missing from None


class NotThere(Exception):
    """The session that flags name cannot be had; the message says why, and what there is."""


def going_on(spec: SessionSpec, word: str, limits: Limits, *, joined: bool = False) -> SessionSpec:
    """The spec of a run that goes on with a session: the one that `word` names, else the folder's newest.

    Where nothing is saved there, a new session begins, and a note says so. Raises NotThere, also for a file
    that holds no session and for one that another process has open.

    joined: whether a daemon runs it, which may have it open itself: so may others that see it there.
    """
    store = SessionStore(spec.home, limits)
    row = None
    try:
        path = file_of(store, word) if word else store.latest(spec.cwd)
        if path is not None and os.path.lexists(path) and not is_empty_file(path):
            row = store.row(path)
            if not joined:
                _check_lock(path)
    except (StoreError, OSError) as wrong:
        raise NotThere(told(wrong)) from None
    if path is None:
        complain(f"no session of {spec.cwd} is saved: a new one begins")
    elif row is not None and row.cwd != str(spec.cwd) and is_folder(Path(row.cwd)):
        complain(f"the session goes on in its own folder, {row.cwd}")
    return replace(spec, saved=path)


def told(wrong: Exception) -> str:
    """What is wrong, and what a person at a shell can do."""
    hint = wrong.in_shell if isinstance(wrong, StoreError) else getattr(wrong, "hint", "")
    return f"{wrong}; {hint}" if hint else str(wrong)


def _check_lock(path: Path) -> None:
    """Raises SessionLocked. Whoever takes the file a moment later is told of when it is opened."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        lock(handle, path)
    finally:
        os.close(handle)


def short(session_id: str) -> str:
    """The beginning of an id, as it is shown and can be given."""
    return session_id[:_ID]


def counted(messages: int) -> str:
    return f"{messages} message{'' if messages == 1 else 's'}"


def name_of(row: SessionRow, chars: int = 50) -> str:
    """What people know a session by, on one line: its title, or how it began."""
    name = escaped(" ".join((row.title or row.first_prompt or "").split()), "")
    return name if len(name) <= chars else name[: chars - 1] + "…"
