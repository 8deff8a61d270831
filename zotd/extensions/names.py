"""Owns who gets a name: commands and tools are claimed here, and what an extension lost is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotd.extensions.commands import Commands
from zotd.extensions.reload import Former
from zotd.extensions.shadow import Shadow
from zotd.extensions.tools import Tools
from zotd.protocol.frames import RegisterCommand, RegisterTool
from zotd.protocol.session import ShadowedName

if TYPE_CHECKING:
    from zotd.extensions.extension import Extension


class Names:
    """The names of one session's extensions."""

    def __init__(self, commands: Commands, tools: Tools, former: Former) -> None:
        """former: what belongs to those that have not come back from a reload."""
        self._commands = commands
        self._tools = tools
        self._former = former
        self._lost: dict[Extension, dict[str, ShadowedName]] = {}

    def register(self, extension: Extension, frame: RegisterCommand | RegisterTool) -> None:
        """Give a name to an extension, or tell its log why it cannot have it."""
        if extension.gone:
            return
        refused = self._claim(extension, frame)
        key = frame.name if isinstance(frame, RegisterTool) else "/" + frame.name.removeprefix("/").casefold()
        lost = self._lost.setdefault(extension, {})
        if isinstance(refused, Shadow):
            lost[key] = ShadowedName(kind=refused.kind, name=refused.name, by=refused.by or None)
        else:
            lost.pop(key, None)
        if refused:
            extension.remark(str(refused))

    def lost(self, extension: Extension) -> list[ShadowedName]:
        """What it wanted and others have."""
        return [*self._lost.get(extension, {}).values()]

    def forget(self, extension: Extension) -> None:
        """It is gone, and wants nothing any more."""
        self._lost.pop(extension, None)

    def _claim(self, extension: Extension, frame: RegisterCommand | RegisterTool) -> str | Shadow:
        if isinstance(frame, RegisterTool):
            return self._tools.claim(extension, frame)
        kept = self._former.shadow_of(frame.name, extension.name)
        return kept or self._commands.claim(frame.name, frame.description, extension.name)
