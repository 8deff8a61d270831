"""Owns what may be in the text of extensions that a terminal shows: characters, and colours."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Patterns are compiled when a text needs them, not at import: start-up is counted in milliseconds.
_SGR = r"\x1b\[[0-9;:]{0,64}m"
_OTHER = "|".join(
    (
        # Operating system commands end at BEL or ST, the other strings at ST. One without an end is gone,
        # up to the next line or tab where these are kept.
        r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n\t]*(?:\x07|\x1b\\|\x9c)?",
        r"(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n\t]*(?:\x1b\\|\x9c)?",
        r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?",
        r"\x1b[ -/]*[0-~]?",
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f]",
    )
)
_CONTROL = f"(?!{_SGR})(?:{_OTHER})"
_END = r"\r\n|[\r\v\f\x85]"
_BREAK = r"\r\n|[\r\n\v\f\x85\u2028\u2029]"


def one_row(text: str) -> str:
    """The text as one row: SGR colours stay, breaks and tabs become spaces, other controls vanish."""
    if text.isprintable():
        return text
    return re.sub(_CONTROL, "", re.sub(_BREAK, " ", text).replace("\t", " "))


def paragraphs(text: str) -> str:
    """The text with its lines and tabs, colours, and no other control sequences."""
    if text.isprintable():
        return text
    return re.sub(_CONTROL, "", re.sub(_END, "\n", text))


def rows(lines: Sequence[str], most: int, widest: int) -> tuple[list[str], bool]:
    """Every line as one row; one with breaks in it is as many rows as it looks like.

    At most `most` rows of at most `widest` characters, which is seen to before anything is taken apart: the
    time it takes does not depend on what was left out. Also whether anything was.
    """
    found: list[str] = []
    cut = False
    for line in lines:
        room = most - len(found)
        if room <= 0:
            cut = True
            break
        seen = line[: room * (widest + 2)]  # a break is up to two characters
        pieces = re.split(_BREAK, seen, maxsplit=room)
        found += pieces[:room]
        cut = cut or len(pieces) > room or len(seen) < len(line)
    cut = cut or any(len(row) > widest for row in found)
    return [one_row(row[:widest]) for row in found], cut
