"""Owns the extensions that sessions of one directory share: one process, a face of it for each session.

A manifest asks for it with `"instances": "workspace"`. The process belongs to whoever is in it: the first
session starts it, with that session's environment, and the last one to leave ends it.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import TypeAlias

import msgspec

from zotd.base.limits import Limits
from zotd.base.tasks import Tasks
from zotd.extensions.asking import AnyAnswer, ExtensionGone, Question
from zotd.extensions.backlog import Listener
from zotd.extensions.discovery import Located
from zotd.extensions.extension import Extension
from zotd.extensions.program import Surroundings
from zotd.process.spawn import Scope, Spawner
from zotd.protocol.frames import (
    EventIntercept,
    FromExtension,
    FromHost,
    RegisterCommand,
    RegisterTool,
    Subscribe,
    ToolCallFrame,
)
from zotd.protocol.session import ExtensionState

Key: TypeAlias = tuple[Path, Path, Path]
"""What makes two extensions of two sessions the same: directory of the manifest, project, home."""

Standing: TypeAlias = RegisterCommand | RegisterTool | Subscribe


class SharedExtensions:
    """Every shared process of one daemon. `tasks` owns what runs."""

    def __init__(self, limits: Limits, tasks: Tasks) -> None:
        self._limits = limits
        self._tasks = tasks
        self._processes: dict[Key, SharedProcess] = {}

    async def process(self, located: Located, around: Surroundings) -> SharedProcess:
        """The process to be in; begun if there is none, once one that ends has ended: two of them would
        meet in one directory.
        """
        key = (located.directory, around.cwd, around.home)
        while (process := self._processes.get(key)) is not None:
            if not process.ending:
                return process
            await asyncio.wait([process.life])
        process = self._processes[key] = SharedProcess(located, around, self._limits)
        process.life = self._tasks.create_task(process.live(), name=f"shared extension {located.name}")
        process.life.add_done_callback(lambda _: self._processes.pop(key))
        return process


class SharedProcess:
    """One process and the sessions in it.

    life: ends when the process has. ending: whether the last session is about to leave.
    """

    life: asyncio.Task[None]

    def __init__(self, located: Located, around: Surroundings, limits: Limits) -> None:
        self._limits = limits
        self._scope = Scope(limits)
        self.extension = Extension(located, around, limits, self._scope, self)
        self._members: dict[str, Member] = {}
        self._standing: dict[tuple[type[Standing], str], Standing] = {}
        self._left = False

    @property
    def ending(self) -> bool:
        return self._left or self.extension.gone

    async def live(self) -> None:
        """From the start of the process until nothing of it is left."""
        try:
            await self.extension.live()
        finally:
            await self._scope.close()

    def admit(self, member: Member) -> None:
        """What was offered to all so far is offered to this session too."""
        self._members[member.session_id] = member
        for frame in self._standing.values():
            member.hear(frame)
        member.follow(self.extension)

    async def leave(self, member: Member) -> int:
        """Take a session out; with the last one the process ends. How many stay."""
        others = len(self._members) - 1
        if others:
            self._members.pop(member.session_id, None)
            return others
        self._left = True
        await asyncio.gather(self.extension.stop(), self._scope.unstick())
        await asyncio.wait([self.life])
        return 0

    # Listener

    @property
    def full(self) -> bool:
        """Whether more waits for a session than should."""
        return any(member.overfull for member in self._members.values())

    async def drained(self) -> None:
        """Until less waits for each of them. Those whose clients are stuck are waited for no longer than
        the others can bear: what more they are told is lost.
        """
        try:
            async with asyncio.timeout(self._limits.lagging_s):
                for member in tuple(self._members.values()):
                    await member.roomy()
        except TimeoutError:
            for member in self._members.values():
                member.lose()

    def hear(self, extension: Extension, frame: FromExtension) -> None:
        """Hand a frame to the session it names. What it offers without naming one is offered to all."""
        if isinstance(frame, Standing) and not frame.session_id:
            self._keep(frame)
            for member in tuple(self._members.values()):
                member.hear(frame)
        elif (named := self._members.get(frame.session_id)) is not None:
            named.hear(frame)
        else:
            why = f"session {frame.session_id!r} is not here" if frame.session_id else "it names no session"
            extension.remark(f"{frame.__struct_config__.tag} was dropped: {why}")

    def _keep(self, frame: Standing) -> None:
        name = "" if isinstance(frame, Subscribe) else frame.name
        before = self._standing.get((type(frame), name))
        if isinstance(frame, Subscribe) and isinstance(before, Subscribe):
            frame = Subscribe(
                events=[*dict.fromkeys(before.events + frame.events)],
                intercept=[*dict.fromkeys(before.intercept + frame.intercept)],
            )
        self._standing[type(frame), name] = frame

    def changed(self, extension: Extension) -> None:
        """Every session's face of it follows."""
        for member in tuple(self._members.values()):
            member.follow(extension)


class Member(Extension):
    """A shared extension as one session sees it. Its `live` lasts while the session is in the process."""

    def __init__(
        self,
        shared: SharedExtensions,
        located: Located,
        surroundings: Surroundings,
        limits: Limits,
        scope: Spawner,
        listener: Listener,
    ) -> None:
        super().__init__(located, surroundings, limits, scope, listener)
        self._shared = shared
        self._process: SharedProcess | None = None
        self._asking: set[asyncio.Timeout] = set()
        self._room = asyncio.Event()
        self._lost: int | None = None  # frames, since it was waited for in vain

    @property
    def overfull(self) -> bool:
        """Whether the process should say no more to this session yet."""
        return self._backlog.full and self._lost is None and not self.gone

    @property
    def queued(self) -> int:
        return self._process.extension.queued if self._process is not None and not self.gone else 0

    async def roomy(self) -> None:
        """Until it is not."""
        while self.overfull:
            self._room.clear()
            await self._room.wait()

    def lose(self) -> None:
        """Hear no more until its clients have caught up, if it is overfull."""
        if self.overfull:
            self._lost = 0
            self.remark(f"no client of session {self.session_id} reads: what it is told is lost from here on")

    def remark(self, text: str) -> None:
        if self._process is not None:
            self._process.extension.remark(text)

    async def ask(self, question: Question, within: float | None, answer: type[AnyAnswer]) -> AnyAnswer:
        process = self._running()
        question = msgspec.structs.replace(question, session_id=self.session_id)
        until_left = asyncio.timeout(None)
        try:
            async with until_left:
                self._asking.add(until_left)
                with self.calls if isinstance(question, ToolCallFrame) else nullcontext():
                    got = await process.extension.ask(question, within, answer)
                if not isinstance(question, EventIntercept):
                    await self._backlog.passed()
                return got
        except (TimeoutError, ExtensionGone):  # the process may go on with its other sessions
            if not self._stopping:
                raise
            raise ExtensionGone(f"extension {self.name} {self.parting}") from None
        finally:
            self._asking.discard(until_left)

    def send(self, frame: FromHost) -> None:
        self._running().extension.send(msgspec.structs.replace(frame, session_id=self.session_id))

    def _running(self) -> SharedProcess:
        if self._process is None or self.gone:
            raise ExtensionGone(f"extension {self.name} is not running")
        return self._process

    async def live(self) -> None:
        try:
            await self._be_in()
        except Exception as bug:
            self._over("failed", f"extension {self.name} was ended by a mistake of zotd: {bug!r}")
            raise

    async def _be_in(self) -> None:
        process = await self._shared.process(self.located, self._surroundings)
        # Entered even if it is to leave again at once: a process with nobody in it would never end.
        self._process = process
        process.admit(self)
        if self._stopping:
            await self._leave(process)
        while not self._closed.is_set():
            await self._stirred.wait()
            self._stirred.clear()
            await self._backlog.flow()

    async def stop(self) -> None:
        self._stopping = True
        if self._process is not None and not self.gone:
            await self._leave(self._process)

    async def _leave(self, process: SharedProcess) -> None:
        self.shared_with = await process.leave(self)
        self._over("stopped", None)
        for until_left in self._asking:
            until_left.reschedule(asyncio.get_running_loop().time())

    def _over(self, state: ExtensionState, error: str | None) -> None:
        """This session's part in it is over, once."""
        if self.gone:
            return
        self._backlog.flush()
        self.gone = True
        self._room.set()
        self.state, self.error = state, error
        self._listener.changed(self)
        self.settled.set()
        self._closed.set()
        self._stirred.set()

    def hear(self, frame: FromExtension) -> None:
        """The process said something to this session."""
        if self.gone:
            return
        if isinstance(frame, Subscribe) or not self._backlog.look():
            self._hear(frame)
        elif self._lost is None:
            self._backlog.put(frame)
        else:
            self._lost += 1
        if self._backlog.holding:
            self._stirred.set()

    def _hear(self, frame: FromExtension) -> None:
        self._listener.hear(self, frame)
        if not self._backlog.full:
            self._room.set()
        if self._lost is not None and not self._backlog.holding:
            self.remark(f"a client of session {self.session_id} reads again: {self._lost} frames were lost")
            self._lost = None

    def follow(self, extension: Extension) -> None:
        """The process came to another state, and so this session's face of it."""
        self.capabilities = extension.capabilities
        if extension.gone:
            self._over(extension.state, extension.error)
        elif extension.state != "starting":
            self._become(extension.state)
