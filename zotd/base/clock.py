"""Owns the spelling of time: RFC 3339 UTC, milliseconds."""

from __future__ import annotations

import time

_last = (0, "")


def now() -> str:
    """The present, such as `2026-11-30T03:43:15.576Z`. Cached per millisecond: streams ask often."""
    global _last  # noqa: PLW0603 - the cache is the point
    millis = time.time_ns() // 1_000_000
    if _last[0] != millis:
        _last = (millis, stamp(millis * 1_000_000))
    return _last[1]


def stamp(nanoseconds: int) -> str:
    """A time since 1970 in the same spelling."""
    seconds, rest = divmod(nanoseconds // 1_000_000, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
