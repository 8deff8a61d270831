"""Owns the extensions of one session: starts them together, knows what they offer, stops them together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from zotd.base.limits import Limits
from zotd.base.paths import extension_log
from zotd.extensions.asking import AskFailed, ExtensionGone
from zotd.extensions.commands import CommandInfo, Commands, Invocation
from zotd.extensions.discovery import Discovery, LoadError, Located
from zotd.extensions.extension import Extension, Surroundings
from zotd.protocol.events import Event, ExtClearNotes, ExtNotify, ExtRegistered, ExtState
from zotd.protocol.frames import (
    ClearNotes,
    CommandInvoked,
    CommandResponse,
    FromExtension,
    Notify,
    PanelClose,
    PanelSpec,
    RegisterCommand,
)
from zotd.protocol.session import ExtensionInfo, ExtensionState, NoteLevel

__all__ = ["CommandAnswer", "CommandInfo", "ExtensionHost", "Invocation"]

Action: TypeAlias = Literal["prompt", "insert", "display", "open_panel", "noop"]
LEVELS: frozenset[str] = frozenset(get_args(NoteLevel))


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What became of a command. The session shows it; nothing was emitted for it yet.

    text: the prompt, the text to insert or to display, or the lines of the panel; empty for `noop`.
    error: for the user, whatever the action.
    """

    extension: str
    name: str
    action: Action
    text: str
    error: str | None
    panel: PanelSpec | None = None


class ExtensionHost:
    """The extensions of a session. Everything that runs belongs to `tasks`; events leave through `emit`."""

    def __init__(
        self,
        discovery: Discovery,
        *,
        home: Path,
        cwd: Path,
        env: Mapping[str, str],
        provider: str,
        model: str,
        session_id: str,
        limits: Limits,
        emit: Callable[[Event], None],
        drained: Callable[[], Awaitable[None]],
        tasks: asyncio.TaskGroup,
    ) -> None:
        """env: what extensions get, before ours is added. provider, model: told in the handshake.

        drained: awaited between two reads from an extension, while whoever sees the events is behind.
        """
        self._discovery = discovery
        self._home = home
        self._limits = limits
        self._emit = emit
        self._tasks = tasks
        self._commands = Commands()
        self._together = True
        self._early: dict[str, list[RegisterCommand]] = {}
        around = Surroundings(home, cwd, env, provider, model, session_id)
        self._extensions = {
            located.name: Extension(located, around, limits, self._hear, self._changed, drained)
            for located in discovery.found
            if located.manifest.exec
        }

    # Life

    async def start(self) -> None:
        """Start all at once; return when each is ready or has failed, at the latest after the time they
        get together. Names are given out then, in load order; slower extensions join when they are ready.
        """
        for error in self._discovery.errors:
            self._emit(ExtState(extension=error.extension, state="failed", error=str(error)))
            self._emit(ExtNotify(extension=error.extension, level="error", message=str(error)))
        for located in self._discovery.untrusted:
            self._emit(ExtState(extension=located.name, state="untrusted"))
        for extension in self._extensions.values():
            self._emit(ExtState(extension=extension.name, state="starting"))
            self._tasks.create_task(extension.live(), name=f"extension {extension.name}")
        try:
            async with asyncio.timeout(self._limits.ready_together_s):
                for extension in self._extensions.values():
                    await extension.settled.wait()
        except TimeoutError:
            pass
        self._together = False
        for extension in self._extensions.values():
            for frame in self._early.pop(extension.name, ()):
                self._register(extension, frame)
            if extension.settled.is_set():
                self._announce(extension)

    async def stop(self) -> None:
        """Stop all together: `shutdown` and the end of input, then SIGTERM, then SIGKILL."""
        async with asyncio.TaskGroup() as stopping:
            for extension in self._extensions.values():
                stopping.create_task(extension.stop(), name=f"stop {extension.name}")

    # Commands

    def commands(self) -> list[CommandInfo]:
        """Every command that can be run, in the order the names were given out."""
        return self._commands.all()

    def find(self, text: str) -> Invocation | None:
        """The command that a prompt is, or None: `/name` and arguments on one line, any case."""
        return self._commands.find(text)

    async def invoke(self, invocation: Invocation) -> CommandAnswer:
        """Run a command. Failures are answers with an `error`; only cancellation is raised."""
        whose, name = invocation.extension, invocation.name
        try:
            extension = self._extensions.get(whose)
            if extension is None:
                raise ExtensionGone(f"extension {whose} is not running")
            question = CommandInvoked(id="", name=name, args=invocation.args)
            response = await extension.ask(question, self._limits.command_s, CommandResponse)
        except AskFailed as failure:
            return CommandAnswer(whose, name, "noop", "", str(failure))
        return self._read(extension, name, response)

    def _read(self, extension: Extension, name: str, response: CommandResponse) -> CommandAnswer:
        panel = response.open_panel
        texts: dict[Action, str] = {
            "prompt": response.prompt,
            "insert": response.insert,
            "display": response.display,
            "open_panel": "\n".join(panel.lines) if panel else "",
            "noop": "",
        }
        action = next((known for known in texts if known == (response.action or "noop")), None)
        if action is None:
            wrong = f"command /{name} of extension {extension.name} answered with {response.action!r}"
            error = f"{wrong}; expected one of: {', '.join(texts)}"
            return CommandAnswer(extension.name, name, "noop", "", response.error or error)
        text = texts[action]
        if action != "open_panel":
            return CommandAnswer(extension.name, name, action, text, response.error or None)
        if panel is not None and not response.error:
            self._refuse_panel(extension, panel)
        return CommandAnswer(extension.name, name, action, text, response.error or None, panel)

    def _refuse_panel(self, extension: Extension, panel: PanelSpec) -> None:
        extension.remark(f"panel {panel.id!r} was closed: this version shows its lines once and no panels")
        try:
            extension.send(PanelClose(panel_id=panel.id))
        except AskFailed as failure:
            extension.remark(f"panel_close was not sent: {failure}")

    # What extensions say

    def _hear(self, extension: Extension, frame: FromExtension) -> None:
        match frame:
            case Notify(message=message, level=level):
                known: NoteLevel = level if level in LEVELS else "info"  # type: ignore[assignment]
                self._emit(ExtNotify(extension=extension.name, level=known, message=message))
            case ClearNotes():
                self._emit(ExtClearNotes(extension=extension.name))
            case RegisterCommand() if self._together:
                self._early.setdefault(extension.name, []).append(frame)
            case RegisterCommand():
                self._register(extension, frame)
                if extension.settled.is_set():
                    self._announce(extension)
            case _:
                extension.remark(f"{frame.__struct_config__.tag} is not handled by this version of zotd")

    def _register(self, extension: Extension, frame: RegisterCommand) -> None:
        if extension.gone:
            return
        if refused := self._commands.claim(frame.name, frame.description, extension.name):
            extension.remark(refused)

    def _announce(self, extension: Extension) -> None:
        if not extension.gone:
            commands = self._commands.of(extension.name)
            self._emit(ExtRegistered(extension=extension.name, commands=commands, tools=[]))

    def _changed(self, extension: Extension) -> None:
        """It became ready, failed or stopped."""
        self._emit(ExtState(extension=extension.name, state=extension.state, error=extension.error))
        if not extension.gone:
            if not self._together:
                self._announce(extension)
            return
        if self._commands.release(extension.name):
            self._emit(ExtRegistered(extension=extension.name, commands=[], tools=[]))
        if extension.error and not extension.settled.is_set():
            self._emit(ExtNotify(extension=extension.name, level="error", message=extension.error))

    # What there is

    def states(self) -> list[ExtensionInfo]:
        """One row for each extension that was found, whatever became of it, in load order."""
        found = self._discovery
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
            tools=[],
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
