"""Owns what a reload leaves behind: its outcome, and what must not change hands because it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from pathlib import Path

from zotd.agent.ports import Hooks, Refused, Verdict
from zotd.extensions.absent import Absent
from zotd.extensions.discovery import MANIFEST, Discovery
from zotd.extensions.shadow import Shadow
from zotd.protocol.content import ToolCall


@dataclass(frozen=True, slots=True)
class ReloadError:
    """One extension that is not as the user wants it. `path`: its directory."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did, by names. stopped: what ran before. loaded: what the manifests name now.

    ready: what of it came up in the time a set gets together. errors: everything that is wrong, in full.
    """

    stopped: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    errors: list[ReloadError] = field(default_factory=list)

    @classmethod
    def never(cls, cwd: Path) -> Reloaded:
        """What a reload did that the end of its session, which works in `cwd`, cut short."""
        return cls(errors=[ReloadError(str(cwd), "the session ended while its extensions were loaded anew")])

    @classmethod
    def broken(cls, cwd: Path, bug: BaseException) -> Reloaded:
        """What a reload did that a mistake of ours ended."""
        return cls(errors=[ReloadError(str(cwd), f"internal error: {type(bug).__name__}: {bug}")])


class Former:
    """What belonged to whom before a reload. What has not come back keeps it: a guard that fails to start
    again must not give way to what it stood in front of.
    """

    def __init__(self) -> None:
        self._directories: dict[Path, str] = {}
        self._commands: dict[str, str] = {}

    def shadow(self, found: Discovery) -> set[str]:
        """Keep a broken manifest's former name from going to another extension of that name.

        Returns the names that are expected: those found, and those whose manifest is broken.
        """
        broken = {
            self._directories[error.directory]
            for error in found.errors
            if error.path.name == MANIFEST and error.directory in self._directories  # else it was removed
        }
        for located in [located for located in found.found if located.name in broken]:
            if self._directories.get(located.directory) != located.name:
                found.found.remove(located)
                found.shadowed.append(located)
        self._directories |= {located.directory: located.name for located in found.found}
        return broken | {located.name for located in found.found}

    def remember(self, commands: dict[str, str]) -> None:
        """These names, whose owners are the values, are given up for a reload."""
        self._commands |= {name.casefold(): owner for name, owner in commands.items()}

    def expect(self, extensions: Container[str]) -> None:
        """Whoever is not among these will not come back: its names are free."""
        self._commands = {name: owner for name, owner in self._commands.items() if owner in extensions}

    def back(self, extension: str) -> None:
        """It came up again: what it does not register now is free."""
        self._commands = {name: owner for name, owner in self._commands.items() if owner != extension}

    def shadow_of(self, command: str, extension: str) -> Shadow | None:
        """Why `extension` cannot have a command; None when it can."""
        name = command.removeprefix("/")
        owner = self._commands.get(name.casefold(), extension)
        return None if owner == extension else Shadow("command", name, owner, "had it and has not come back")


class SteadyHooks:
    """Hooks that hold while the extensions behind them are loaded anew.

    Nothing is decided while who decides is away, nor by a set that was stopped in the middle of a decision.
    """

    def __init__(
        self,
        hooks: Hooks,
        absent: Absent,
        generation: Callable[[], int],
        loaded: Callable[[], Awaitable[None]],
    ) -> None:
        """absent: who decided before and is not back though all were loaded.

        generation: changes when extensions are stopped. loaded: waits until they were started again.
        """
        self._hooks = hooks
        self._absent = absent
        self._generation = generation
        self._loaded = loaded
        self._deciding = 0
        self._decided = asyncio.Event()

    async def decided(self) -> None:
        """Until no decision is under way."""
        while self._deciding:
            self._decided.clear()
            await self._decided.wait()

    def withholding(self) -> list[str]:
        """As the hooks behind it, and who is on the way back there."""
        return [*self._hooks.withholding(), *self._absent.withholding()]

    async def turn_start(self, step: int) -> Verdict:
        """As the hooks behind it, once these are loaded."""
        return await self._decide("turn_start", lambda: self._hooks.turn_start(step))

    async def tool_call(self, call: ToolCall) -> Verdict:
        """As the hooks behind it, once these are loaded."""
        return await self._decide("tool_call", lambda: self._hooks.tool_call(call))

    async def assistant_message(self, text: str) -> Verdict:
        """As the hooks behind it, once these are loaded."""
        return await self._decide("assistant_message", lambda: self._hooks.assistant_message(text))

    async def _decide(self, event: str, ask: Callable[[], Awaitable[Verdict]]) -> Verdict:
        waited = -1
        while True:
            await self._loaded()
            generation = self._generation()
            if self._absent and waited != generation:
                await self._absent.wait(event)
                waited = generation
                continue
            self._deciding += 1
            try:
                verdict = await ask()
            finally:
                self._deciding -= 1
                self._decided.set()
            if isinstance(verdict, Refused):
                return verdict
            if generation == self._generation():
                self._absent.allowed(event)
                return verdict
