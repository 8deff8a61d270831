"""Owns one session: its turns in order, its extensions, and the one way an event leaves."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from zotd.agent.loop import Loop, Model, Outcome
from zotd.agent.ports import Tool
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Transcript
from zotd.base.clock import now
from zotd.base.limits import Limits
from zotd.base.soon import Seldom
from zotd.base.tasks import Tasks, Watched
from zotd.daemon.admission import Admission
from zotd.daemon.commands import Commands
from zotd.daemon.notes import Notes
from zotd.daemon.turns import Accepted, QueueFull, Turn, check_room
from zotd.extensions.host import ExtensionHost, Invocation
from zotd.protocol.content import Block, ContextUse, Image, Text
from zotd.protocol.events import (
    AssistantMessage,
    AssistantStart,
    Done,
    Event,
    ExtNotify,
    ExtPanelClose,
    ExtPanelOpen,
    ExtPanelRender,
    QueueChanged,
    TextDelta,
    TurnEnd,
    UsageReport,
)
from zotd.protocol.session import QueuedTurn
from zotd.wire.codec import to_wire

if TYPE_CHECKING:
    from zotd.extensions.host import Reloaded


class Client(Protocol):
    """A front end that sees a session. All clients share the dict given to `deliver`: it is not changed.

    capabilities: what it can show or do for extensions: `panels`, `insert`, `submit`.
    """

    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def full(self) -> bool: ...
    def deliver(self, event: dict[str, Any]) -> None: ...
    async def drained(self) -> None: ...


class Session:
    """One conversation with its own tools and extensions. All tasks belong to `tasks`."""

    def __init__(
        self,
        *,
        session_id: str,
        cwd: Path,
        provider: str,
        model: Model,
        tools: Mapping[str, Tool],
        limits: Limits,
        max_steps: int,
        tasks: Tasks,
        trusted: bool = True,
    ) -> None:
        self.id = session_id
        self.epoch = uuid.uuid4().hex
        self.cwd = cwd
        self.trusted = trusted
        self.provider = provider
        self.model = model
        self.limits = limits
        self.created = self.updated = now()
        self.transcript = Transcript(now)
        self.host: ExtensionHost | None = None
        self.loading: asyncio.Task[Any] | None = None
        self.clients: list[Client] = []
        self._audience = asyncio.Event()
        self.active: Turn | None = None
        self.queue: deque[Turn] = deque()
        self.next_seq = 1
        self.toolbox = Toolbox(tools)
        self._loop = Loop(self.transcript, self.toolbox, self, max_steps)
        self.tasks = Watched(tasks, self._mistaken)
        self._running: asyncio.Task[Outcome] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._turns: dict[str, asyncio.Future[Outcome]] = {}
        self.commands = Commands(self, tasks)
        self.notes = Notes(self.publish, limits.notes_kept, limits.notes_bytes)
        self.panels: dict[str, dict[str, Any]] = {}
        self.context = ContextUse(window=model.window)
        self._partial: list[str] = []
        self._announce_queue = Seldom(self._tell_queue)
        self._crowded = False  # whether it was told that prompts are dropped
        self._closing = False
        self._admission = Admission(limits.last_submissions, self.publish)

    # Events

    def publish(self, event: Event, turn_id: str = "") -> None:
        """The only way an event leaves: numbered, stamped, handed to every attached client.

        turn_id: the command whose answer it is; events of the running turn need none.
        """
        wire = to_wire(event)
        wire["session_id"] = self.id
        wire["seq"] = self.next_seq
        wire["time"] = now()
        if turn_id:
            wire["turn_id"] = turn_id
        elif self.active is not None and wire["type"] != "queue" and not wire["type"].startswith("ext_"):
            wire.setdefault("turn_id", self.active.id)
        self.next_seq += 1
        self._fold(event, wire)
        follows = self.notes.fold(event, wire)
        for client in self.clients:
            client.deliver(wire)
        if self.host is not None:
            self.host.interception.observe(event)
        for another in follows:
            self.publish(another)

    def connect(self, host: ExtensionHost) -> None:
        """These are its extensions: from now on they observe it and have their say."""
        self.host = host
        self._loop.hooks = host.hooks

    def can(self, capability: str) -> bool:
        return any(capability in client.capabilities for client in self.clients)

    async def audience_changed(self) -> None:
        self._audience.clear()
        await self._audience.wait()

    def prompt(self, text: str, extension: str) -> str:
        if not self._closing and self._admission.takes(extension, len(self.clients)):
            turn = self._turn([Text(text)], f"extension:{extension}", lambda: None)
            try:
                self.enqueue(turn)
            except QueueFull as full:
                del self._turns[turn.id]
                if not self._crowded:
                    self._crowded = True
                    message = f"prompts that extension {extension} submits are dropped: {full}"
                    self.publish(ExtNotify(extension="zotd", level="warn", message=message))
                return str(full)
        return ""

    def built_in(self, text: str) -> Invocation | None:
        return self.commands.built_in(text)

    def run(self, invocation: Invocation, extension: str) -> None:
        if not self._closing and self._admission.takes(extension, len(self.clients)):
            self.run_command(invocation).begin()

    def failed(self, extension: str, message: str) -> None:
        self.notes.fail(extension, message)

    def renewed(self) -> None:
        self.notes.renewed()

    def _mistaken(self, task: str, bug: BaseException) -> None:
        """A task of this session ended by a mistake of ours; all others go on."""
        self.failed("zotd", f"{task}: ended by a mistake of zotd: {type(bug).__name__}: {bug}")

    @property
    def full(self) -> bool:
        return any(client.full for client in self.clients)

    async def drained(self) -> None:
        """Wait for the clients that are behind. A client bounds its own wait and cuts itself off after it."""
        for client in tuple(self.clients):
            if client.full:
                await client.drained()

    def attach(self, client: Client) -> None:
        """From now on `client` sees every event, and first the notes and panels that still stand.

        Panels stay open though the last client that shows them has left: one may come back.
        """
        self.clients.append(client)
        self._audience.set()
        for note in self.notes.rows:
            client.deliver(note)
        if "panels" in client.capabilities:
            for panel in self.panels.values():
                client.deliver(panel)

    def detach(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)
            self._audience.set()

    @property
    def partial_text(self) -> str:
        """What was shown so far of the message that streams at present."""
        return "".join(self._partial)

    def _fold(self, event: Event, wire: dict[str, Any]) -> None:
        """Keep what somebody who comes later needs to see."""
        if isinstance(event, ExtNotify):  # the most frequent one, and kept elsewhere
            return
        if isinstance(event, TextDelta):
            self._partial.append(event.delta)
        elif isinstance(event, AssistantStart | AssistantMessage | TurnEnd):
            self._partial.clear()
        elif isinstance(event, UsageReport):
            self.context = event.context
        elif isinstance(event, ExtPanelOpen | ExtPanelRender):
            self.panels[event.extension] = {**wire, "type": "ext_panel_open"}
        elif isinstance(event, ExtPanelClose):
            self.panels.pop(event.extension, None)

    # Prompts

    async def submit(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        client: str = "client",
        started: Callable[[], None] = lambda: None,
    ) -> Accepted:
        """Take a prompt. A registered `/command` runs at once, also during a turn; the rest queues.

        `started` is called before the first event of the turn or command. Raises QueueFull.
        """
        await self.loaded()
        content: list[Block] = [*([Text(text)] if text or not images else []), *images]
        turn = self._turn(content, client, started)
        if not images and (invocation := self.commands.find(text)) is not None:
            return self._command(turn, invocation)
        if not (idle := self.active is None and not self.queue):
            try:
                check_room(self.queue, turn, self.limits)
            except QueueFull:
                del self._turns[turn.id]
                raise
        self.queue.append(turn)
        position = 0 if idle else len(self.queue)
        state: Literal["started", "queued"] = "started" if idle else "queued"
        return Accepted(turn.id, state, lambda: self._release(turn), turn.answered, position)

    def run_command(self, invocation: Invocation) -> Accepted:
        """Run a command that was named, not typed."""
        return self._command(self._turn([], "client", lambda: None), invocation)

    def enqueue(self, turn: Turn) -> bool:
        """Give a turn that no client sent its place in the queue. False in a session that closes.

        Raises QueueFull.
        """
        if self._closing:
            return False
        check_room(self.queue, turn, self.limits)
        self.queue.append(turn)
        self._release(turn)
        return True

    async def loaded(self) -> None:
        """Until the extensions are ready, or were given the time they get together."""
        if self.loading is not None and not self.loading.done():
            await asyncio.wait([self.loading], timeout=self.limits.ready_together_s)
        if self.host is not None:
            await self.host.loaded()

    async def wait(self, turn_id: str) -> Outcome | None:
        """The outcome of a turn, None for an id that is not known or no longer kept."""
        finished = self._turns.get(turn_id)
        return None if finished is None else await asyncio.shield(finished)

    def abort(self) -> bool:
        """Stop the running turn; queued ones go on. Whether there was one."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    def unqueue(self) -> list[str]:
        """Empty the queue and give back the texts, so that nothing typed is lost."""
        dropped, self.queue = list(self.queue), deque()
        for turn in dropped:
            turn.started()
            self.publish(Done(turn_id=turn.id, stop="aborted"))
            turn.finished.set_result(Outcome("aborted"))
        if any(turn.announced for turn in dropped):
            self._announce_queue()
        return [turn.text for turn in dropped]

    def clear(self) -> bool:
        """Start over with an empty conversation. Refused (False) while a turn runs."""
        if self.busy:
            return False
        self.transcript.clear()
        self.notes.clear()
        return True

    async def reload(self) -> Reloaded:
        """Stop the extensions, read their manifests again and start them. Prompts wait, as for the start.

        Who asks while it goes on gets the same result.
        """
        assert self.host is not None
        return await self.host.reload()

    @property
    def busy(self) -> bool:
        return self.active is not None

    async def settled(self) -> None:
        """Until no turn, queue or command is left."""
        while pending := [
            task for task in (self._worker, *self.commands.running) if task is not None and not task.done()
        ]:
            await asyncio.wait(pending)

    async def finish(self) -> None:
        """As `settled`, for a client that asks for nothing more: what extensions submit is bounded then."""
        with self._admission.ending():
            await self.settled()

    async def close(self) -> None:
        """Abort what runs and stop the extensions."""
        self._closing = True
        self.unqueue()
        self.abort()
        self.commands.cancel()
        await self.settled()
        if self.loading is not None:
            self.loading.cancel()
            await asyncio.wait([self.loading])
        if self.host is not None:
            await self.host.stop()

    def _turn(self, content: list[Block], client: str, started: Callable[[], None]) -> Turn:
        self.updated = now()
        loop = asyncio.get_running_loop()
        turn = Turn(uuid.uuid4().hex, content, client, started, loop.create_future(), loop.create_future())
        self._turns[turn.id] = turn.finished
        while len(self._turns) > self.limits.turns_kept and next(iter(self._turns.values())).done():
            del self._turns[next(iter(self._turns))]
        return turn

    def _command(self, turn: Turn, invocation: Invocation) -> Accepted:
        return Accepted(turn.id, "command", lambda: self.commands.start(turn, invocation), turn.answered)

    def _tell_queue(self) -> None:
        turns = [QueuedTurn(turn_id=turn.id, text=turn.text, client=turn.client) for turn in self.queue]
        self.publish(QueueChanged(turns=turns))

    def _release(self, turn: Turn) -> None:
        """Let a turn run. With nothing ahead of it it begins here and now, so that an abort finds it."""
        turn.may_run = True
        if self._running is None and self.queue and self.queue[0].may_run:
            head, run = self._begin()
            self._worker = self.tasks.create_task(self._work(head, run), name=f"turns of {self.id}")
        if turn in self.queue:
            turn.announced = True
            self._announce_queue()

    def _begin(self) -> tuple[Turn, asyncio.Task[Outcome]]:
        turn = self.active = self.queue.popleft()
        self._crowded = False
        turn.started()
        if turn.announced:
            self._announce_queue()
        self.notes.prompted()
        run = self._loop.run(turn.id, turn.content, self.model, turn.client)
        self._running = self.tasks.create_task(run, name=f"turn {turn.id}")
        return turn, self._running

    async def _work(self, turn: Turn, run: asyncio.Task[Outcome]) -> None:
        while True:
            try:
                outcome = await run
            except asyncio.CancelledError:
                # Aborted before its first step: the loop never ran, so the turn is told here.
                outcome = self._loop.aborted(turn.id, turn.content, turn.client)
            except Exception as bug:  # in the telling of it: who waits for its end has to be told so
                error = f"internal error: {type(bug).__name__}: {bug}"
                outcome = Outcome("error", error=error, kind="internal")
                self.publish(Done(turn_id=turn.id, stop="error"))
            finally:
                self._running = self.active = None
            self.updated = now()
            turn.finished.set_result(outcome)
            if not (self.queue and self.queue[0].may_run):
                return
            turn, run = self._begin()
