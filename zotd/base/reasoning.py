"""Owns the levels of reasoning that can be asked for, and their other spellings."""

LEVELS = ("off", "minimum", "low", "medium", "high", "xhigh", "max")

SAME = {"off": "", "minimal": "minimum", "maximum": "max"}
"""What a spelling is kept as; a session that was told `off` reports an empty level."""
