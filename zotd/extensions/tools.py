"""Owns the tools that extensions offer: whose name is whose, and what happens when the model calls one."""

from __future__ import annotations

from zotd.agent.toolbox import Toolbox
from zotd.base.limits import Limits
from zotd.extensions.extension import Extension
from zotd.extensions.surface import Surface
from zotd.protocol.frames import RegisterTool


class Tools:
    """The registry of one session's extension tools. What is registered here is in the toolbox."""

    def __init__(self, toolbox: Toolbox, surface: Surface, limits: Limits) -> None:
        self._toolbox = toolbox
        self._surface = surface
        self._limits = limits

    def claim(self, extension: Extension, frame: RegisterTool) -> str:
        """Give a name to an extension. Returns "" or why it cannot have it."""
        return ""

    def release(self, extension: Extension) -> bool:
        """It is gone: its tools are offered no more, and calls of them say so. Whether it had any."""
        return False

    def of(self, extension: str) -> list[str]:
        """The names that an extension owns."""
        return []

    def clear(self) -> None:
        """Forget every registration: the set of extensions is loaded anew."""
