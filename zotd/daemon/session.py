"""Owns one session: its turns in order, its extensions, and the one way an event leaves."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from zotd.agent.loop import Loop, Model, Outcome
from zotd.agent.ports import Tool
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Transcript
from zotd.base.clock import now
from zotd.base.limits import Limits
from zotd.extensions.host import CommandAnswer, ExtensionHost, Invocation
from zotd.protocol.content import Block, ContextUse, Image, Text
from zotd.protocol.events import (
    AssistantMessage,
    AssistantStart,
    CommandResult,
    Done,
    Event,
    ExtClearNotes,
    ExtDisplay,
    ExtInsert,
    ExtNotify,
    TextDelta,
    TurnEnd,
    UsageReport,
)
from zotd.wire.codec import to_wire


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


@dataclass(slots=True, eq=False)
class Turn:
    """A prompt that was accepted. `finished` gets its outcome, whatever happens."""

    id: str
    content: list[Block]
    client: str
    started: Callable[[], None] = field(repr=False)
    finished: asyncio.Future[Outcome] = field(repr=False)
    may_run: bool = False

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a prompt: `position` counts from 1 in the queue.

    Nothing happens before `begin` is called, so that an answer can leave ahead of the events.
    """

    turn_id: str
    state: Literal["started", "queued", "command"]
    begin: Callable[[], None] = field(repr=False)
    position: int = 0


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
        tasks: asyncio.TaskGroup,
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
        self.loading: asyncio.Task[None] | None = None
        self.clients: list[Client] = []
        self.active: Turn | None = None
        self.queue: deque[Turn] = deque()
        self.next_seq = 1
        self.toolbox = Toolbox(tools)
        self._loop = Loop(self.transcript, self.toolbox, self, max_steps)
        self._tasks = tasks
        self._running: asyncio.Task[Outcome] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()
        self._turns: dict[str, asyncio.Future[Outcome]] = {}
        self.notes: list[dict[str, Any]] = []
        self.context = ContextUse(window=model.window)
        self._partial: list[str] = []
        self._closing = False

    # Events

    def publish(self, event: Event) -> None:
        """The only way an event leaves: numbered, stamped, handed to every attached client."""
        wire = to_wire(event)
        wire["session_id"] = self.id
        wire["seq"] = self.next_seq
        wire["time"] = now()
        if self.active is not None and not wire["type"].startswith("ext_"):
            wire.setdefault("turn_id", self.active.id)
        self.next_seq += 1
        self._fold(event, wire)
        for client in self.clients:
            client.deliver(wire)
        if self.host is not None:
            self.host.interception.observe(event)

    def connect(self, host: ExtensionHost) -> None:
        """These are its extensions: from now on they observe it and have their say."""
        self.host = host
        self._loop.hooks = host.interception

    def can(self, capability: str) -> bool:
        return any(capability in client.capabilities for client in self.clients)

    def prompt(self, text: str, extension: str) -> None:
        turn = self._turn([Text(text)], f"extension:{extension}", lambda: None)
        self.queue.append(turn)
        self._release(turn)

    def run(self, invocation: Invocation) -> None:
        self.run_command(invocation).begin()

    def failed(self, extension: str, message: str) -> None:
        self.publish(ExtNotify(extension=extension, level="error", message=message))

    @property
    def full(self) -> bool:
        return any(client.full for client in self.clients)

    async def drained(self) -> None:
        """Wait for the clients that are behind. A client bounds its own wait and cuts itself off after it."""
        for client in tuple(self.clients):
            if client.full:
                await client.drained()

    def attach(self, client: Client) -> None:
        """From now on `client` sees every event, and first the notes that still stand."""
        self.clients.append(client)
        for note in self.notes:
            client.deliver(note)

    def detach(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)

    @property
    def partial_text(self) -> str:
        """What was shown so far of the message that streams at present."""
        return "".join(self._partial)

    def _fold(self, event: Event, wire: dict[str, Any]) -> None:
        """Keep what somebody who comes later needs to see."""
        if isinstance(event, TextDelta):
            self._partial.append(event.delta)
        elif isinstance(event, AssistantStart | AssistantMessage | TurnEnd):
            self._partial.clear()
        elif isinstance(event, UsageReport):
            self.context = event.context
        elif isinstance(event, ExtNotify | ExtDisplay):
            self.notes.append(wire)
            del self.notes[: -self.limits.notes_kept]
        elif isinstance(event, ExtClearNotes):
            self.notes = [note for note in self.notes if note["extension"] != event.extension]

    def clear_notes(self) -> None:
        """Take away the notes of every extension, as the user's next prompt does."""
        for extension in dict.fromkeys(note["extension"] for note in self.notes):
            self.publish(ExtClearNotes(extension=extension))

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

        `started` is called before the first event of the turn or command.
        """
        await self.loaded()
        content: list[Block] = [*([Text(text)] if text or not images else []), *images]
        turn = self._turn(content, client, started)
        invocation = self.host.find(text) if self.host is not None and not images else None
        if invocation is not None or (text.strip() == "/clear" and not images):
            return Accepted(turn.id, "command", lambda: self._spawn_command(turn, invocation))
        idle = self.active is None and not self.queue
        self.queue.append(turn)
        position = 0 if idle else len(self.queue)
        return Accepted(turn.id, "started" if idle else "queued", lambda: self._release(turn), position)

    def run_command(self, invocation: Invocation | None) -> Accepted:
        """Run a command that was named, not typed; None is the built-in `clear`."""
        turn = self._turn([], "client", lambda: None)
        return Accepted(turn.id, "command", lambda: self._spawn_command(turn, invocation))

    async def loaded(self) -> None:
        """Until the extensions are ready, or were given the time they get together."""
        if self.loading is not None and not self.loading.done():
            await asyncio.wait([self.loading], timeout=self.limits.ready_together_s)

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

    def cancel_commands(self) -> None:
        """Stop waiting for the answers of commands that run."""
        for command in tuple(self._commands):
            command.cancel()

    def unqueue(self) -> list[str]:
        """Empty the queue and give back the texts, so that nothing typed is lost."""
        dropped, self.queue = list(self.queue), deque()
        for turn in dropped:
            turn.started()
            self.publish(Done(turn_id=turn.id, stop="aborted"))
            turn.finished.set_result(Outcome("aborted"))
        return [turn.text for turn in dropped]

    def clear(self) -> bool:
        """Start over with an empty conversation. Refused (False) while a turn runs."""
        if self.active is not None:
            return False
        self.transcript.clear()
        self.clear_notes()
        return True

    @property
    def busy(self) -> bool:
        return self.active is not None

    async def settled(self) -> None:
        """Until no turn, queue or command is left."""
        while pending := [
            task for task in (self._worker, *self._commands) if task is not None and not task.done()
        ]:
            await asyncio.wait(pending)

    async def close(self) -> None:
        """Abort what runs and stop the extensions."""
        self._closing = True
        self.unqueue()
        self.abort()
        self.cancel_commands()
        await self.settled()
        if self.loading is not None:
            self.loading.cancel()
            await asyncio.wait([self.loading])
        if self.host is not None:
            await self.host.stop()

    def _turn(self, content: list[Block], client: str, started: Callable[[], None]) -> Turn:
        self.updated = now()
        finished: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        turn = Turn(uuid.uuid4().hex, content, client, started, finished)
        self._turns[turn.id] = finished
        while len(self._turns) > self.limits.turns_kept and next(iter(self._turns.values())).done():
            del self._turns[next(iter(self._turns))]
        return turn

    def _release(self, turn: Turn) -> None:
        """Let a turn run. With nothing ahead of it it begins here and now, so that an abort finds it."""
        turn.may_run = True
        if self._running is None and self.queue and self.queue[0].may_run:
            head, run = self._begin()
            self._worker = self._tasks.create_task(self._work(head, run), name=f"turns of {self.id}")

    def _begin(self) -> tuple[Turn, asyncio.Task[Outcome]]:
        turn = self.active = self.queue.popleft()
        turn.started()
        self.clear_notes()
        run = self._loop.run(turn.id, turn.content, self.model, turn.client)
        self._running = self._tasks.create_task(run, name=f"turn {turn.id}")
        return turn, self._running

    async def _work(self, turn: Turn, run: asyncio.Task[Outcome]) -> None:
        while True:
            try:
                outcome = await run
            except asyncio.CancelledError:
                # Aborted before its first step: the loop never ran, so the turn is told here.
                outcome = self._loop.aborted(turn.id, turn.content, turn.client)
            finally:
                self._running = self.active = None
            self.updated = now()
            turn.finished.set_result(outcome)
            if not (self.queue and self.queue[0].may_run):
                return
            turn, run = self._begin()

    # Commands

    def _spawn_command(self, turn: Turn, invocation: Invocation | None) -> None:
        turn.started()
        task = self._tasks.create_task(self._command(turn, invocation), name=f"command {turn.text}")
        self._commands.add(task)
        task.add_done_callback(lambda ended: self._command_ended(ended, turn, invocation))

    def _command_ended(self, task: asyncio.Task[None], turn: Turn, invocation: Invocation | None) -> None:
        self._commands.discard(task)
        if task.cancelled():  # before its first step: whoever waits for it has to be told
            extension, name = (invocation.extension, invocation.name) if invocation else ("zotd", "clear")
            self._show(turn, CommandAnswer(extension, name, "noop", "", "aborted"))

    async def _command(self, turn: Turn, invocation: Invocation | None) -> None:
        if invocation is None or self.host is None:
            error = None if self.clear() else "a turn is running: abort it first"
            answer = CommandAnswer(extension="zotd", name="clear", action="noop", text="", error=error)
        else:
            try:
                answer = await self.host.invoke(invocation)
            except asyncio.CancelledError:
                answer = CommandAnswer(invocation.extension, invocation.name, "noop", "", "aborted")
        self._show(turn, answer)

    def _show(self, turn: Turn, answer: CommandAnswer) -> None:
        """Turn an extension's answer into events, and into a turn where it asks for one."""
        if answer.error:
            self.publish(ExtNotify(extension=answer.extension, level="error", message=answer.error))
        elif answer.action == "display":
            self.publish(ExtDisplay(extension=answer.extension, command=answer.name, text=answer.text))
        elif answer.action == "insert":
            self.publish(ExtInsert(extension=answer.extension, text=answer.text))
        self.publish(
            CommandResult(
                turn_id=turn.id,
                extension=answer.extension,
                name=answer.name,
                action=answer.action,
                error=answer.error or None,
            )
        )
        if answer.action == "prompt" and answer.text.strip() and not answer.error and not self._closing:
            turn.content, turn.client = [Text(answer.text)], f"extension:{answer.extension}"
            turn.started = lambda: None
            self.queue.append(turn)
            self._release(turn)
            return
        self.publish(Done(turn_id=turn.id, stop="error" if answer.error else "end_turn"))
        outcome = (
            Outcome("error", error=answer.error, kind="command") if answer.error else Outcome("end_turn")
        )
        outcome.text = answer.text if answer.action in ("display", "insert") else ""
        turn.finished.set_result(outcome)
