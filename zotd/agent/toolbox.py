"""Owns which tools a model is told about, and which it can call: built-in ones first, then extensions'."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from zotd.agent.ports import Tool


class Toolbox:
    """The tools of one session. A deferred tool is told to the model only once it was activated.

    What was activated stays so for the session: also for a tool that registers later, or again.
    """

    def __init__(self, builtin: Mapping[str, Tool]) -> None:
        self._tools: dict[str, Tool] = dict(builtin)
        self._owners: dict[str, str] = {}
        self._deferred: set[str] = set()
        self._activated: set[str] = set()
        self._withdrawn: set[str] = set()
        self._running = 0
        self._waiting: list[asyncio.Future[None]] = []

    def add(self, tool: Tool, *, owner: str = "", deferred: bool = False) -> None:
        """Offer a tool, in place of one of the same name that was offered before.

        owner: the extension it belongs to, which every result of the tool names; empty for a built-in one.
        """
        name = tool.name
        self._tools[name] = tool
        self._owners[name] = owner
        self._withdrawn.discard(name)
        self._deferred.discard(name)
        if deferred:
            self._deferred.add(name)

    def withdraw(self, name: str) -> None:
        """Tell the model about it no more. A call still reaches it, so that it can say why it cannot run."""
        self._withdrawn.add(name)

    def remove(self, name: str) -> None:
        """Forget a tool, but not that it was activated."""
        self._tools.pop(name, None)
        self._owners.pop(name, None)
        self._deferred.discard(name)
        self._withdrawn.discard(name)

    def offered(self) -> tuple[Tool, ...]:
        """What the next request tells the model."""
        return tuple(
            tool
            for name, tool in self._tools.items()
            if name not in self._withdrawn and not self.is_deferred(name)
        )

    def get(self, name: str) -> Tool | None:
        """What a call of that name reaches."""
        return self._tools.get(name)

    def owner(self, name: str) -> str:
        """The extension that a tool belongs to; empty for a built-in or unknown one."""
        return self._owners.get(name, "")

    @contextmanager
    def running(self) -> Iterator[None]:
        """While one of the tools runs."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                for waiting in self._waiting:
                    if not waiting.done():
                        waiting.set_result(None)
                self._waiting.clear()

    async def calm(self) -> None:
        """Until none of them runs."""
        while self._running:
            self._waiting.append(ended := asyncio.get_running_loop().create_future())
            await ended

    def names(self) -> list[str]:
        """Names of the offered tools."""
        return [tool.name for tool in self.offered()]

    def listed(self) -> list[tuple[Tool, bool, bool]]:
        """Every tool that can be had, whether it was registered as deferred, and whether it is offered."""
        offered = {*self.names()}
        return [
            (tool, name in self._deferred, name in offered)
            for name, tool in self._tools.items()
            if name not in self._withdrawn
        ]

    def is_deferred(self, name: str) -> bool:
        """Whether a tool still waits to be activated."""
        return name in self._deferred and name not in self._activated

    def activate(self, names: Iterable[str]) -> list[str]:
        """Offer deferred tools from now on, those of these names that register later too.

        Returns the names that are newly offered by this.
        """
        names = [*dict.fromkeys(names)]
        changed = [name for name in names if self.is_deferred(name)]
        self._activated.update(names)
        return changed
