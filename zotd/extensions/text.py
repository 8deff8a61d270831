"""Owns how much text of an extension is shown at once."""

from __future__ import annotations

from collections.abc import Callable


def within(text: str, most: int, remark: Callable[[str], None], what: str) -> str:
    """The text, or its beginning of at most `most` bytes of UTF-8, which its extension's log is told of."""
    if 4 * len(text) <= most:
        return text
    data = text[:most].encode("utf-8", "replace")
    if len(data) <= most and len(text) <= most:
        return text
    remark(f"{what} was cut to its first {most:,} bytes: it has {len(text):,} characters")
    return data[:most].decode("utf-8", "ignore")
