"""Owns JSON-RPC 2.0 on one connection: requests to methods, events to notifications."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from zotd.base.tasks import Tasks, failure_of
from zotd.daemon.connection import About, Connection
from zotd.daemon.daemon import Daemon
from zotd.daemon.dispatch import Call, dispatch
from zotd.daemon.questions import Questions
from zotd.daemon.request_line import request_line
from zotd.daemon.service import BEFORE_INITIALIZE, FAREWELLS, METHODS, TO_THE_END
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.store.ring import Published
from zotd.wire import peer as rpc
from zotd.wire.peer import Batch, Cancel, Invalid, Notification, Request, Response, RpcPeer, problem


class RpcFront:
    """One client. Requests run concurrently; each session it opened delivers its events here.

    `private` says that sessions end with the connection: nobody else can reach them.
    """

    def __init__(
        self,
        connection: Connection,
        sessions: Sessions,
        spec: SessionSpec,
        tasks: Tasks,
        token: str,
        private: bool,
        turned_away: Callable[[Connection, str], None],
        daemon: Daemon,
    ) -> None:
        """turned_away: ends a connection whose client cannot be served. daemon: the process."""
        self.daemon = daemon
        self.sessions = sessions
        # Which session a command line means, and whether to save it, is for clients that cannot say it.
        self.spec = (
            spec
            if spec.headless
            else replace(spec, asks_trust=True, ephemeral=False, saved=None, alone=private)
        )
        self._own: set[Session] = set()  # of a run of the command line: they are over with it
        self.token = token
        self.initialized = False
        self.capabilities: frozenset[str] = frozenset()
        self._over = False
        self._gone = self._replaying = False
        self._leaving: asyncio.TimerHandle | None = None
        self._accepted: deque[tuple[str, str]] = deque(maxlen=connection.limits.turns_kept)
        self.name = "client"
        self.client_version = ""
        self._private = private
        self._turned_away = turned_away
        self._connection = connection
        self._tasks = tasks
        self._peer = RpcPeer(connection.limits.requests_in_flight)
        self._questions = Questions(self._peer, connection, lambda: self.name)
        self._introduction = asyncio.Lock()
        self._running: dict[rpc.RpcId, tuple[str, asyncio.Task[None]]] = {}

    # Client of sessions

    @property
    def approver(self) -> Questions | None:
        return self._questions if "approvals" in self.capabilities else None

    @property
    def full(self) -> bool:
        return self._connection.full

    async def drained(self) -> None:
        await self._connection.drained(self._connection.limits.client_pause_s)

    def deliver(self, event: Published) -> None:
        self._connection.tell(event, self, asked=self._replaying)

    # Teller of events

    def shown(self, event: Published) -> bytes:
        return rpc.notification_of(event.type, event.body)

    def resync(self, session_id: str) -> Published | None:
        session = self.sessions.speaking(session_id)
        return None if session is None else session.audience.resync(self)

    # Caller of methods

    def attach(self, session: Session, since: int | None = None, epoch: str = "") -> None:
        if self._gone:  # while it was answered: it came and went
            self.sessions.expire_later(session)
            return
        if self.spec.headless and session.audience.unseen:
            self._own.add(session)
        self._replaying = True
        session.attach(self, since, epoch)
        self._replaying = False

    def sees(self, session: Session) -> bool:
        return self in session.clients

    def detach(self, session: Session) -> None:
        """It goes on without this client; a private server's sessions have no other, and wait for it."""
        session.detach(self)
        self.sessions.expire_later(session)

    def cancel(self, request_id: rpc.RpcId | None) -> None:
        if request_id is not None and request_id in self._running:
            method, task = self._running[request_id]
            if method not in TO_THE_END:
                task.cancel()

    def hang_up(self, why: str) -> None:
        self._over = True
        self._turned_away(self._connection, why)

    def leave(self, *, soon: bool) -> None:
        """soon: a while after this, for what a client says last."""
        if self._leaving is not None:
            self._leaving.cancel()
        grace_s = self._connection.limits.exit_grace_s if soon else 0.0
        self._leaving = asyncio.get_running_loop().call_later(grace_s, self._connection.leave)

    # Front

    def receive(self, value: Any) -> None:
        if self._over:  # turned away: what else is in the pipe counts for nothing
            return
        for item in self._peer.receive(value):
            if isinstance(item, Batch):
                self._take_batch(item)
            else:
                self._take(item, self._send)

    def about(self) -> About:
        name = self.name if self.initialized else ""
        return About("jsonrpc", name, self.client_version, len(self._running))

    def malformed(self, message: str) -> None:
        self._connection.send(rpc.parse_error(message))

    async def finished(self) -> None:
        """Until every request is answered and every accepted turn is done; of shared sessions, our own."""
        self.capabilities -= {"approvals"}
        for session in self._seen() if self._private else ():
            session.approvals.end()
        self._questions.give_up()
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])
        for session in self._seen():
            if self._private or session in self._own:
                await session.finish()
        for session_id, turn_id in tuple(self._accepted):
            if (known := self.sessions.get(session_id)) is not None:
                await known.wait(turn_id)
        for session in self._seen():
            if self._is_alone_with(session):  # while it sees how that ends
                await self.sessions.close(session)

    async def closed(self) -> None:
        self._gone = True
        if self._leaving is not None:
            self._leaving.cancel()
        self._peer.abandon()
        for request_id in tuple(self._running):
            self.cancel(request_id)
        for session in self._seen():
            over = self._leaving is not None and self._is_alone_with(session)
            await self.sessions.leave(session, self, private=self._private or over)

    def _is_alone_with(self, session: Session) -> bool:
        """Whether a session was made for this run, and nobody else has come to see it."""
        return session in self._own and len(session.clients) == 1

    def _seen(self) -> list[Session]:
        """The open sessions that this client is attached to."""
        return [session for session in self.sessions.all() if self.sees(session)]

    def _take(self, item: rpc.Item, send: Callable[[Answer], None]) -> None:
        """Serve one item; `send` gets exactly one Answer, an empty one where none is due."""
        match item:
            case Request() if self._leaving is not None and item.method not in FAREWELLS:
                data = problem("invalid_request", "open another connection")
                message = f"{item.method}: this connection was told to shut down"
                send(Answer(self._peer.fail(item.id, rpc.INVALID_REQUEST, message, data)))
            case Request():
                began = time.perf_counter()
                task = self._tasks.create_task(self._serve(item, send, began), name=f"request {item.method}")
                self._running[item.id] = item.method, task
                task.add_done_callback(lambda task: self._served(item, task, send, began))
            case Cancel(id=request_id):
                self.cancel(request_id)
                send(_NOTHING)
            case Response():
                self._questions.take(item)
                send(_NOTHING)
            case Invalid(reply=reply):
                send(Answer(reply))
            case Notification(method=method) if method in FAREWELLS:
                self.leave(soon=method == "shutdown")
                send(_NOTHING)
            case _:
                send(_NOTHING)  # notifications that name no method of ours, and answers to no question

    def _take_batch(self, batch: Batch) -> None:
        """The replies of a batch leave together, in the order in which they come to be. What follows from one
        does not wait for the others, which may take long: only the end of a connection that is refused does.
        """
        replies: list[dict[str, Any]] = []
        late: list[Answer] = []
        left = len(batch.items)

        def collect(answer: Answer) -> None:
            nonlocal left
            left -= 1
            if answer.reply is not None:
                replies.append(answer.reply)
            if left and not answer.patient:
                answer.afterwards()
            else:
                late.append(answer)
            if not left:
                if replies:
                    self._connection.send(replies)
                for each in late:
                    each.afterwards()

        for item in batch.items:
            self._take(item, collect)

    def _send(self, answer: Answer) -> None:
        if answer.reply is not None:
            self._connection.send(answer.reply)
        answer.afterwards()

    async def _serve(self, request: Request, send: Callable[[Answer], None], began: float) -> None:
        # What follows `initialize` in the same packet must find it done.
        async with nullcontext() if self.initialized else self._introduction:
            answer = await self._answer(request)
        with suppress(asyncio.CancelledError):  # what it has done is followed up in any case
            await self._connection.heard()
        send(answer)
        request_line(request.method, self._connection.number, request.id, answer.outcome, began)

    def _served(
        self, request: Request, task: asyncio.Task[None], send: Callable[[Answer], None], began: float
    ) -> None:
        """Forget a request. One that was cancelled, perhaps before it began, is answered here."""
        self._running.pop(request.id, None)
        if task.cancelled():
            outcome, reply = "cancelled", self._peer.cancel(request.id)
        elif failure_of(task) is not None:
            outcome, code = "internal", rpc.INTERNAL_ERROR
            reply = self._peer.fail(request.id, code, "internal error", problem(outcome))
        else:
            return
        send(Answer(reply))
        request_line(request.method, self._connection.number, request.id, outcome, began)

    async def _answer(self, request: Request) -> Answer:
        early = {"initialize"} if self.token else BEFORE_INITIALIZE
        if not self.initialized and request.method in METHODS and request.method not in early:
            credentials, hint = "", "initialize comes first on every connection"
            if self.token:
                credentials, hint = " with the token", "this daemon answers nothing before initialize.token"
            message = f"call initialize{credentials} before {request.method}"
            data = problem("not_initialized", hint)
            return Answer(self._peer.fail(request.id, rpc.NOT_INITIALIZED, message, data))
        call = Call(self)
        try:
            response = await dispatch(request, call)
        except asyncio.CancelledError:
            if call.action is None:
                raise
            # The method has done its work: a prompt that was taken runs, though nobody waits for its id.
            return Answer(self._peer.cancel(request.id), call.action)
        if (turn_id := response.get("result", {}).get("turn_id")) is not None:
            self._accepted.append((request.params.get("session_id", ""), turn_id))
        return Answer(self._closed_reply(request, response), call.action, patient="error" in response)

    def _closed_reply(self, request: Request, response: dict[str, Any]) -> dict[str, Any] | None:
        """The dispatcher's response in our words; what exceptions say never leaves."""
        if "result" in response:
            return self._peer.reply(request.id, response["result"])
        failure, code = response["error"], response["error"]["code"]
        if code == rpc.METHOD_NOT_FOUND:
            data = problem("method_not_found", "initialize lists the methods there are")
            return self._peer.fail(request.id, code, f"no method is named {request.method!r}", data)
        if code == rpc.INTERNAL_ERROR:
            return self._peer.fail(request.id, code, "internal error", problem("internal"))
        return self._peer.fail(request.id, code, failure["message"], failure.get("data"))


class Answer(NamedTuple):
    """What is sent, and what happens once it is on its way; `patient`: once the rest of its batch is, too."""

    reply: dict[str, Any] | None
    action: Callable[[], object] | None = None
    patient: bool = False

    @property
    def outcome(self) -> str:
        """In one word."""
        failure = (self.reply or {}).get("error")
        return "ok" if failure is None else str(failure["data"]["kind"])

    def afterwards(self) -> None:
        if self.action is not None:
            self.action()


_NOTHING = Answer(None)
