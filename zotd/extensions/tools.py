"""Owns the tools that extensions offer: whose name is whose, and what happens when the model calls one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from zotd.agent.ports import ToolOutcome
from zotd.agent.toolbox import Toolbox
from zotd.base.limits import Limits
from zotd.extensions.asking import AskFailed, NoAnswer
from zotd.extensions.shadow import Shadow
from zotd.extensions.tool_content import outcome_of
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.frames import RegisterTool, ToolCallFrame, ToolResultFrame

if TYPE_CHECKING:
    from zotd.extensions.extension import Extension
    from zotd.extensions.surface import Surface


BUILT_IN = frozenset({"read", "write", "edit", "bash", "skill"})
"""Names that no extension can take, also where a session goes without the tool."""


class Tools:
    """The registry of one session's extension tools. What is registered here is in the toolbox.

    Names are told apart by case; the first extension that asks gets one and keeps it until the set of
    extensions is loaded anew, also when it is gone: a call must never reach somebody else's tool.
    """

    def __init__(self, toolbox: Toolbox, surface: Surface, limits: Limits) -> None:
        self._toolbox = toolbox
        self._surface = surface
        self._limits = limits
        self._by_name: dict[str, ExtensionTool] = {}

    def claim(self, extension: Extension, frame: RegisterTool) -> str | Shadow:
        """Give a name to an extension. Returns "" or why it cannot have it.

        Registering a tool again replaces what was said about it.
        """
        name = frame.name
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            named = name[: self._limits.log_chars]
            return f"tool {named!r} was refused: expected 1 to 64 of the characters A-Z a-z 0-9 _ -"
        if name in BUILT_IN:
            return Shadow("tool", name)
        owner = self._by_name.get(name)
        if owner is not None and owner.extension.name != extension.name:
            return Shadow("tool", name, owner.extension.name)
        kind = frame.schema.get("type")
        if kind not in (None, "object"):
            return f"tool {name} was refused: the type of its schema is {kind!r}, expected 'object'"
        tool = ExtensionTool(self, extension, frame, {**frame.schema, "type": "object"})
        self._by_name[name] = tool
        self._toolbox.add(tool, owner=extension.name, deferred=frame.deferred)
        return ""

    def release(self, extension: Extension) -> bool:
        """It is gone: its tools are offered no more, and calls of them say so. Whether it had any."""
        lost = [name for name, tool in self._by_name.items() if tool.extension is extension]
        for name in lost:
            self._toolbox.withdraw(name)
        return bool(lost)

    def of(self, extension: str) -> list[str]:
        """The names that an extension owns, deferred ones too; none once it is gone."""
        return [
            name
            for name, tool in self._by_name.items()
            if tool.extension.name == extension and not tool.extension.gone
        ]

    def clear(self, but: Container[str] = ()) -> None:
        """Forget every registration: the set of extensions is loaded anew. What was activated stays so.

        but: extensions whose names stay taken, because they may yet come back.
        """
        for name in [name for name, tool in self._by_name.items() if tool.extension.name not in but]:
            self._toolbox.remove(name)
            del self._by_name[name]

    def obstacle(self, tool: ExtensionTool) -> str:
        """Why a tool cannot be called now, for the model; "" when it can."""
        name, extension = tool.name, tool.extension
        if extension.gone:
            return f"extension {extension.name} is not running"
        if self._toolbox.is_deferred(name):
            return f"tool {name} is not available yet: call the tool that enables it first"
        if tool.interactive and not self._surface.can("panels"):
            return (
                f"tool {name} of extension {extension.name} needs a person at a panel, and nobody who is "
                "attached can show panels; go on without it, or ask the user to run this session from a "
                "client with panels"
            )
        return ""

    def limit_s(self, tool: ExtensionTool) -> float:
        """How long a call may take that waits for no person: as the manifest says, else as all."""
        return tool.extension.located.manifest.tool_timeout or self._limits.tool_s

    async def _unattended(self, patience: asyncio.Timeout) -> None:
        """End a patience when nobody who is attached has been able to show panels for a while."""
        while True:
            while self._surface.can("panels"):
                await self._surface.audience_changed()
            try:
                async with asyncio.timeout(self._limits.panel_wait_s):
                    while not self._surface.can("panels"):
                        await self._surface.audience_changed()
            except TimeoutError:
                if not self._surface.can("panels"):
                    patience.reschedule(asyncio.get_running_loop().time())
                    return

    async def ask(self, tool: ExtensionTool, question: ToolCallFrame) -> ToolResultFrame:
        """Ask its extension, for as long as it makes sense. Raises AskFailed."""
        if not tool.interactive:
            return await tool.extension.ask(question, self.limit_s(tool), ToolResultFrame)
        try:
            async with asyncio.timeout(None) as patience:
                alone = asyncio.ensure_future(self._unattended(patience))
                try:
                    return await tool.extension.ask(question, None, ToolResultFrame)
                finally:
                    alone.cancel()
        except TimeoutError:
            why = f"nobody who can show panels has been attached for {self._limits.panel_wait_s:g} s"
            raise NoAnswer(f"tool {tool.name} was called off: {why}") from None

    def outcome(self, tool: ExtensionTool, answer: ToolResultFrame) -> ToolOutcome:
        """What an answer means. Names to activate count where a tool waits for it; others are logged."""
        outcome = outcome_of(answer, self._limits)
        names = dict.fromkeys(answer.activate_tools)
        if unknown := [name for name in names if not self._is_there(name)]:
            quoted = ", ".join(unknown)[: self._limits.log_chars]
            tool.extension.remark(
                f"activate_tools names what is no tool of an extension, ignored: {quoted!r}"
            )
        activate = tuple(name for name in names if self._is_there(name) and self._toolbox.is_deferred(name))
        return ToolOutcome(outcome.content, outcome.is_error, activate=activate)

    def _is_there(self, name: str) -> bool:
        tool = self._by_name.get(name)
        return tool is not None and not tool.extension.gone


class ExtensionTool:
    """A tool whose work an extension does. `schema` is a JSON Schema of the type `object`."""

    def __init__(
        self, tools: Tools, extension: Extension, frame: RegisterTool, schema: dict[str, Any]
    ) -> None:
        self.name = frame.name
        self.description = frame.description
        self.schema = schema
        self.extension = extension
        self.interactive = frame.interactive
        self._tools = tools

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        """Ask the extension. Whatever goes wrong is an error result that names it."""
        if obstacle := self._tools.obstacle(self):
            return ToolOutcome([Text(obstacle)], is_error=True)
        question = ToolCallFrame(id="", name=self.name, args=call.args)
        try:
            answer = await self._tools.ask(self, question)
        except AskFailed as failure:
            return ToolOutcome([Text(str(failure))], is_error=True)
        return self._tools.outcome(self, answer)
