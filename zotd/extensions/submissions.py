"""Owns what extensions submit to their session: prompts, and commands to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zotd.protocol.frames import (
    OpenPanel,
    PanelClose,
    PanelRender,
    RegisterCommand,
    RegisterTool,
    Submit,
    SubmitSlash,
)

if TYPE_CHECKING:
    from zotd.extensions.commands import Invocation
    from zotd.extensions.extension import Extension
    from zotd.extensions.surface import Surface

HELD = (RegisterCommand, RegisterTool, OpenPanel, PanelRender, PanelClose, Submit, SubmitSlash)
"""Frames that wait until the set is together: only then it is known whose a name is, and who looks on."""


class Submissions:
    """What is taken, and of whom. What is not taken is a line in the log of whoever submitted it."""

    def __init__(self, surface: Surface, find: Callable[[str], Invocation | None]) -> None:
        """find: the command of an extension that a text is."""
        self._surface = surface
        self._find = find

    def prompt(self, extension: Extension, text: str) -> None:
        """Hand on a prompt, where a client takes such ones. Blank text is ignored."""
        if not text.strip():
            return
        if self._surface.can("submit"):
            if why := self._surface.prompt(text, extension.name):
                extension.remark(f"submit was dropped: {why}")
        else:
            extension.remark("submit was ignored: no attached client takes prompts of extensions")

    def slash(self, extension: Extension, text: str) -> None:
        """Run a command: its own at any time, another one where a client takes such things."""
        invocation = self._find(text) or self._surface.built_in(text) if text.startswith("/") else None
        if invocation is None:
            extension.remark(
                f"submit_slash was dropped: {text!r} is no registered command; expected /name args"
            )
        elif invocation.extension == extension.name or self._surface.can("submit"):
            self._surface.run(invocation, extension.name)
        else:
            extension.remark(f"submit_slash {text!r} was ignored: no attached client takes it")
