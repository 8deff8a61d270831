"""Owns how extensions are listed: a row for each that was found, whatever became of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.base.paths import extension_log
from zotd.extensions.discovery import Discovery, LoadError, Located
from zotd.protocol.events import ExtState
from zotd.protocol.session import ExtensionInfo, ExtensionState

if TYPE_CHECKING:
    from zotd.extensions.commands import Commands
    from zotd.extensions.extension import Extension
    from zotd.extensions.names import Names
    from zotd.extensions.tools import Tools


class Listing:
    """What there is in one session: `found` on disk, `extensions` by name for those with a process."""

    def __init__(
        self,
        found: Discovery,
        extensions: Mapping[str, Extension],
        commands: Commands,
        tools: Tools,
        names: Names,
        home: Path,
    ) -> None:
        self._found = found
        self._extensions = extensions
        self._commands = commands
        self._tools = tools
        self._names = names
        self._home = home

    def rows(self) -> list[ExtensionInfo]:
        """In load order; then what is disabled, shadowed, not trusted, and broken."""
        found = self._found
        rows = [self._row(located) for located in found.found]
        rows += [self._row(located, "disabled") for located in found.disabled]
        rows += [self._row(located, "shadowed") for located in found.shadowed]
        rows += [self._row(located, "untrusted") for located in found.untrusted]
        return rows + [self._broken(error) for error in found.errors]

    def _row(self, located: Located, state: ExtensionState = "ready") -> ExtensionInfo:
        """The state of one that has a process is the process's; what brings only a theme is always ready."""
        running = self._extensions.get(located.name) if state == "ready" else None
        return ExtensionInfo(
            name=located.name,
            version=located.manifest.version,
            dir=str(located.directory),
            scope=located.scope,
            state=running.state if running else state,
            error=running.error if running else None,
            log_path=str(extension_log(self._home, located.name)),
            commands=self._commands.of(located.name) if running else [],
            tools=self._tools.of(located.name) if running else [],
            shadowed=self._names.lost(running) if running else [],
        )

    def _broken(self, error: LoadError) -> ExtensionInfo:
        return ExtensionInfo(
            name=error.extension,
            version="",
            dir=str(error.directory),
            scope=error.scope,
            state="failed",
            error=str(error),
            log_path=str(extension_log(self._home, error.extension)),
            commands=[],
            tools=[],
        )


def life_event(row: ExtensionInfo) -> ExtState:
    """What is told when an extension came to where its row says it is."""
    return ExtState(
        extension=row.name,
        state=row.state,
        error=row.error,
        version=row.version,
        dir=row.dir,
        scope=row.scope,
        log_path=row.log_path,
    )
