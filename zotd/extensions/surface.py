"""Owns what the extensions of a session need of it."""

from __future__ import annotations

from typing import Protocol

from zotd.extensions.commands import Invocation
from zotd.protocol.events import Event


class Surface(Protocol):
    """The session as its extensions see it."""

    def publish(self, event: Event, turn_id: str = "") -> None:
        """Show something to whoever is attached. turn_id: the command or turn whose answer it is."""
        ...

    @property
    def full(self) -> bool:
        """Whether somebody who sees the events is behind."""
        ...

    async def drained(self) -> None:
        """Wait, within a bound, while whoever sees the events is behind."""
        ...

    def can(self, capability: str) -> bool:
        """Whether an attached client declared a capability: `panels`, `insert`, `submit`."""
        ...

    async def audience_changed(self) -> None:
        """Until a client comes or goes."""
        ...

    def prompt(self, text: str, extension: str) -> str:
        """Take a prompt of an extension, in turn with everybody else's. Returns "" or why it cannot wait."""
        ...

    def built_in(self, text: str) -> Invocation | None:
        """The session's own command that a text is, or None. It names no extension."""
        ...

    def run(self, invocation: Invocation, extension: str) -> None:
        """Run a command now for an extension, as if somebody had typed it."""
        ...

    def failed(self, extension: str, message: str) -> None:
        """Show a failure that stands until somebody clears the notes, however many prompts follow."""
        ...

    def renewed(self) -> None:
        """Extensions are loaded anew: what failed before stands no longer."""
        ...
