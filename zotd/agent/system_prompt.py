"""Owns the words a model is given before the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zotd.agent.ports import Tool

_WITH_TOOLS = """\
You are a coding agent working in the user's project through the tools below. Look before you change \
anything, change only what was asked, and check your work. Answer briefly and in plain words.

Working directory: {cwd}

Tools: {tools}."""

_WITHOUT = "You are a friendly assistant. Answer briefly, in plain words and whole sentences."


def system_prompt(cwd: Path, tools: Sequence[Tool], replace: str = "", append: Sequence[str] = ()) -> str:
    """The system prompt; `replace` stands in for ours, each of `append` follows as a paragraph."""
    ours = _WITH_TOOLS.format(cwd=cwd, tools=", ".join(tool.name for tool in tools)) if tools else _WITHOUT
    return "\n\n".join([replace or ours, *append])
