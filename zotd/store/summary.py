"""Owns what a list says of a session file, found without reading every row as JSON.

Rows begin with their `type`, as zot writes them, and no row holds a line end: so they can be counted and
found by their beginning. A file that is spelled otherwise is read in full.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zotd.agent.transcript import is_prompt
from zotd.base.files import BOM, open_regular
from zotd.base.limits import Limits
from zotd.protocol.content import Message, Usage
from zotd.store import rows
from zotd.store.errors import BadSessionFile
from zotd.store.saved import Saved


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
        handle = open_regular(path)
        with os.fdopen(handle, "rb") as file:
            if os.fstat(handle).st_size > limits.session_bytes:
                return None
            data = file.read().removeprefix(BOM)
    except (OSError, ValueError):
        return None
    data = data[: data.rfind(b"\n") + 1] or data
    try:
        if data.count(b'\n{"type":"') + data.startswith(b'{"type":"') == data.count(b"\n"):
            saved, count, last, prompt = _quickly(data)
        else:
            saved = rows.read_rows(data)
            count, last = len(saved.messages), saved.last_id
            prompt = next(filter(is_prompt, saved.messages), None)
    except (BadSessionFile, ValueError):
        return None
    return _summary(saved, count, last, one_line(prompt.text, limits.title_chars) if prompt else "")


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


def _quickly(data: bytes) -> tuple[Saved, int, int, Message | None]:
    """What the rows say that a list shows, how many messages there are, the id of the last one, and the first
    prompt. Raises as reading all does.
    """
    first, end, _ = data.partition(b"\n")
    saved = rows.read_rows(first + end)
    fold = rows.Fold(saved)
    for kind in (b"rename", b"model", b"usage", b"compaction"):
        if (line := _last(data, kind)) is not None:
            fold.take(rows.row_of(line))
    compaction = max(0, data.rfind(b'\n{"type":"compaction"'))
    count = len(saved.messages) + data.count(b'\n{"type":"message"', compaction)
    # A summary and what it keeps are rows of their own: ids go on behind those that it replaced.
    last = data.count(b'\n{"type":"message"') + sum(_kept(line) for line in _all(data, b"compaction"))
    return saved, count, last, _first_prompt(data)


def _first_prompt(data: bytes) -> Message | None:
    place = data.find(b'\n{"type":"message"')
    while place >= 0:
        message = rows.message_of(rows.row_of(_line(data, place)).get("message"))
        if message is not None and is_prompt(message):
            return message
        place = data.find(b'\n{"type":"message"', place + 1)
    return None


def _last(data: bytes, kind: bytes) -> bytes | None:
    """The last row of a type."""
    place = data.rfind(b'\n{"type":"' + kind + b'"')
    return _line(data, place) if place >= 0 else None


def _all(data: bytes, kind: bytes) -> Iterator[bytes]:
    """Every row of a type."""
    place = data.find(beginning := b'\n{"type":"' + kind + b'"')
    while place >= 0:
        yield _line(data, place)
        place = data.find(beginning, place + 1)


def _kept(line: bytes) -> int:
    return len(rows.compacted(rows.row_of(line)) or ())


def _line(data: bytes, place: int) -> bytes:
    return data[place + 1 : data.find(b"\n", place + 1)]


def one_line(text: str, chars: int) -> str:
    """The beginning of a text for a list: white space is single, what is cut off is a mark."""
    line = " ".join(text[: chars * 4].split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def _text(meta: dict[str, Any], name: str) -> str:
    value = meta.get(name)
    return value if isinstance(value, str) else ""
