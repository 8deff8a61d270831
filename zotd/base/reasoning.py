"""Owns the levels of reasoning that can be asked for, and their other spellings."""

LEVELS = ("off", "minimum", "low", "medium", "high", "xhigh", "max")

SAME = {"off": "", "minimal": "minimum", "maximum": "max"}
"""What a spelling is kept as; a session that was told `off` reports an empty level."""


def named(level: str) -> str:
    """A level as somebody named it, in its one spelling. `off` stays: unlike nothing, it is a choice."""
    return level if level == "off" else SAME.get(level, level)
