"""Owns the answer to an edit that misses: the piece of the file that was most likely meant.

Imported at the first miss only, since most sessions have none.
"""

from __future__ import annotations

from difflib import SequenceMatcher

_LINES_SEARCHED = 20_000  # about a second of work; beyond that an answer is not worth the wait
_CANDIDATES = 8  # places whose first line is alike, compared as a whole
_LINE_CHARS = 400  # of a line are compared: the time grows with the square
_SHOWN_CHARS = 2_000  # of the piece: the model needs its place and its letters, not a second copy of the file
_ALIKE = 0.5  # below this the nearest piece is a different one and would mislead


def nearest(text: str, old: str) -> str:
    """What to tell the model: the lines of `text` most like `old`, and in what way they differ."""
    lines = text.split("\n")[:_LINES_SEARCHED]
    wanted = old.strip("\n").split("\n")
    best, ratio = _best(lines, wanted)
    if ratio < _ALIKE:
        return "nothing in the file is like it: read the file again"
    piece = lines[best : best + len(wanted)]
    place = f"line {best + 1}" if len(piece) == 1 else f"lines {best + 1}-{best + len(piece)}"
    how = (
        "the same but for white space"
        if [line.split() for line in piece] == [line.split() for line in wanted]
        else f"{ratio:.0%} alike"
    )
    shown = "\n".join(piece)
    if len(shown) > _SHOWN_CHARS:
        shown = shown[:_SHOWN_CHARS] + " […]"
    return f"the nearest is {place} ({how}):\n{shown}"


def _best(lines: list[str], wanted: list[str]) -> tuple[int, float]:
    """The line that the most alike piece begins at, and how alike it is, 0 to 1."""
    best, most = 0, 0.0
    for start in _candidates(lines, wanted):
        pairs = zip(lines[start : start + len(wanted)], wanted, strict=False)
        ratio = sum(_alike(one, other) for one, other in pairs) / len(wanted)
        if ratio > most:
            best, most = start, ratio
    return best, most


def _candidates(lines: list[str], wanted: list[str]) -> list[int]:
    """Where a piece may begin, judged by one line of it: the longest, which says most about the place."""
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[anchor].strip()[:_LINE_CHARS])
    scored: list[tuple[float, int]] = []
    least = 0.0
    for index, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:_LINE_CHARS])
        # The quick ratios are upper bounds: most lines need no more.
        if matcher.real_quick_ratio() <= least or matcher.quick_ratio() <= least:
            continue
        scored.append((matcher.ratio(), max(0, index - anchor)))
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        del scored[_CANDIDATES:]
        least = scored[-1][0] if len(scored) == _CANDIDATES else 0.0
    return [start for _, start in scored]


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    return SequenceMatcher(None, one[:_LINE_CHARS], other[:_LINE_CHARS], autojunk=False).ratio()
