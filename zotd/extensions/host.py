"""Owns the extensions of one session: starts them together, knows what they offer, stops them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from zotd.agent.toolbox import Toolbox
from zotd.base.limits import Limits
from zotd.base.paths import extension_log
from zotd.extensions.asking import AskFailed, ExtensionGone
from zotd.extensions.commands import CommandAnswer, CommandInfo, Commands, Invocation, answer_of
from zotd.extensions.discovery import Discovery, LoadError, Located
from zotd.extensions.extension import Extension, Surroundings
from zotd.extensions.intercept import Interception
from zotd.extensions.panels import Panels
from zotd.extensions.surface import Surface
from zotd.extensions.tools import Tools
from zotd.process.spawn import Scope
from zotd.protocol.events import ExtClearNotes, ExtNotify, ExtRegistered, ExtState
from zotd.protocol.frames import (
    ClearNotes,
    CommandInvoked,
    CommandResponse,
    FromExtension,
    Notify,
    OpenPanel,
    PanelClose,
    PanelRender,
    RegisterCommand,
    RegisterTool,
    Submit,
    SubmitSlash,
    Subscribe,
)
from zotd.protocol.session import ExtensionInfo, ExtensionState, NoteLevel

__all__ = ["CommandAnswer", "CommandInfo", "ExtensionHost", "Invocation"]

LEVELS: frozenset[str] = frozenset(get_args(NoteLevel))


class ExtensionHost:
    """The extensions of a session. Everything that runs belongs to `tasks`."""

    def __init__(
        self,
        discover: Callable[[], Discovery],
        around: Surroundings,
        *,
        surface: Surface,
        toolbox: Toolbox,
        limits: Limits,
        tasks: asyncio.TaskGroup,
        scope: Callable[[Limits], Scope] = Scope,
    ) -> None:
        """discover: reads the manifests, at the start and at each reload. around: what extensions are told.

        surface: the session. toolbox: where the tools of extensions are offered.
        scope: makes what starts their programs, one for each generation.
        """
        self._discover = discover
        self._around = around
        self._surface = surface
        self._limits = limits
        self._tasks = tasks
        self._commands = Commands()
        self._tools = Tools(toolbox, surface, limits)
        self.panels = Panels(surface)
        self.interception = Interception(surface, limits)
        self._discovery = Discovery()
        self._extensions: dict[str, Extension] = {}
        self._new_scope = scope
        self._scope = scope(limits)
        self._together = True
        self._early: dict[str, list[RegisterCommand | RegisterTool]] = {}

    # Life

    async def start(self) -> None:
        """Start all at once; return when each is ready or has failed, at the latest after the time they
        get together. Names are given out then, in load order; slower extensions join when they are ready.
        """
        self._scope = self._new_scope(self._limits)  # one for each generation: a reload leaves nothing of the last
        self._discovery = found = self._discover()
        self._extensions = {
            located.name: Extension(
                located,
                self._around,
                self._limits,
                self._scope,
                self._hear,
                self._changed,
                self._surface.drained,
            )
            for located in found.found
            if located.manifest.exec
        }
        for error in found.errors:
            self._surface.publish(ExtState(extension=error.extension, state="failed", error=str(error)))
            self._surface.failed(error.extension, str(error))
        for located in found.untrusted:
            self._surface.publish(ExtState(extension=located.name, state="untrusted"))
        for extension in self._extensions.values():
            self._surface.publish(ExtState(extension=extension.name, state="starting"))
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
                self._join(extension)

    async def stop(self) -> None:
        """Stop all together: `shutdown` and the end of input, then SIGTERM, then SIGKILL.

        Whatever they started is gone too when this returns, wherever it has put itself.
        """
        async with asyncio.TaskGroup() as stopping:
            for extension in self._extensions.values():
                stopping.create_task(extension.stop(), name=f"stop {extension.name}")
        await self._scope.close()

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
        answer = answer_of(whose, name, response)
        if answer.panel is not None and (answer.error or self.panels.open(extension, answer.panel)):
            answer = replace(answer, panel=None)
        return answer

    # What extensions say

    def _hear(self, extension: Extension, frame: FromExtension) -> None:
        match frame:
            case Notify(message=message, level=level):
                known: NoteLevel = level if level in LEVELS else "info"  # type: ignore[assignment]
                self._surface.publish(ExtNotify(extension=extension.name, level=known, message=message))
            case ClearNotes():
                self._surface.publish(ExtClearNotes(extension=extension.name))
            case RegisterCommand() | RegisterTool() if self._together:
                self._early.setdefault(extension.name, []).append(frame)
            case RegisterCommand() | RegisterTool():
                self._register(extension, frame)
                if extension.settled.is_set():
                    self._announce(extension)
            case Subscribe():
                self.interception.subscribe(extension, frame)
            case OpenPanel(panel=panel):
                self.panels.open(extension, panel)
            case PanelRender():
                self.panels.render(extension, frame)
            case PanelClose(panel_id=panel_id):
                self.panels.close(extension, panel_id)
            case Submit(text=text):
                self._submit(extension, text)
            case SubmitSlash(text=text):
                self._submit_slash(extension, text)
            case _:
                extension.remark(f"{frame.__struct_config__.tag} means nothing at this point: ignored")

    def _submit(self, extension: Extension, text: str) -> None:
        if not text.strip():
            return
        if self._surface.can("submit"):
            self._surface.prompt(text, extension.name)
        else:
            extension.remark("submit was ignored: no attached client takes prompts of extensions")

    def _submit_slash(self, extension: Extension, text: str) -> None:
        invocation = self.find(text) if text.startswith("/") else None
        if invocation is None:
            extension.remark(
                f"submit_slash was dropped: {text!r} is no registered command; expected /name args"
            )
        elif invocation.extension == extension.name or self._surface.can("submit"):
            self._surface.run(invocation)
        else:
            extension.remark(f"submit_slash {text!r} was ignored: no attached client takes it")

    def _register(self, extension: Extension, frame: RegisterCommand | RegisterTool) -> None:
        if extension.gone:
            return
        if isinstance(frame, RegisterTool):
            refused = self._tools.claim(extension, frame)
        else:
            refused = self._commands.claim(frame.name, frame.description, extension.name)
        if refused:
            extension.remark(refused)

    def _join(self, extension: Extension) -> None:
        """It is ready and its names were given out: the session has begun for it."""
        if not extension.gone:
            self._announce(extension)
            self.interception.started(extension)

    def _announce(self, extension: Extension) -> None:
        if not extension.gone:
            name = extension.name
            offers = ExtRegistered(
                extension=name, commands=self._commands.of(name), tools=self._tools.of(name)
            )
            self._surface.publish(offers)

    def _changed(self, extension: Extension) -> None:
        """It became ready, failed or stopped."""
        self._surface.publish(
            ExtState(extension=extension.name, state=extension.state, error=extension.error)
        )
        if not extension.gone:
            if not self._together:
                self._join(extension)
            return
        self.panels.release(extension)
        self.interception.release(extension)
        had = [self._commands.release(extension.name), self._tools.release(extension)]
        if any(had):
            self._surface.publish(ExtRegistered(extension=extension.name, commands=[], tools=[]))
        if extension.error and not extension.settled.is_set():
            self._surface.failed(extension.name, extension.error)

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
            log_path=str(extension_log(self._around.home, located.name)),
            commands=self._commands.of(located.name) if running else [],
            tools=self._tools.of(located.name) if running else [],
        )

    def _broken(self, error: LoadError) -> ExtensionInfo:
        return ExtensionInfo(
            name=error.extension,
            version="",
            dir=str(error.directory),
            scope=error.scope,
            state="failed",
            error=str(error),
            log_path=str(extension_log(self._around.home, error.extension)),
            commands=[],
            tools=[],
        )
