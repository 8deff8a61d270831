"""Owns the `write` tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from zotd.agent.ports import ToolFailed, ToolOutcome
from zotd.base.limits import Limits
from zotd.protocol.content import Text
from zotd.tools.changes import Changes
from zotd.tools.typed import FileTool


class WriteArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="File to write: absolute, from ~, or relative to the working directory")
    ]
    content: Annotated[str, Meta(description="The whole new content of the file")]


class WriteTool(FileTool[WriteArguments]):
    """Makes or replaces a file for the model."""

    name = "write"
    description = (
        "Write a file, making it and the directories above it, or replacing its whole content. "
        "To change parts of a file, use edit."
    )
    arguments = WriteArguments

    def __init__(self, cwd: Path, env: Mapping[str, str], limits: Limits, changes: Changes) -> None:
        super().__init__(cwd, env.get("HOME", ""), limits.off_loop_bytes)
        self._changes = changes

    async def work(self, arguments: WriteArguments, progress: Callable[[str], None]) -> ToolOutcome:
        path = self.locate(arguments.path)
        try:
            data = arguments.content.encode()
        except UnicodeEncodeError as error:
            raise ToolFailed(f"$.content: it is no text: half a surrogate pair at {error.start}") from error
        self._changes.refuse_unsaved(path)
        weight = self._changes.weight(path, data)
        made = await self.on_file(path, weight, self._changes.replace, self._changes.turn, path, data)
        return ToolOutcome([Text(f"{'made' if made else 'replaced'} {path} ({len(data)} bytes)")])
