"""Owns what extensions submit to their session: prompts, and commands to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from zotd.protocol.frames import (
    FromExtension,
    OpenPanel,
    PanelClose,
    PanelRender,
    RegisterCommand,
    RegisterTool,
    Submit,
    SubmitSlash,
)
from zotd.wire.codec import encode_frame

if TYPE_CHECKING:
    from zotd.extensions.commands import Invocation
    from zotd.extensions.extension import Extension
    from zotd.extensions.surface import Surface

HELD = (RegisterCommand, RegisterTool, OpenPanel, PanelRender, PanelClose, Submit, SubmitSlash)
"""Frames that wait until the set is together: only then it is known whose a name is, and who looks on."""


class Early:
    """What extensions say before the set is together: in order for each, and bounded."""

    def __init__(self, most: int) -> None:
        """most: bytes for each extension."""
        self._most = most
        self._frames: dict[str, list[FromExtension]] = {}
        self._bytes: Counter[str] = Counter()

    def put(self, extension: Extension, frame: FromExtension) -> None:
        """Keep a frame of `HELD`, or tell the log that there is no room for it."""
        size = len(encode_frame(frame))
        if self._bytes[extension.name] + size > self._most:
            tag = frame.__struct_config__.tag
            extension.remark(
                f"{tag} was dropped: more than {self._most:,} bytes came before the start was over"
            )
            return
        self._bytes[extension.name] += size
        self._frames.setdefault(extension.name, []).append(frame)

    def take(self, name: str) -> list[FromExtension]:
        """What an extension has said, once."""
        del self._bytes[name]
        return self._frames.pop(name, [])

    def clear(self) -> None:
        """Forget all of it."""
        self._frames.clear()
        self._bytes.clear()


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
