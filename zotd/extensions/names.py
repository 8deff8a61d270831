"""Owns who gets a name: commands and tools are claimed here, and what an extension lost is remembered."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zotd.base.limits import Limits
from zotd.base.soon import Seldom
from zotd.extensions.commands import Commands
from zotd.extensions.reload import Former
from zotd.extensions.shadow import Shadow
from zotd.extensions.tools import Tools
from zotd.protocol.events import Event, ExtRegistered
from zotd.protocol.frames import RegisterCommand, RegisterTool
from zotd.protocol.session import ShadowedName

if TYPE_CHECKING:
    from zotd.extensions.extension import Extension


class Names:
    """The names of one session's extensions."""

    def __init__(
        self,
        commands: Commands,
        tools: Tools,
        former: Former,
        publish: Callable[[Event], None],
        limits: Limits,
    ) -> None:
        """former: what belongs to those that have not come back from a reload."""
        self._commands = commands
        self._tools = tools
        self._former = former
        self._publish = publish
        self._limits = limits
        self._given: dict[Extension, tuple[set[str], set[str]]] = {}  # tools, commands
        self._announcing: dict[Extension, Seldom] = {}
        self._lost: dict[Extension, dict[str, ShadowedName]] = {}

    def register(self, extension: Extension, frame: RegisterCommand | RegisterTool) -> None:
        """Give a name to an extension, or tell its log why it cannot have it."""
        if extension.gone:
            return
        key = frame.name if isinstance(frame, RegisterTool) else "/" + frame.name.removeprefix("/").casefold()
        refused = self._excess(extension, key) or self._claim(extension, frame)
        lost = self._lost.setdefault(extension, {})
        if isinstance(refused, Shadow):
            lost[key] = ShadowedName(kind=refused.kind, name=refused.name, by=refused.by or None)
        else:
            lost.pop(key, None)
        if not refused:
            self._given[extension][key.startswith("/")].add(key)
        if refused:
            extension.remark(str(refused))

    def announce(self, extension: Extension) -> None:
        """Tell what it offers, unless it is gone; it may be told together with what comes next."""
        if extension not in self._announcing:
            self._announcing[extension] = Seldom(partial(self._tell, extension))
        self._announcing[extension]()

    def lost(self, extension: Extension) -> list[ShadowedName]:
        """What it wanted and others have."""
        return [*self._lost.get(extension, {}).values()]

    def forget(self, extension: Extension) -> None:
        """It is gone, and wants nothing any more."""
        self._lost.pop(extension, None)
        self._given.pop(extension, None)
        self._announcing.pop(extension, None)

    def _tell(self, extension: Extension) -> None:
        if not extension.gone:
            name = extension.name
            offers = self._commands.of(name), self._tools.of(name)
            lost = self.lost(extension)
            self._publish(ExtRegistered(extension=name, commands=offers[0], tools=offers[1], shadowed=lost))

    def _excess(self, extension: Extension, key: str) -> str:
        """Why it can have no further name of the kind of this one."""
        given = self._given.setdefault(extension, (set(), set()))[key.startswith("/")]
        if key.startswith("/"):
            what, most = "commands", self._limits.commands_per_extension
        else:
            what, most = "tools", self._limits.tools_per_extension
        if key in given or len(given) < most:
            return ""
        return f"{key} was refused: an extension can have {most:,} {what}"

    def _claim(self, extension: Extension, frame: RegisterCommand | RegisterTool) -> str | Shadow:
        if isinstance(frame, RegisterTool):
            return self._tools.claim(extension, frame)
        kept = self._former.shadow_of(frame.name, extension.name)
        return kept or self._commands.claim(frame.name, frame.description, extension.name)
