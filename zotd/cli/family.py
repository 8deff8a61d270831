"""Owns which session was forked from which, in order and as a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zotd.cli.which import counted, name_of, short
from zotd.protocol.session_methods import SessionRow


def family(rows: Sequence[SessionRow]) -> list[tuple[SessionRow, int]]:
    """Each file once, its forks behind it, with how many it comes from. The oldest come first.

    One whose parent is gone begins a family of its own. So does one of a circle, which no program writes.
    """
    oldest = sorted(rows, key=lambda row: row.created)
    ids = {row.session_id for row in oldest}
    children: dict[str | None, list[SessionRow]] = {}
    for row in oldest:
        children.setdefault(row.parent if row.parent in ids else None, []).append(row)
    placed: list[tuple[SessionRow, int]] = []
    seen: set[str | None] = set()
    for first in [*children.get(None, ()), *oldest]:
        waiting = [(first, 0)]
        while waiting:
            row, depth = waiting.pop()
            if row.path not in seen:
                seen.add(row.path)
                placed.append((row, depth))
                waiting += [(child, depth + 1) for child in reversed(children.get(row.session_id, []))]
    return placed


def drawn(rows: Sequence[SessionRow]) -> Iterator[str]:
    """The same as lines, with branches in front."""
    placed = family(rows)
    lasts = _lasts([depth for _, depth in placed])
    ids = {row.session_id for row in rows}
    open_at: list[bool] = []  # by depth: whether another branch follows there
    for (row, depth), last in zip(placed, lasts, strict=True):
        del open_at[max(depth - 1, 0) :]
        stem = "".join("│  " if going_on else "   " for going_on in open_at)
        branch = "" if depth == 0 else "└─ " if last else "├─ "
        if depth:
            open_at.append(not last)
        yield f"{stem}{branch}{short(row.session_id)}  {_about(row, ids)}".rstrip()


def _lasts(depths: list[int]) -> list[bool]:
    """Of each place whether no sibling follows. Read from the end: a lower depth ends all higher ones."""
    lasts: list[bool] = []
    followed: set[int] = set()
    for depth in reversed(depths):
        followed = {other for other in followed if other <= depth}
        lasts.append(depth not in followed)
        followed.add(depth)
    return lasts[::-1]


def _about(row: SessionRow, ids: set[str]) -> str:
    where = f"from message {row.fork_point}, " if row.fork_point else ""
    gone = "" if row.parent is None or row.parent in ids else f"; its parent {short(row.parent)} is gone"
    return f"{name_of(row)}  ({where}{counted(row.message_count)}{gone})"
