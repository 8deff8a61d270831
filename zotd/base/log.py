"""Owns what the process writes down of its own work: nothing, until somebody says where to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_write: Callable[[str, str, dict[str, Any]], None] | None = None


def log(event: str, level: str = "info", **fields: Any) -> None:
    """One line, if anybody wants such. event: a few words that never change; fields: ids, counts, seconds."""
    if _write is not None:
        _write(event, level, fields)
