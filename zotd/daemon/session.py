"""Owns one session: its turns in order, its extensions, and the one way an event leaves."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import to_builtins

from zotd.agent.loop import Loop, Model, Outcome
from zotd.agent.ports import Hooks, Tool
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Transcript
from zotd.base.clock import now
from zotd.base.limits import Limits
from zotd.base.log import log
from zotd.base.tasks import Tasks, Watched
from zotd.daemon.admission import Admission
from zotd.daemon.approvals import Approvals
from zotd.daemon.audience import Audience, Client, End
from zotd.daemon.beginning import Beginning
from zotd.daemon.commands import Commands
from zotd.daemon.diary import Diary
from zotd.daemon.notes import Notes
from zotd.daemon.refused import Refused
from zotd.daemon.session_picture import picture_of
from zotd.daemon.turn_queue import TurnQueue
from zotd.daemon.turns import Accepted, QueueFull, Turn
from zotd.extensions.host import ExtensionHost, Invocation
from zotd.protocol.content import Block, Image, Text
from zotd.protocol.events import Event, ExtNotify, SessionChanged, SessionClosed
from zotd.protocol.session import Approval, SessionInfo
from zotd.store.ring import Budget, Published
from zotd.store.view import SessionView
from zotd.tools.changes import Changes
from zotd.tools.typed import printable
from zotd.wire.codec import encode_to_keep

if TYPE_CHECKING:
    from zotd.extensions.host import Reloaded


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
        beginning: Beginning | None = None,
        budget: Budget | None = None,
        changes: Changes | None = None,
        approval: Approval = "auto",
        headless: bool = False,
        alone: bool = False,
    ) -> None:
        """beginning: what it goes on from, and where it is saved; nothing and nowhere when absent. budget:
        what the replay of all sessions may hold together, changes: what its tools tell of files, or its own.
        approval, headless, alone: see Approvals.
        """
        beginning = beginning or Beginning.ephemeral()
        self.id = session_id
        self.epoch = uuid.uuid4().hex
        self.cwd = cwd
        self.trusted = trusted
        self.log = beginning.log
        self.ephemeral = self.log is None
        self.path = self.log.path if self.log is not None else None
        self.title = beginning.title
        self.complaints = beginning.complaints
        self.provider = provider
        self.model = model
        self.limits = limits
        self.changes = changes or Changes(cwd, limits)
        self.created = beginning.created
        self.transcript = Transcript(now)
        beginning.restore(self.transcript)
        self.host: ExtensionHost | None = None
        self.loading: asyncio.Task[Any] | None = None
        self.audience = Audience(self.epoch, self.info, limits, budget or Budget(limits.replay_bytes_of_all))
        self.toolbox = Toolbox(tools)
        self._loop = Loop(self.transcript, self.toolbox, self, max_steps, limits)
        self._loop.another_model = lambda: self.model
        self.tasks = Watched(tasks, self._mistaken)
        self.turns = TurnQueue(self._loop, limits, self.tasks, self.publish, self._work)
        self.commands = Commands(self, tasks)
        self.approvals = Approvals(self, approval, headless=headless, alone=alone)
        self.view = SessionView(picture_of(self, beginning.updated), limits)
        self.notes = Notes(self.publish, self.view.notes, limits.notes_kept)
        self._diary = Diary(session_id)
        self._crowded = False  # whether it was told that prompts are dropped
        self._over = False
        self._admission = Admission(limits.last_submissions, self.publish)
        # One client's prompts keep their order, whatever has to be read for one.
        self.arrivals: WeakKeyDictionary[object, asyncio.Lock] = WeakKeyDictionary()

    # Events

    def publish(self, event: Event, turn_id: str = "") -> None:
        """The only way an event leaves: numbered, stamped, folded, kept for replay, handed to every client.

        turn_id: the command whose answer it is; events of the running turn need none.
        """
        if self._over:  # whoever saw it has been told of its end
            return
        wire, time = to_builtins(event), now()
        name: str = wire.pop("type")
        wire |= {"session_id": self.id, "seq": self.next_seq, "time": time}
        if turn_id:
            wire["turn_id"] = turn_id
        elif (active := self.turns.active) is not None and name != "queue" and not name.startswith("ext_"):
            wire.setdefault("turn_id", active.id)
        whose: str | None = wire.get("turn_id")
        published = Published(name, self.next_seq, encode_to_keep(wire), whose or "", self.id)
        self.view.fold(event, time, whose)
        self._diary.follow(event)
        self.audience.show(published)
        if self.host is not None:
            self.host.interception.observe(event)
        for another in self.notes.follow(event):
            self.publish(another)

    @property
    def next_seq(self) -> int:
        """The number that the next event will have."""
        return self.audience.next_seq

    def info(self) -> SessionInfo:
        """The session as its events tell it."""
        return self.view.info(self.next_seq)

    def changed(self) -> None:
        """Tell what no other event does: title, model, trust, an emptied conversation, what was loaded."""
        standing = self.view.info(self.next_seq + 1)
        self.publish(SessionChanged(session=picture_of(self, now(), standing)))

    @property
    def clients(self) -> dict[Client, int]:
        """Who is attached; see Audience."""
        return self.audience.clients

    def attach(self, client: Client, since: int | None = None, epoch: str = "") -> None:
        """See Audience."""
        self.audience.attach(client, since, epoch)
        self.approvals.came(client)

    def detach(self, client: Client) -> None:
        self.audience.detach(client)
        self.approvals.left(client)

    def connect(self, host: ExtensionHost, hooks: Hooks) -> None:
        """These are its extensions: from now on they observe it and have their say. hooks: theirs, and what
        else has a say.
        """
        self.host = host
        self._loop.hooks = hooks

    async def load(self) -> None:
        """Say what there is to say of its beginning, and start its extensions; wait for them as long as
        they get together.
        """
        assert self.host is not None
        for complaint in self.complaints:
            self.publish(ExtNotify(extension="zotd", level="warn", message=printable(complaint)))
        await self.host.start()
        self.listed()

    def can(self, capability: str) -> bool:
        return self.audience.can(capability)

    async def audience_changed(self) -> None:
        await self.audience.changed()

    def prompt(self, text: str, extension: str) -> str:
        if not self.turns.refuses and self._admission.takes(extension, len(self.clients)):
            turn = self.turns.make([Text(text)], f"extension:{extension}")
            try:
                self.enqueue(turn)
            except QueueFull as full:
                if not self._crowded:
                    self._crowded = True
                    message = f"prompts that extension {extension} submits are dropped: {full}"
                    self.publish(ExtNotify(extension="zotd", level="warn", message=message))
                return str(full)
        return ""

    def built_in(self, text: str) -> Invocation | None:
        return self.commands.built_in(text)

    def run(self, invocation: Invocation, extension: str) -> None:
        if not self.turns.refuses and self._admission.takes(extension, len(self.clients)):
            self.run_command(invocation, f"extension:{extension}").begin()

    def failed(self, extension: str, message: str) -> None:
        self.notes.fail(extension, message)

    def renewed(self) -> None:
        self.notes.renewed()

    def _mistaken(self, task: str, bug: BaseException) -> None:
        """A task of this session ended by a mistake of ours; all others go on."""
        self.failed("zotd", f"{task}: ended by a mistake of zotd: {type(bug).__name__}: {bug}")

    @property
    def full(self) -> bool:
        return self.audience.full

    async def drained(self) -> None:
        await self.audience.drained()

    # Prompts

    async def submit(
        self,
        text: str,
        images: Sequence[Image] = (),
        *,
        context: str = "",
        client: str = "client",
        key: str = "",
        steer: bool = False,
        dirty_files: Sequence[str] = (),
        started: Callable[[], None] = lambda: None,
    ) -> Accepted:
        """Take a prompt. A registered `/command` runs at once, also during a turn; the rest queues.

        context: shown to the model after the text. key: one that was taken before is answered as before.
        steer: the turn that runs takes it in. dirty_files: absolute paths that its tools leave alone.
        `started` is called before the first event of the turn or command. Raises QueueFull, and Refused when
        the session closes.
        """
        await self.loaded()
        if (before := self.turns.known(key)) is not None:
            return replace(before, begin=lambda: None)
        beside = [Text(context)] if context else []
        content: list[Block] = [Text(text), *beside, *images] if text or not images else [*images, *beside]
        turn = self.turns.make(content, client, started)
        turn.key, turn.dirty_files = key, tuple(dirty_files)
        if not images and (invocation := self.commands.find(text)) is not None:
            return self._command(turn, invocation)
        return self.turns.take(turn, steer=steer)

    def run_command(self, invocation: Invocation, client: str = "client") -> Accepted:
        """Run a command that was named, not typed. client: who asked for it."""
        return self._command(self.turns.make([], client), invocation)

    def enqueue(self, turn: Turn) -> bool:
        """Give a turn that no client sent its place in the queue. False in a session that closes.

        Raises QueueFull.
        """
        if self.closing:
            return False
        self.turns.take(turn).begin()
        return True

    async def loaded(self) -> None:
        """Until the extensions are ready, or were given the time they get together."""
        if self.loading is not None and not self.loading.done():
            await asyncio.wait([self.loading], timeout=self.limits.ready_together_s)
        if self.host is not None:
            await self.host.loaded()

    async def wait(self, turn_id: str) -> Outcome | None:
        """The outcome of a turn, None for an id that is not known or no longer kept."""
        finished = self.turns.outcome(turn_id)
        return None if finished is None else await asyncio.shield(finished)

    def abort(self) -> bool:
        """Stop the running turn; queued ones go on. Whether there was one."""
        return self.turns.abort()

    def unqueue(self) -> list[str]:
        """Empty the queue and give back the texts, so that nothing typed is lost."""
        return [turn.text for turn in self.turns.unqueue()]

    def clear(self) -> Callable[[], None]:
        """Start over with an empty conversation, here and now. Returns what tells of it.

        Raises Refused while a turn runs or is about to, and NotKept; then nothing is changed.
        """
        if self.busy:
            raise Refused("a turn is running", kind="busy", hint="abort it first, or wait for its `done`")
        self.transcript.clear()
        return self._cleared

    def _cleared(self) -> None:
        self.notes.clear()
        self.changed()

    async def reload(self) -> Reloaded:
        """Stop the extensions, read their manifests again and start them. Prompts wait, as for the start.

        Who asks while it goes on gets the same result.
        """
        assert self.host is not None
        began = time.perf_counter()
        reloaded = await self.host.reload()
        took = round((time.perf_counter() - began) * 1000, 3)
        failed = len(reloaded.errors)
        log("reload", session=self.id, ready=len(reloaded.ready), failed=failed, duration_ms=took)
        self.listed()
        return reloaded

    def listed(self) -> None:
        """All extensions that were found are known now: tell of those that had no event of their own."""
        if self.host is not None and self.host.states() != self.info().extensions:
            self.changed()

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or was accepted and will."""
        return not self.turns.idle

    @property
    def closing(self) -> bool:
        """Whether it takes no more work."""
        return self.turns.closed

    async def settled(self) -> None:
        """Until no turn, queue or command is left."""
        while pending := [
            task
            for task in (self.turns.worker, *self.commands.running)
            if task is not None and not task.done()
        ]:
            await asyncio.wait(pending)

    async def finish(self) -> None:
        """As `settled`, for a client that asks for nothing more: what extensions submit is bounded then."""
        with self._admission.ending():
            await self.settled()

    def refuse(self) -> None:
        """Take no more work, and end what there is: the first thing that `close` does."""
        self.turns.close()
        self.commands.close()

    async def close(self, reason: End | None = None) -> None:
        """Abort what runs and stop the extensions. The file is free afterwards, whatever went wrong.

        reason: why somebody ends it for everyone; who sees it is told then, by its last event.
        """
        try:
            self.refuse()
            await self.settled()
            if self.loading is not None:
                self.loading.cancel()
                await asyncio.wait([self.loading])
            if self.host is not None:
                await self.host.stop()
        finally:
            if reason is not None:
                self.publish(SessionClosed(reason=reason))
                self.clients.clear()
            self._over = True
            self.audience.close()
            if self.log is not None:
                self.log.close()

    def _command(self, turn: Turn, invocation: Invocation) -> Accepted:
        self._diary.begin_command(turn.id)
        begin = self.commands.ready(turn, invocation)
        return self.turns.accepted(turn, Accepted(turn.id, "command", begin, turn.answered))

    def _work(self, turn: Turn) -> Coroutine[Any, Any, Outcome]:
        """What runs a turn, from its first event to its `done`."""
        self._diary.begin(turn.id, client=turn.client, provider=self.provider, model=self.model.id)
        self._crowded = False
        if turn.compact is not None:
            return self._loop.compact(turn.id, self.model, turn.compact)
        self.notes.prompted()
        self.changes.begin(turn.id, turn.dirty_files)
        return self._loop.run(turn.id, turn.content, self.model, turn.client, turn.key)
