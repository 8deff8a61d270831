"""Owns the unified diff of an edit, made from the places that are known to change.

Comparing two whole files would take time that grows with their product; here it grows with their sum.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

_CONTEXT = 3  # unchanged lines around a change: what `diff -u` shows and `patch` wants


@dataclass(frozen=True, slots=True)
class Change:
    """`start` to `end` (characters of the old text) become `new`."""

    start: int
    end: int
    new: str


def apply(text: str, changes: Sequence[Change]) -> str:
    """`text` with all of `changes`, which are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for change in changes:
        parts += (text[at : change.start], change.new)
        at = change.end
    return "".join((*parts, text[at:]))


@dataclass(slots=True)
class _Block:
    """Old lines `first` to `last` (exclusive, from 0) become `new`."""

    first: int
    last: int
    new: list[str]


def unified(name: str, text: str, changes: Sequence[Change]) -> str:
    """What `diff -u` would show, headed `a/name` and `b/name`; "" when nothing changes."""
    lines = _lines(text)
    blocks = [block for block in _blocks(text, lines, changes) if block.first < block.last or block.new]
    if not blocks:
        return ""
    shown = [f"--- a/{name}\n+++ b/{name}\n"]
    grown = 0  # lines that the new text is ahead of the old one by
    for hunk in _hunks(blocks):
        shown.append(_hunk(lines, hunk, grown))
        grown += sum(len(block.new) - (block.last - block.first) for block in hunk)
    return "".join(shown)


def _lines(text: str) -> list[str]:
    """Lines with their newline; only `\\n` ends one."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _blocks(text: str, lines: list[str], changes: Sequence[Change]) -> list[_Block]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    # Where the text ends in a newline, one empty line more is there to be changed.
    most = len(lines) if not lines or lines[-1].endswith("\n") else len(lines) - 1
    groups: list[tuple[int, int, list[Change]]] = []
    for change in changes:
        first = min(bisect_right(starts, change.start) - 1, most)
        last = min(bisect_right(starts, change.end), len(lines))
        # At the end of the text there is no line to share, yet what touches there is one block too.
        if groups and (groups[-1][1] > first or groups[-1][2][-1].end == change.start):
            groups[-1] = (groups[-1][0], last, [*groups[-1][2], change])
        else:
            groups.append((first, last, [change]))
    return [
        _block(text[starts[first] : starts[last]], first, starts[first], inside)
        for first, last, inside in groups
    ]


def _block(old: str, first: int, start: int, changes: Sequence[Change]) -> _Block:
    """What `changes` make of whole lines: `old`, from line `first` and character `start` on."""
    moved = [Change(change.start - start, change.end - start, change.new) for change in changes]
    return _trimmed(first, _lines(old), _lines(apply(old, moved)))


def _trimmed(first: int, old: list[str], new: list[str]) -> _Block:
    """The block without the lines that both sides begin and end with."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return _Block(first + head, first + len(old) - tail, new[head : len(new) - tail])


def _hunks(blocks: list[_Block]) -> list[list[_Block]]:
    hunks = [[blocks[0]]]
    for block in blocks[1:]:
        if block.first - hunks[-1][-1].last <= 2 * _CONTEXT:
            hunks[-1].append(block)
        else:
            hunks.append([block])
    return hunks


def _hunk(lines: list[str], blocks: list[_Block], grown: int) -> str:
    first = max(0, blocks[0].first - _CONTEXT)
    last = min(len(lines), blocks[-1].last + _CONTEXT)
    body: list[str] = []
    at = first
    for block in blocks:
        body += [_row(" ", line) for line in lines[at : block.first]]
        body += [_row("-", line) for line in lines[block.first : block.last]]
        body += [_row("+", line) for line in block.new]
        at = block.last
    body += [_row(" ", line) for line in lines[at:last]]
    more = sum(len(block.new) - (block.last - block.first) for block in blocks)
    old, new = _range(first, last - first), _range(first + grown, last - first + more)
    return f"@@ -{old} +{new} @@\n" + "".join(body)


def _row(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _range(start: int, count: int) -> str:
    # An empty side is counted from the line before it.
    return f"{start if count == 0 else start + 1},{count}"
