"""Owns the extensions of one session: starts them together, knows what they offer, stops them together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from zotd.agent.toolbox import Toolbox
from zotd.base.limits import Limits
from zotd.base.tasks import Tasks, failure_of
from zotd.extensions.absent import Absent
from zotd.extensions.asking import AskFailed, ExtensionGone
from zotd.extensions.commands import CommandAnswer, CommandInfo, Commands, Invocation, answer_of, bounded
from zotd.extensions.discovery import Discovery, Located
from zotd.extensions.intercept import Interception
from zotd.extensions.listing import Listing, life_event
from zotd.extensions.names import Names
from zotd.extensions.panel_text import paragraphs
from zotd.extensions.panels import Panels
from zotd.extensions.program import Surroundings
from zotd.extensions.reload import Former, Reloaded, ReloadError, SteadyHooks
from zotd.extensions.submissions import HELD, Early, Submissions
from zotd.extensions.text import within
from zotd.extensions.tools import Tools
from zotd.process.spawn import Scope
from zotd.protocol.events import ExtClearNotes, ExtNotify, ExtRegistered
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

if TYPE_CHECKING:
    from zotd.extensions.extension import Extension
    from zotd.extensions.shared import SharedExtensions
    from zotd.extensions.surface import Surface

__all__ = ["CommandAnswer", "CommandInfo", "ExtensionHost", "Invocation", "ReloadError", "Reloaded"]

LEVELS: frozenset[str] = frozenset(get_args(NoteLevel))


class ExtensionHost:
    """The extensions of a session, by name those with a process. All that runs belongs to `tasks`."""

    def __init__(
        self,
        discover: Callable[[], Awaitable[Discovery]],
        around: Surroundings,
        *,
        surface: Surface,
        toolbox: Toolbox,
        limits: Limits,
        tasks: Tasks,
        shared: Callable[[], SharedExtensions],
        scope: Callable[[Limits], Scope] = Scope,
    ) -> None:
        """discover: reads the manifests, at the start and at each reload. around: what extensions are told.

        surface: the session. toolbox: where the tools of extensions are offered.
        shared: gives the processes that the sessions of a daemon share.
        scope: makes what starts their programs, one for each generation.
        """
        self._discover = discover
        self._around = around
        self._surface = surface
        self._limits = limits
        self._tasks = tasks
        self._commands = Commands()
        self._toolbox = toolbox
        self._tools = Tools(toolbox, surface, limits)
        self._submissions = Submissions(surface, self.find)
        self.panels = Panels(surface, limits)
        self.interception = Interception(surface, limits)
        self._discovery = Discovery()
        self.extensions: dict[str, Extension] = {}
        self._new_scope = scope
        self._scope = scope(limits)
        self._together = True
        self._early = Early(limits.held_bytes)
        self._shared = shared
        self._former = Former()
        self._names = Names(self._commands, self._tools, self._former, surface.publish, limits)
        self._lives: list[asyncio.Task[None]] = []
        self._changing = asyncio.Lock()
        self._reloading: asyncio.Task[Reloaded] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._over = False
        self._generation = 0
        self._absent = Absent(limits.intercept_s, self._starting, self._warn)
        self.hooks = SteadyHooks(self.interception, self._absent, lambda: self._generation, self.loaded)

    # Life

    async def start(self) -> None:
        """Start all at once; return when each is ready or has failed, at the latest after the time they
        get together. Names are given out then, in load order; slower extensions join when they are ready.
        """
        async with self._changing:
            await self._settle(await self._begin())

    def use_model(self, provider: str, model: str) -> None:
        """Another model: extensions that are started from now on are told of it."""
        self._around = replace(self._around, provider=provider, model=model)

    async def loaded(self) -> None:
        """Until no start and no reload is under way; both are bounded."""
        if self._changing.locked():
            async with self._changing:
                pass

    async def reload(self) -> Reloaded:
        """Stop every extension, read the manifests anew and start what they name now.

        Waits for a start that is under way, then a while for tool calls that run. Who asks while a reload
        runs gets the outcome of that one. Goes on when its caller is cancelled; `stop` ends it.
        """
        if self._over:
            return Reloaded.never(self._around.cwd)
        if self._reloading is None or self._reloading.done():
            self._reloading = self._tasks.create_task(self._reload(), name="reload of extensions")
        reloading = self._reloading
        await asyncio.wait([reloading])
        if (bug := failure_of(reloading)) is not None:
            return Reloaded.broken(self._around.cwd, bug)
        return Reloaded.never(self._around.cwd) if reloading.cancelled() else reloading.result()

    async def stop(self) -> None:
        """Stop all together: `shutdown` and the end of input, then SIGTERM, then SIGKILL.

        Whatever they started is gone too when this returns, wherever it has put itself.
        """
        self._over = True
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait([self._reloading])
        await self._stop_all()

    async def _reload(self) -> Reloaded:
        async with self._changing:
            await self._calm()
            before = [extension for extension in self.extensions.values() if not extension.gone]
            self._former.remember({command.name: command.extension for command in self._commands.all()})
            self._absent.remember(self.interception.decisions())
            self._generation += 1
            for extension in before:
                extension.parting = "was stopped: extensions are being loaded anew"
            await self._stop_all()
            self._surface.renewed()
            self._scope = self._new_scope(self._limits)  # what the last generation started has ended with it
            await self._settle(await self._begin())
            return self._outcome(before)

    async def _calm(self) -> None:
        """Let tool calls and decisions end, within a bound."""
        try:
            async with asyncio.timeout(self._limits.reload_s):
                await self._toolbox.calm()
                for extension in self.extensions.values():
                    await extension.calls.ended()
                await self.hooks.decided()
        except TimeoutError:
            return

    async def _stop_all(self) -> None:
        """By a task of its own, which `stop` joins when it ends a reload that has come this far."""
        if self._ending is None or self._ending.done():
            self._ending = self._tasks.create_task(self._end_all(), name="stop of extensions")
        await asyncio.wait([self._ending])

    async def _end_all(self) -> None:
        stops = [
            self._tasks.create_task(extension.stop(), name=f"stop of extension {extension.name}")
            for extension in self.extensions.values()
        ]
        await asyncio.wait(
            [*stops, self._tasks.create_task(self._scope.unstick(), name="look after programs")]
        )
        if self._lives:  # what they say last must not reach those that come after them
            await asyncio.wait(self._lives)
        await self._scope.close()

    async def _begin(self) -> set[str]:
        """Start what is found and tell of what cannot be.

        Returns the extensions whose names of before stay theirs until they come up.
        """
        found = await self._discover()
        expected = self._former.shadow(found)
        self._former.expect(expected)
        self._absent.expect(expected - {one.name for one in found.found if not one.manifest.exec})
        self._discovery = found
        self._together = True
        self._early.clear()
        runnable = [located for located in found.found if located.manifest.exec]
        if runnable:
            self._scope.warm()
        self.extensions = {located.name: self._extension(located) for located in runnable}
        for error in found.errors:
            self._told(error.extension, "failed")
            self._surface.failed(error.extension, str(error))
        for located in found.untrusted:
            self._told(located.name, "untrusted")
        for name, why in found.left_out():
            self._warn(name, why)
        self._lives = []
        for rank, extension in enumerate(self.extensions.values()):
            extension.rank = rank
            self._told(extension.name, "starting")
            self._lives.append(self._tasks.create_task(extension.live(), name=f"extension {extension.name}"))
        return expected

    def _extension(self, located: Located) -> Extension:
        if located.manifest.instances == "workspace":
            from zotd.extensions.shared import Member

            return Member(self._shared(), located, self._around, self._limits, self._scope, self)
        from zotd.extensions.extension import Extension

        return Extension(located, self._around, self._limits, self._scope, self)

    async def _settle(self, expected: set[str]) -> None:
        """Wait for the set, then give out the names, except those that belong to somebody who is expected."""
        try:
            async with asyncio.timeout(self._limits.ready_together_s):
                for extension in self.extensions.values():
                    await extension.settled.wait()
        except TimeoutError:
            pass
        self._together = False
        up = {extension.name for extension in self.extensions.values() if extension.running}
        self._tools.clear(but=expected - up)
        for name in up:
            self._back(name)
        early = [(extension, self._early.take(name)) for name, extension in self.extensions.items()]
        for extension, frames in early:
            for frame in frames:
                if isinstance(frame, RegisterCommand | RegisterTool):
                    self._names.register(extension, frame)
            if extension.running:
                self._join(extension)
        for extension, frames in early:
            for frame in frames:
                if not isinstance(frame, RegisterCommand | RegisterTool) and not extension.gone:
                    self.hear(extension, frame)

    def _outcome(self, before: list[Extension]) -> Reloaded:
        """What a reload did, with a note about each shared process that others kept."""
        errors = [ReloadError(str(error.directory), str(error)) for error in self._discovery.errors]
        errors += [
            ReloadError(str(extension.located.directory), extension.error)
            for extension in self.extensions.values()
            if extension.error
        ]
        for extension in before:
            if extension.shared_with:
                why = f"extension {extension.name} was not started anew: other sessions use its process"
                errors.append(ReloadError(str(extension.located.directory), why))
                self._warn(extension.name, why)
        return Reloaded(
            stopped=[extension.name for extension in before],
            loaded=[located.name for located in self._discovery.found],
            ready=[row.name for row in self.states() if row.state in ("ready", "auto_ready")],
            errors=errors,
        )

    # Commands

    def commands(self) -> list[CommandInfo]:
        """Every command that can be run, in the order the names were given out."""
        return self._commands.all()

    def find(self, text: str) -> Invocation | None:
        """The command that a prompt is, or None: `/name` and arguments on one line, any case."""
        return self._commands.find(text)

    async def invoke(self, invocation: Invocation, turn_id: str = "") -> CommandAnswer:
        """Run a command, whose events carry `turn_id`. Failures are answers with an `error`; only
        cancellation is raised.
        """
        whose, name = invocation.extension, invocation.name
        try:
            extension = self.extensions.get(whose)
            if extension is None:
                raise ExtensionGone(f"extension {whose} is not running")
            question = CommandInvoked(id="", name=name, args=invocation.args)
            response = await extension.ask(question, self._limits.command_s, CommandResponse)
        except AskFailed as failure:
            return CommandAnswer(whose, name, "noop", "", str(failure))
        answer = bounded(answer_of(whose, name, response), self._limits.note_bytes, extension.remark)
        if answer.action in ("display", "insert") and not (answer.text or answer.error):
            extension.remark(f"command /{name} answered with an empty {answer.action}: nothing is shown")
        elif answer.action == "insert" and not (answer.error or self._surface.can("insert")):
            extension.remark(f"no attached client says that it takes the text of /{name} into its prompt")
        if answer.panel is not None and (answer.error or self.panels.open(extension, answer.panel, turn_id)):
            answer = replace(answer, panel=None)
        return answer

    # Listener: what extensions say

    @property
    def full(self) -> bool:
        """Whether whoever sees the session is behind."""
        return self._surface.full

    async def drained(self) -> None:
        """Until they have caught up, within a bound."""
        await self._surface.drained()

    def hear(self, extension: Extension, frame: FromExtension) -> None:
        match frame:
            case Notify(message=message, level=level):
                known: NoteLevel = level if level in LEVELS else "info"  # type: ignore[assignment]
                shown = paragraphs(within(message, self._limits.note_bytes, extension.remark, "a note"))
                self._surface.publish(ExtNotify(extension=extension.name, level=known, message=shown))
            case ClearNotes():
                self._surface.publish(ExtClearNotes(extension=extension.name))
            case _ if self._together and isinstance(frame, HELD):
                self._early.put(extension, frame)
            case RegisterCommand() | RegisterTool():
                self._names.register(extension, frame)
                if extension.settled.is_set():
                    self._names.announce(extension)
            case Subscribe():
                self.interception.subscribe(extension, frame)
            case OpenPanel(panel=panel):
                self.panels.open(extension, panel)
            case PanelRender():
                self.panels.render(extension, frame)
            case PanelClose(panel_id=panel_id):
                self.panels.close(extension, panel_id)
            case Submit(text=text):
                self._submissions.prompt(extension, text)
            case SubmitSlash(text=text):
                self._submissions.slash(extension, text)
            case _:
                extension.remark(f"{frame.__struct_config__.tag} means nothing at this point: ignored")

    def _join(self, extension: Extension) -> None:
        """It is ready and its names were given out: the session has begun for it."""
        if not extension.gone:
            self._names.announce(extension)
            self.interception.started(extension)

    def _back(self, name: str) -> None:
        self._former.back(name)
        self._absent.back(name)

    def _starting(self, name: str) -> bool:
        return (extension := self.extensions.get(name)) is not None and extension.state == "starting"

    def _warn(self, name: str, message: str) -> None:
        self._surface.publish(ExtNotify(extension=name, level="warn", message=message))

    def changed(self, extension: Extension) -> None:
        """It became ready, failed or stopped."""
        self._told(extension.name, extension.state)
        if not extension.gone:
            if not self._together:
                self._back(extension.name)
                self._join(extension)
            return
        if extension.error:
            self._absent.fell(extension.name, self.interception.decisions().get(extension.name, ()))
        self._absent.changed()
        self.panels.release(extension)
        self.interception.release(extension)
        self._names.forget(extension)
        had = [self._commands.release(extension.name), self._tools.release(extension)]
        if any(had):
            self._surface.publish(ExtRegistered(extension=extension.name, commands=[], tools=[]))
        if extension.error and not extension.settled.is_set():
            self._surface.failed(extension.name, extension.error)

    def _told(self, name: str, state: ExtensionState) -> None:
        """Tell where an extension is in its life."""
        for row in self.states():
            if (row.name, row.state) == (name, state):
                self._surface.publish(life_event(row))
                return

    # What there is

    def states(self) -> list[ExtensionInfo]:
        """One row for each extension that was found, whatever became of it, in load order."""
        around = (self._commands, self._tools, self._names, self._around.home)
        return Listing(self._discovery, self.extensions, *around).rows()
