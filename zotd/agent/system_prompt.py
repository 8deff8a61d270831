"""Owns the words a model is given before the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from zotd.agent.ports import Tool

_WITH_TOOLS = """\
You are a coding agent working in the user's project through the tools below. Look before you change \
anything, change only what was asked, and check your work. Answer briefly and in plain words.

Working directory: {cwd}

Tools: {tools}."""

_WITHOUT = "You are a friendly assistant. Answer briefly, in plain words and whole sentences."

_INSTRUCTIONS = """\
Files of the project that tell agents how to work in it. Where two disagree, the later one holds."""

_SKILLS = """\
Skills are instructions for kinds of task. When a task fits one, load it with the `skill` tool before you \
begin; leave the others alone."""


def system_prompt(
    cwd: Path,
    tools: Sequence[Tool],
    replace: str = "",
    append: Sequence[str] = (),
    *,
    instructions: Mapping[Path, str] | None = None,
    skills: str = "",
) -> str:
    """The system prompt: ours or `replace`, then instructions by their path, then the list of skills.

    Each of `append` follows as a paragraph.
    """
    ours = _WITH_TOOLS.format(cwd=cwd, tools=", ".join(tool.name for tool in tools)) if tools else _WITHOUT
    return "\n\n".join([replace or ours, *_brought(instructions or {}, skills), *append])


def _brought(instructions: Mapping[Path, str], skills: str) -> Iterator[str]:
    if instructions:
        yield _INSTRUCTIONS
    for path, text in instructions.items():
        yield f'<instructions path="{path}">\n{text}\n</instructions>'
    if skills:
        yield f"{_SKILLS}\n\n{skills}"
