"""Owns what a session asks of those who see it, and tells them in the end."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from zotd.store.ring import Published

End: TypeAlias = Literal["closed", "deleted"]  # for everyone who sees it


class Client(Protocol):
    """A front end that sees a session.

    capabilities: what it can show or do for extensions: `panels`, `insert`, `submit`.
    """

    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def full(self) -> bool: ...
    def deliver(self, event: Published) -> None: ...
    async def drained(self) -> None: ...
