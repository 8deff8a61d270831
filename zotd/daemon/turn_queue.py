"""Owns the turns of one session: which runs, which wait, what became of the last thousand."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from zotd.agent.loop import Loop, Outcome
from zotd.base.limits import Limits
from zotd.base.soon import Seldom
from zotd.base.tasks import Watched
from zotd.daemon.refused import Refused, draining
from zotd.daemon.turns import Accepted, State, Turn, check_room
from zotd.protocol.content import Block
from zotd.protocol.events import Done, Event, QueueChanged
from zotd.protocol.session import QueuedTurn


class TurnQueue:
    """One turn runs at a time, the others wait in order; one that steers waits for the turn that runs.

    Each turn that was accepted ends in exactly one `done`.
    """

    def __init__(
        self,
        loop: Loop,
        limits: Limits,
        tasks: Watched,
        publish: Callable[[Event], None],
        work: Callable[[Turn], Coroutine[Any, Any, Outcome]],
    ) -> None:
        """loop: tells of turns that were aborted before they began. work: what runs a turn."""
        self.active: Turn | None = None
        self.closed = False
        self.draining = False
        self.waiting: deque[Turn] = deque()
        self._steering: deque[Turn] = deque()
        self._merged: list[Turn] = []
        self._loop = loop
        self._limits = limits
        self._tasks = tasks
        self._publish = publish
        self._work_of = work
        self._announce = Seldom(self._tell)
        self._running: asyncio.Task[Outcome] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._known: dict[str, asyncio.Future[Outcome]] = {}
        self._keys: dict[str, tuple[Accepted, float]] = {}
        loop.steered = self._steered

    @property
    def idle(self) -> bool:
        """Whether nothing runs or was accepted and will."""
        return self.active is None and not self.waiting

    @property
    def refuses(self) -> bool:
        """Whether it takes nothing new."""
        return self.closed or self.draining

    def make(self, content: list[Block], client: str, started: Callable[[], None] = lambda: None) -> Turn:
        """A turn that can be waited for, and neither runs nor waits yet.

        All work for a session begins here: one that closes raises Refused, and so does a daemon that drains.
        """
        if self.closed:
            hint = "session/attach opens one that is saved"
            raise Refused("the session was closed meanwhile", kind="session_not_found", hint=hint)
        if self.draining:
            raise draining()
        loop = asyncio.get_running_loop()
        turn = Turn(uuid.uuid4().hex, content, client, started, loop.create_future(), loop.create_future())
        self._known[turn.id] = turn.finished
        while len(self._known) > self._limits.turns_kept and next(iter(self._known.values())).done():
            del self._known[next(iter(self._known))]
        return turn

    def forget(self, turn: Turn) -> None:
        """A turn that was made and cannot be taken."""
        del self._known[turn.id]

    def take(self, turn: Turn, *, steer: bool = False) -> Accepted:
        """Give a turn its place. It runs once `begin` was called. Raises QueueFull, and forgets the turn."""
        idle = self.idle
        if not idle:
            try:
                check_room([*self._steering, *self.waiting], turn, self._limits)
            except Exception:
                self.forget(turn)
                raise
        if steer and self.active is not None:
            turn.steer = True
            self._steering.append(turn)
            return self.accepted(
                turn, Accepted(turn.id, "steered", lambda: self.release(turn), turn.answered)
            )
        self.waiting.append(turn)
        state: State = "started" if idle else "queued"
        position = 0 if idle else len(self.waiting)
        accepted = Accepted(turn.id, state, lambda: self.release(turn), turn.answered, position)
        return self.accepted(turn, accepted)

    def release(self, turn: Turn) -> None:
        """Let a turn run. With nothing ahead of it it begins here and now, so that an abort finds it. Nothing
        happens to one that was taken out of the queue in between.
        """
        if turn.finished.done():
            return
        turn.may_run = True
        if self._running is None and self.waiting and self.waiting[0].may_run:
            head, run = self._begin()
            self._worker = self._tasks.create_task(self._work(head, run), name="turns")
        if turn in self.waiting or turn in self._steering:
            turn.announced = True
            self._announce()

    def known(self, key: str) -> Accepted | None:
        """How a prompt with this key was answered before, None when it is a new one."""
        now = time.time()
        while self._keys and now - next(iter(self._keys.values()))[1] > self._limits.prompt_key_s:
            del self._keys[next(iter(self._keys))]
        found = self._keys.get(key) if key else None
        return found[0] if found is not None else None

    def remember(self, key: str, accepted: Accepted, when: float) -> None:
        """From now on a prompt with this key is that one. when: seconds since the epoch."""
        self._keys[key] = accepted, when
        while len(self._keys) > self._limits.prompt_keys:
            del self._keys[next(iter(self._keys))]

    def remember_ended(self, turn_id: str, key: str, when: float, outcome: Outcome) -> None:
        """A turn of an earlier life of the session: its key is known, and its end can be asked for."""
        loop = asyncio.get_running_loop()
        self._known[turn_id] = finished = loop.create_future()
        finished.set_result(outcome)
        self.remember(key, Accepted(turn_id, "started", lambda: None, loop.create_future()), when)

    def outcome(self, turn_id: str) -> asyncio.Future[Outcome] | None:
        """The outcome of a turn, None for an id that is not known or no longer kept."""
        return self._known.get(turn_id)

    def rows(self) -> list[QueuedTurn]:
        """All that wait, in the order in which the model will get them."""
        return [turn.row() for turn in self._all_waiting() if turn.may_run]

    def abort(self) -> bool:
        """Stop the running turn, or the one that was accepted to run at once; queued ones go on.

        Returns whether there was one.
        """
        if self._running is None:
            return bool(self.waiting) and bool(self.unqueue(self.waiting[0].id))
        self._running.cancel()
        return True

    def unqueue(self, turn_id: str | None = None) -> list[Turn]:
        """Take one turn that waits out of the queue, or all. Returns those: nothing typed is lost."""
        dropped = [turn for turn in self._all_waiting() if turn_id in (None, turn.id)]
        self.waiting = deque(turn for turn in self.waiting if turn not in dropped)
        self._steering = deque(turn for turn in self._steering if turn not in dropped)
        for turn in dropped:
            turn.started()
            self._end(turn, Outcome("aborted"))
        if any(turn.announced for turn in dropped):
            self._announce()
        return dropped

    def close(self) -> None:
        """Take no more, and end what is there."""
        self.closed = True
        self.unqueue()
        self.abort()

    @property
    def worker(self) -> asyncio.Task[None] | None:
        """What works through the queue, while there is something to work on."""
        return self._worker

    def accepted(self, turn: Turn, accepted: Accepted) -> Accepted:
        """The answer for a turn that was taken, remembered where it has a key."""
        if turn.key:
            self.remember(turn.key, accepted, time.time())
        return accepted

    def _all_waiting(self) -> list[Turn]:
        return [*self._steering, *self.waiting]

    def _tell(self) -> None:
        self._publish(QueueChanged(turns=self.rows()))

    def _end(self, turn: Turn, outcome: Outcome) -> None:
        self._publish(Done(turn_id=turn.id, stop=outcome.stop))
        turn.finished.set_result(outcome)

    def _steered(self) -> Iterator[Turn]:
        """The prompts that the running turn takes in now: they end with it."""
        if turns := [turn for turn in self._steering if turn.may_run]:
            self._steering = deque(turn for turn in self._steering if not turn.may_run)
            self._merged += turns
            self._announce()
            for turn in turns:
                turn.started()
                yield turn

    def _begin(self) -> tuple[Turn, asyncio.Task[Outcome]]:
        turn = self.active = self.waiting.popleft()
        turn.started()
        if turn.announced:
            self._announce()
        self._running = self._tasks.create_task(self._work_of(turn), name=f"turn {turn.id}")
        return turn, self._running

    async def _work(self, turn: Turn, run: asyncio.Task[Outcome]) -> None:
        while True:
            try:
                outcome = await run
            except asyncio.CancelledError:
                # Aborted before its first step: the loop never ran, so the turn is told here.
                outcome = self._aborted(turn)
            except Exception as bug:  # in the telling of it: who waits for its end has to be told so
                error = f"internal error: {type(bug).__name__}: {bug}"
                outcome = Outcome("error", error=error, kind="internal")
                self._publish(Done(turn_id=turn.id, stop="error"))
            finally:
                self._running = self.active = None
            turn.finished.set_result(outcome)
            self._settle_steered(outcome)
            if not (self.waiting and self.waiting[0].may_run):
                return
            turn, run = self._begin()

    def _aborted(self, turn: Turn) -> Outcome:
        """A turn that never ran, told to its end."""
        if turn.compact is None:
            return self._loop.aborted(turn.id, turn.content, turn.client, turn.key)
        self._publish(Done(turn_id=turn.id, stop="aborted"))
        return Outcome("aborted")

    def _settle_steered(self, outcome: Outcome) -> None:
        """Prompts that the turn took in end with it; those that came too late are the next turns."""
        merged, self._merged = self._merged, []
        for turn in merged:
            self._end(turn, outcome)
        if self._steering:
            late, self._steering = self._steering, deque()
            for turn in late:
                turn.steer = False
            self.waiting.extendleft(reversed(late))
            self._announce()
