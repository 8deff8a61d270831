"""Owns the words a model is given before the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zotd.agent.ports import Tool

_DEFAULT = """\
You are a coding agent working in the user's project through the tools below. Look before you change \
anything, change only what was asked, and check your work. Answer briefly and in plain words.

Working directory: {cwd}"""


def system_prompt(cwd: Path, tools: Sequence[Tool], replace: str = "", append: Sequence[str] = ()) -> str:
    """The system prompt; `replace` stands in for ours, each of `append` follows as a paragraph."""
    parts = [replace or _DEFAULT.format(cwd=cwd)]
    if tools and not replace:
        parts.append("Tools: " + ", ".join(tool.name for tool in tools) + ".")
    return "\n\n".join([*parts, *append])
