"""Owns what a list says of a session file, found without reading every row as JSON.

Rows begin with their `type`, as zot writes them, and no row holds a line end: so they can be counted and
found by their beginning. A file that is spelled otherwise is read in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from zotd.agent.transcript import is_prompt, typed
from zotd.base.limits import Limits
from zotd.protocol.content import Message, Usage
from zotd.store import rows
from zotd.store.errors import StoreError
from zotd.store.log import opened
from zotd.store.saved import Saved

_BEGINNING = b'{"type":"'


@dataclass(frozen=True, slots=True)
class Summary:
    """A session in short. What is not known is empty; `fork_point` is None then.

    hidden: whether it is to be left out of lists.
    """

    session_id: str
    cwd: str
    provider: str
    model: str
    reasoning: str
    started: str
    title: str
    first_prompt: str
    message_count: int
    last_message_id: int
    usage: Usage
    parent: str
    fork_point: int | None
    hidden: bool


def summary_of(path: Path, limits: Limits) -> Summary | None:
    """What a file says in short; None when it is no session, or cannot be read."""
    try:
        with opened(path, limits) as file:
            if (found := _quickly(rows.lines_of(file, limits.row_bytes))) is None:
                file.seek(0)
                saved = rows.read_rows(file, path, limits.row_bytes)
                file.seek(0)
                found = saved, len(saved.messages), saved.last_id, _first_prompt(file, limits.row_bytes)
    except (StoreError, ValueError):
        return None
    saved, count, last, prompt = found
    return _summary(saved, count, last, one_line(typed(prompt), limits.title_chars) if prompt else "")


def _summary(saved: Saved, count: int, last: int, prompt: str) -> Summary:
    meta = saved.meta
    fork_point = meta.get("fork_point")
    return Summary(
        session_id=saved.session_id,
        cwd=_text(meta, "cwd"),
        provider=saved.provider,
        model=saved.model,
        reasoning=saved.reasoning,
        started=saved.started,
        title=saved.title,
        first_prompt=prompt,
        message_count=count,
        last_message_id=last,
        usage=saved.usage,
        parent=_text(meta, "parent"),
        fork_point=fork_point if type(fork_point) is int else None,
        hidden=meta.get("hide_from_sessions") is True,
    )


def _quickly(lines: Iterator[rows.Line]) -> tuple[Saved, int, int, Message | None] | None:
    """What the rows say that a list shows, how many messages there are, the id of the last one, and the first
    prompt; None where one is spelled otherwise. Raises as reading all does.
    """
    first = next(lines, None)
    if first is None or not first.data.startswith(_BEGINNING):
        return None
    saved = rows.read_rows(first.data)
    count = last = 0
    prompt: Message | None = None
    latest: dict[bytes, bytes] = {}
    for _, data, _, whole, wrong in lines:
        if wrong or not (whole or _is_row(data)):
            continue
        if not data.startswith(_BEGINNING):
            return None
        kind = data[len(_BEGINNING) : data.find(b'"', len(_BEGINNING))]
        if kind == b"message":
            count += 1
            last += 1
            prompt = prompt or _prompt_of(rows.row_of(data))
        elif kind == b"compaction":
            # A summary and what it keeps are rows of their own: ids go on behind those that it replaced.
            count = len(rows.compacted(rows.row_of(data)) or ())
            last += count
        else:
            latest[kind] = data
    fold = rows.Fold(saved)
    for kind in (b"rename", b"model", b"usage"):
        if kind in latest:
            fold.take(rows.row_of(latest[kind]))
    return saved, count, last, prompt


def _first_prompt(file: BinaryIO, most: int) -> Message | None:
    found = (_prompt_of(row) for _, row in rows.rows_of(file, most) if not isinstance(row, str))
    return next(filter(None, found), None)


def _prompt_of(row: dict[str, Any]) -> Message | None:
    message = rows.message_of(row.get("message")) if row.get("type") == "message" else None
    return message if message is not None and is_prompt(message) else None


def _is_row(data: bytes) -> bool:
    try:
        rows.row_of(data)
    except ValueError:
        return False
    return True


def one_line(text: str, chars: int) -> str:
    """The beginning of a text for a list: white space is single, what is cut off is a mark."""
    line = " ".join(text[: chars * 4].split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def _text(meta: dict[str, Any], name: str) -> str:
    value = meta.get(name)
    return value if isinstance(value, str) else ""
