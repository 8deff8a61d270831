"""Owns the list of all sessions: open ones and saved ones in one order, page by page."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from zotd.agent.transcript import is_prompt, typed
from zotd.daemon.session import Session
from zotd.protocol.session_methods import SessionRow
from zotd.store.catalog import Found, Listed, SessionStore, cursor
from zotd.store.summary import one_line


class Live(NamedTuple):
    """An open session's row, and the file in which it is, or will be, saved."""

    row: SessionRow
    file: Path | None


def listed(
    store: SessionStore, live: Sequence[Live], cwd: Path | None, after: str, limit: int
) -> tuple[list[SessionRow], str | None]:
    """A page of rows, and the cursor of the next one. Reads disk.

    live: the open ones. after: the cursor of the page before, empty for the first.
    """
    files = store.files(cwd)  # one that is saved from now on is among the live ones alone
    at_hand: dict[str, SessionRow] = {}
    elsewhere = []
    for row, file in live:
        if file is not None and (path := _same(file, files)) is not None:
            at_hand[str(path)] = row
        else:
            elsewhere.append(_placed(row))
    saved = (_newer(one, at_hand.get(one.row.path or "")) for one in store.rows(cwd, after, files))
    behind = [one for one in elsewhere if _wanted(one, cwd, after)]
    behind.sort(key=lambda one: one.cursor, reverse=True)
    merged: Iterator[Listed] = heapq.merge(saved, behind, key=lambda one: one.cursor, reverse=True)
    page = list(islice(merged, limit + 1))
    more = page[limit - 1].cursor if len(page) > limit else None
    return [one.row for one in page[:limit]], more


def live(session: Session) -> Live:
    """An open session for a list; its row has a path once there is a file."""
    return Live(_row(session), session.path)


def _row(session: Session) -> SessionRow:
    info = session.info()
    prompt = next((typed(message) for message in session.transcript.messages if is_prompt(message)), "")
    return SessionRow(
        session_id=session.id,
        path=str(session.path) if session.log is not None and session.log.saved else None,
        title=session.title or None,
        first_prompt=one_line(prompt, session.limits.title_chars) or None,
        cwd=info.cwd,
        trusted=info.trusted,
        provider=session.provider,
        model=session.model.id,
        reasoning=session.model.reasoning,
        approval=info.approval,
        ephemeral=session.ephemeral,
        created=info.created,
        updated=info.updated,
        message_count=len(session.transcript.messages),
        last_message_id=session.transcript.last_id,
        usage=session.transcript.usage,
        open=True,
    )


def _newer(one: Listed, live: SessionRow | None) -> Listed:
    """The row of a file, with what the open session knows better."""
    if live is None:
        return one
    of_file = one.row
    row = replace(
        live,
        path=of_file.path,
        first_prompt=of_file.first_prompt,
        parent=of_file.parent,
        fork_point=of_file.fork_point,
    )
    return Listed(row, one.cursor)


def _same(file: Path, files: Sequence[Found]) -> Path | None:
    """Where a file is among others, going by its place; links may lead to its folder."""
    folder = os.path.realpath(file.parent)
    named = (found.path for found in files if found.path.name == file.name)
    return next((path for path in named if os.path.realpath(path.parent) == folder), None)


def _placed(row: SessionRow) -> Listed:
    """A row of a session that is in no folder of ours, with its place among those that are."""
    changed = datetime.fromisoformat(row.updated).timestamp()
    return Listed(row, cursor(int(changed * 1e9), row.session_id))


def _wanted(one: Listed, cwd: Path | None, after: str) -> bool:
    return (cwd is None or one.row.cwd == str(cwd)) and (not after or one.cursor < after)
