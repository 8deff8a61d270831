"""Owns the list of all sessions: open ones and saved ones in one order, page by page."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from zotd.agent.transcript import is_prompt
from zotd.daemon.session import Session
from zotd.protocol.session_methods import SessionRow
from zotd.store.catalog import Listed, SessionStore, cursor
from zotd.store.summary import one_line


def listed(
    store: SessionStore, live: Mapping[str, SessionRow], cwd: Path | None, after: str, limit: int
) -> tuple[list[SessionRow], str | None]:
    """A page of rows, and the cursor of the next one. Reads disk.

    live: rows of the open ones by id. after: the cursor of the page before, empty for the first.
    """
    saved = (_newer(one, live.get(one.row.session_id)) for one in store.rows(cwd, after))
    elsewhere = [
        _placed(row)
        for row in live.values()
        if row.path is None or not store.has_in_rows(Path(row.path), cwd)
    ]
    behind = [one for one in elsewhere if _wanted(one, cwd, after)]
    behind.sort(key=lambda one: one.cursor, reverse=True)
    merged: Iterator[Listed] = heapq.merge(saved, behind, key=lambda one: one.cursor, reverse=True)
    page = list(islice(merged, limit + 1))
    more = page[limit - 1].cursor if len(page) > limit else None
    return [one.row for one in page[:limit]], more


def live_row(session: Session) -> SessionRow:
    """The row of an open session; it has a path once there is a file."""
    info = session.info()
    prompt = next((message.text for message in session.transcript.messages if is_prompt(message)), "")
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
        live, first_prompt=of_file.first_prompt, parent=of_file.parent, fork_point=of_file.fork_point
    )
    return Listed(row, one.cursor)


def _placed(row: SessionRow) -> Listed:
    """A row of a session that is in no folder of ours, with its place among those that are."""
    changed = datetime.fromisoformat(row.updated).timestamp()
    return Listed(row, cursor(int(changed * 1e9), row.session_id))


def _wanted(one: Listed, cwd: Path | None, after: str) -> bool:
    return (cwd is None or one.row.cwd == str(cwd)) and (not after or one.cursor < after)
