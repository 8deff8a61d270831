"""Owns who observes and who decides: subscriptions of extensions, and the questions they are asked.

Interceptors are asked one after the other in load order; the first that blocks wins, and each sees what the
ones before it made of the arguments or the text.
"""

from __future__ import annotations

from zotd.agent.ports import Allowed, Verdict
from zotd.base.limits import Limits
from zotd.extensions.extension import Extension
from zotd.extensions.surface import Surface
from zotd.protocol.content import ToolCall
from zotd.protocol.events import Event
from zotd.protocol.frames import Subscribe


class Interception:
    """The subscriptions of one session. It is the loop's `Hooks`."""

    def __init__(self, surface: Surface, limits: Limits) -> None:
        self._surface = surface
        self._limits = limits

    def subscribe(self, extension: Extension, frame: Subscribe) -> None:
        """Add to what `extension` observes and decides on; unknown names go to its log."""

    def release(self, extension: Extension) -> None:
        """It is gone: nobody asks it any more."""

    def started(self, extension: Extension) -> None:
        """It is ready: tell it that the session has started, if it wants to know."""

    def observe(self, event: Event) -> None:
        """Hand an event to those who subscribed to it."""

    def withholding(self) -> list[str]:
        return []

    async def turn_start(self, step: int) -> Verdict:
        return Allowed()

    async def tool_call(self, call: ToolCall) -> Verdict:
        return Allowed(args=call.args)

    async def assistant_message(self, text: str) -> Verdict:
        return Allowed(text=text)
