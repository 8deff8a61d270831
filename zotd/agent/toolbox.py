"""Owns which tools a model is told about, and which it can call: built-in ones first, then extensions'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zotd.agent.ports import Tool


class Toolbox:
    """The tools of one session. A deferred tool is told to the model only once it was activated."""

    def __init__(self, builtin: Mapping[str, Tool]) -> None:
        self._tools: dict[str, Tool] = dict(builtin)
        self._deferred: set[str] = set()

    def add(self, tool: Tool, *, deferred: bool = False) -> None:
        """Offer a tool, in place of one of the same name that was offered before."""
        self._tools[tool.name] = tool
        self._deferred.discard(tool.name)
        if deferred:
            self._deferred.add(tool.name)

    def offered(self) -> tuple[Tool, ...]:
        """What the next request tells the model."""
        return tuple(tool for name, tool in self._tools.items() if name not in self._deferred)

    def get(self, name: str) -> Tool | None:
        """What a call of that name reaches."""
        return self._tools.get(name)

    def names(self) -> list[str]:
        """Names of the offered tools."""
        return [tool.name for tool in self.offered()]

    def activate(self, names: Iterable[str]) -> list[str]:
        """Offer deferred tools from now on; unknown names are ignored. Returns those that changed."""
        changed = [name for name in dict.fromkeys(names) if name in self._deferred]
        self._deferred.difference_update(changed)
        return changed
