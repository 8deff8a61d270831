"""The built-in tools: read, write, edit and bash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from zotd.agent.ports import Tool
from zotd.base.limits import Limits
from zotd.tools.bash import BashTool
from zotd.tools.changes import Changes
from zotd.tools.edit import EditTool
from zotd.tools.read import ReadTool
from zotd.tools.write import WriteTool


def builtin_tools(
    cwd: Path, env: Mapping[str, str], limits: Limits, changes: Changes | None = None
) -> list[Tool]:
    """One session's tools: they work in `cwd`, with `env`. Give them back with `close_tools`.

    changes: asked by those that change files, and told of it.
    """
    changes = changes or Changes(cwd, limits)
    return [
        ReadTool(cwd, env, limits),
        WriteTool(cwd, env, limits, changes),
        EditTool(cwd, env, limits, changes),
        BashTool(cwd, env, limits),
    ]


async def close_tools(tools: Iterable[Tool]) -> None:
    """End what the session's commands left running, within `Limits.bash_kill_s` and a second."""
    for tool in tools:
        if isinstance(tool, BashTool):
            await tool.close()
