"""Owns what may be in the text of extensions that a terminal shows: characters, and colours."""

from __future__ import annotations

import re

_SGR = r"\x1b\[[0-9;:]{0,64}m"
_OTHER = "|".join(
    (
        # Operating system commands end at BEL or ST, the other strings at ST. One without an end is gone.
        r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?",
        r"(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)?",
        r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?",
        r"\x1b[ -/]*[0-~]?",
        r"[\x00-\x1f\x7f-\x9f\u2028\u2029]",
    )
)
_CONTROL = re.compile(f"({_SGR})|{_OTHER}")
_BREAK = re.compile(r"\r\n|[\r\n\v\f\x85\u2028\u2029]")


def one_row(text: str) -> str:
    """The text as one row: SGR colours stay, breaks and tabs become spaces, other controls vanish."""
    return _CONTROL.sub(r"\1", _BREAK.sub(" ", text).replace("\t", " "))


def paragraphs(text: str) -> str:
    """The text with its lines and tabs, colours, and no other control sequences."""
    return "\n".join("\t".join(one_row(cell) for cell in row.split("\t")) for row in _BREAK.split(text))


def rows(lines: list[str]) -> list[str]:
    """Every line as one row; one with breaks in it is as many rows as it looks like."""
    return [one_row(row) for line in lines for row in _BREAK.split(line)]
