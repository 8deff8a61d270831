"""Owns the zot dialect on one connection: commands in, responses and events out, one session.

`ping` and `hello` are answered without the agent; the session is opened by the first command that needs
it, or shortly after connecting, so that extensions start and their notes are seen.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zotd import __version__
from zotd.base.files import MORE_DESCRIPTORS, none_left
from zotd.base.log import mistake, wanted
from zotd.base.tasks import Tasks
from zotd.daemon.capabilities import declared
from zotd.daemon.connection import About, Connection
from zotd.daemon.request_line import request_line
from zotd.wire import dialect
from zotd.wire.dialect import Command, Refusal

if TYPE_CHECKING:
    from zotd.daemon.audience import Client
    from zotd.daemon.session import Session
    from zotd.store.ring import Published

_LIGHT = frozenset({"ping", "hello", "get_models"})
"""Commands that are answered without the agent."""


class Desk(Protocol):
    """What a front needs of the process. `open` may be slow: the first time it loads the agent, and what it
    `resumes` is read from a file; of anything else the `identity` is known at once.
    """

    @property
    def tasks(self) -> Tasks: ...
    @property
    def token(self) -> str: ...
    @property
    def private(self) -> bool: ...
    @property
    def resumes(self) -> bool: ...
    def identity(self) -> tuple[str, str]: ...
    def models(self) -> list[dict[str, Any]]: ...
    async def open(self) -> Session: ...
    async def find(self, session_id: str) -> Session: ...
    def set_model(self, session: Session, model: str) -> None: ...
    def set_reasoning(self, session: Session, level: str) -> None: ...
    async def finish(self, session: Session, turn_ids: Sequence[str]) -> None: ...
    async def leave(self, session: Session, client: Client) -> None: ...
    def fatal(self, connection: Connection, message: str) -> None: ...


class ZotFront:
    """One connection in the zot dialect. Commands are handled in the order they came."""

    approver = None

    def __init__(self, connection: Connection, desk: Desk) -> None:
        self._connection = connection
        connection.keep("done")  # it stops at that, and knows nothing of pictures
        self.desk = desk
        self.capabilities: frozenset[str] = frozenset()
        self._session: Session | None = None
        self._inbox: deque[Command | Refusal | None] = deque()  # None: begin the session
        self._pump: asyncio.Task[None] | None = None
        self._since: dict[int, float] = {}  # when commands came that are not answered
        self.reloads: set[asyncio.Task[None]] = set()
        self._trusted = not desk.token
        self.awaited: set[str] = set()
        self._over = False
        self._catching_up = False
        self._met = False
        grace = connection.limits.health_grace_s
        self._warm_up = asyncio.get_running_loop().call_later(grace, self._take, None)

    # Client of a session

    @property
    def full(self) -> bool:
        return self._connection.full

    async def drained(self) -> None:
        await self._connection.drained(self._connection.limits.client_stall_s)

    def deliver(self, event: Published) -> None:
        mine = event.type == "done" and event.turn_id in self.awaited
        if event.type == "done" and not (self._catching_up or self._ends(event.turn_id)):
            return  # of what it has missed it is sent every end: it was there, or wants to know
        if event.type == "queue" and "submit" not in self.capabilities:
            return  # only extensions can fill the queue behind this client's back
        self._connection.tell(event, self, asked=self._catching_up or mine)

    def shown(self, event: Published) -> bytes:
        return dialect.event(event.type, event.body)

    def resync(self, session_id: str) -> Published | None:
        session = self._session
        return None if session is None or session.id != session_id else session.audience.resync(self)

    def _ends(self, turn_id: str) -> bool:
        """Whether a `done` is what this client waits for: it stops at the first one that it is sent.

        So a command sends none while a prompt runs, nor one that an extension has run; and while prompts of
        this client wait, other turns send none.
        """
        active = self._session.turns.active if self._session is not None else None
        if turn_id in self.awaited:
            self.awaited.remove(turn_id)
            return active is None or turn_id == active.id
        return active is not None and turn_id == active.id and not self.awaited

    # Front

    def receive(self, value: Any) -> None:
        if self._over:  # turned away: what else is in the pipe counts for nothing
            return
        command = dialect.parse(value)
        if not self._trusted and not self._authenticate(command):
            return
        if not self._met:
            self._met = True
            if not self.desk.resumes and self._identity(_named(command)) is None:
                return
        self._take(command)

    def about(self) -> About:
        pending = sum(item is not None for item in self._inbox) + (self._pump is not None)
        return About("zot", requests=pending)

    def malformed(self, message: str) -> None:
        self._take(Refusal(dialect.malformed(message)))

    def _take(self, item: Command | Refusal | None) -> None:
        """Serve at once what needs no agent, unless something waits ahead of it: answers keep their order."""
        if isinstance(item, Command) and wanted():
            self._since[id(item)] = time.perf_counter()
        light = item is not None and self._is_light(item) and not self._connection.deaf
        if self._pump is None and item is not None and light:
            self._answer_light(item)
            return
        self._inbox.append(item)
        if self._pump is None:
            self._pump = self.desk.tasks.create_task(self._work(), name="zot dialect commands")

    async def finished(self) -> None:
        """Until everything that was accepted is done; of a session that others may share, what is ours."""
        if self._pump is not None:
            await asyncio.wait([self._pump])
        if self.reloads:
            await asyncio.wait(self.reloads)
        if self._session is not None:
            await self.desk.finish(self._session, tuple(self.awaited))

    async def closed(self) -> None:
        self._over = True
        self._warm_up.cancel()
        if self._session is not None:
            await self.desk.leave(self._session, self)

    def _authenticate(self, command: Command | Refusal) -> bool:
        """The token must come first, in `hello`. Compared in constant time."""
        command = _named(command)  # it needs the token whatever else is wrong with it
        if command.type != "hello":
            self.refuse(command, "auth required: send hello with token first")
            return False
        if not hmac.compare_digest(str(command.params.get("token", "")).encode(), self.desk.token.encode()):
            self.refuse(command, "invalid token")
            self._connection.flush()
            self._over = True
            self.desk.fatal(self._connection, "invalid token")
            return False
        self._trusted = True
        return True

    async def _work(self) -> None:
        try:
            while self._inbox:
                await self._connection.heard()
                item = self._inbox.popleft()
                if item is None:
                    await self._begin_session()
                elif isinstance(item, Refusal) or self._is_light(item):
                    self._answer_light(item)
                elif item.type == "attach":
                    await self._attach(item)
                elif (session := await self._begin_session(item)) is None:
                    continue
                elif self._is_light(item):  # it was only waiting for what is known now
                    self._answer_light(item)
                elif session.closing:
                    self.refuse(item, "the session was closed: attach to another one")
                else:
                    await self._handle(item, session)
        finally:
            self._pump = None

    def _is_light(self, item: Command | Refusal) -> bool:
        """Whether it is answered without a session. `hello` tells of the model, which may be in a file."""
        if isinstance(item, Refusal):
            return True
        if item.type == "hello" and self._session is None and self.desk.resumes:
            return False
        return item.type in _LIGHT

    async def _handle(self, command: Command, session: Session) -> None:
        """A fault of ours is one command's failure, never the end of a daemon that serves others."""
        from zotd.daemon.refused import Refused
        from zotd.daemon.zot_commands import HANDLERS

        try:
            outcome = HANDLERS[command.type](self, command, session)
            if outcome is not None:
                await outcome
        except Refused as no:
            self.refuse(command, f"{no}: {no.hint}" if no.hint else str(no))
        except Exception as bug:
            if none_left(bug):
                self.refuse(command, f"zotd has no file descriptors left for this; {MORE_DESCRIPTORS}")
                return
            mistake(f"command {command.type}", bug)
            self.refuse(command, "internal error")

    async def _attach(self, command: Command) -> None:
        """From now on this connection is about another session, and no longer about its own."""
        from zotd.wire.codec import to_wire

        try:
            session = await self.desk.find(command.params["session_id"])
        except Exception as problem:
            self.refuse(command, str(problem))
            return
        self._warm_up.cancel()
        before = self._session
        if before is not None and before is not session:
            await self.desk.leave(before, self)
            self.awaited.clear()
        if self._over:  # meanwhile its client has gone
            return
        self._session = session
        picture = session.info()
        self.reply(command, {"session": to_wire(picture), "next_seq": picture.next_seq})
        since, epoch = picture.next_seq - 1, ""
        if "since" in command.params:
            since, epoch = command.params["since"], command.params.get("epoch", "")
        self._catching_up = True
        session.attach(self, since, epoch)
        self._catching_up = False

    async def _begin_session(self, command: Command | None = None) -> Session | None:
        """command: the one that needs it, if it was one."""
        if self._session is None and not self._over and self._trusted:
            self._warm_up.cancel()
            await self._open(command)
        return self._session

    async def _open(self, command: Command | None) -> None:
        try:
            session = await self.desk.open()
        except Exception as problem:
            self._fail(str(problem), command)
            return
        if not self._over:  # its client may have gone meanwhile
            self._session = session
            session.attach(self, 0 if session.audience.unseen else None)

    # Commands

    def _answer_light(self, item: Command | Refusal) -> None:
        if isinstance(item, Refusal):
            self._connection.send(item.response)
        elif item.type == "hello":
            self._say_hello(item)
        elif item.type == "ping":
            self.reply(item, {"pong": True})
        else:
            self.reply(item, {"models": self.desk.models()})

    def _say_hello(self, command: Command) -> None:
        if (said := command.params.get("capabilities")) is not None:
            self.capabilities = declared(said)
        if (identity := self._identity(command)) is not None:
            provider, model = identity
            hello = {"protocol_version": 1, "version": __version__, "provider": provider, "model": model}
            self.reply(command, hello)

    def _identity(self, command: Command) -> tuple[str, str] | None:
        if self._session is not None:
            return self._session.provider, self._session.model.id
        try:
            return self.desk.identity()
        except Exception as problem:
            self._fail(str(problem), command)
            return None

    def _fail(self, problem: str, command: Command | None) -> None:
        """Cut the client off. One on a socket does not see our standard error: a frame tells it why."""
        self._over = True
        if not self.desk.private:
            self.refuse(command or Command("", None, {}), problem)
        self.desk.fatal(self._connection, problem)

    def reply(self, command: Command, data: dict[str, Any] | None) -> None:
        self._connection.send(dialect.response(command.type, command.id, data=data))
        self._written(command, "ok")

    def refuse(self, command: Command, error: str) -> None:
        self._connection.send(dialect.response(command.type, command.id, error=error))
        self._written(command, "refused")

    def _written(self, command: Command, outcome: str) -> None:
        # A health check goes through here: hence the look ahead of all else. Who asked nothing has no line.
        if not wanted() or not command.type:
            return
        began = self._since.pop(id(command), 0.0)
        request_line(command.type, self._connection.number, command.id, outcome, began)


def _named(item: Command | Refusal) -> Command:
    """The command itself, or what can be said of one that is none."""
    if isinstance(item, Command):
        return item
    return Command(item.response["command"], item.response.get("id"), {})
