"""Owns what commands for people print: columns, JSON, and nothing that a terminal would act upon."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any


def escaped(text: str, keep: str = "\n\t") -> str:
    """`text` with control characters shown instead of sent, except those of `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def complain(message: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"zotd: {escaped(message, '')}\n")


def put(text: str) -> None:
    """Text on standard output, as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def put_json(value: Any) -> None:
    """One JSON value on a line of standard output. What is no UTF-8 in it becomes `?`."""
    import json

    put(json.dumps(value, ensure_ascii=False) + "\n")


def put_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under headers. On a terminal the last column is cut to fit, so that a row is a line."""
    cells = [list(headers), *([escaped(cell, "") for cell in row] for row in rows)]
    columns = range(len(headers) - 1)
    widths = [max(_width(row[column]) for row in cells) for column in columns]
    room = _room() - sum(widths) - 2 * len(widths)
    for row in cells:
        padded = [row[column] + " " * (widths[column] - _width(row[column])) for column in columns]
        put("  ".join([*padded, _within(row[-1], room)]).rstrip() + "\n")


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("KiB", "MiB"):
        if count < 1024:
            return several(count, "byte")
        value /= 1024
        if value < 1024:
            return f"{value:.0f} {unit}"
    return f"{value / 1024:.1f} GiB"


def several(count: int, noun: str) -> str:
    """A number of things."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def local_time(time: str) -> str:
    """An RFC 3339 time to the minute where the user is; what is none comes back as it is."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return escaped(time, "")


def unbroken(command: Callable[[], int]) -> int:
    """Run a command that prints. Whoever has read enough of it may hang up: that is no error."""
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return code


def _room() -> int:
    """Columns of the terminal that standard output is; a great many where it is none."""
    if not sys.stdout.isatty():
        return 1 << 30
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _width(text: str) -> int:
    """Columns that a text takes: a Chinese character takes two, an accent none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _within(text: str, room: int) -> str:
    if _width(text) <= room:
        return text
    while text and _width(text) >= max(room, 2):
        text = text[:-1]
    return text + "…"
