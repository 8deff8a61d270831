"""Owns JSON-RPC 2.0 on one connection: requests to methods, events to notifications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import jsonrpcserver
import msgspec
from jsonrpcserver.exceptions import JsonRpcError

from zotd.daemon.connection import Connection
from zotd.daemon.service import BEFORE_INITIALIZE, INTERNAL, INVALID_PARAMS, METHODS, NOT_INITIALIZED, Refused
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.wire.codec import to_wire
from zotd.wire.peer import Batch, Invalid, Notification, Request, Response, RpcPeer

logging.getLogger("jsonrpcserver").disabled = True  # it prints what exceptions say, which may be private


class RpcFront:
    """One client. Requests run concurrently; each session it opened delivers its events here."""

    def __init__(
        self,
        connection: Connection,
        sessions: Sessions,
        spec: SessionSpec,
        tasks: asyncio.TaskGroup,
        token: str,
    ) -> None:
        self.sessions = sessions
        self.spec = spec
        self.token = token
        self.initialized = False
        self.name = "client"
        self._connection = connection
        self._tasks = tasks
        self._peer = RpcPeer(connection.limits.requests_in_flight)
        self._attached: list[Session] = []
        self._running: dict[Any, asyncio.Task[None]] = {}
        self._afterwards: list[Callable[[], None]] = []

    # Client of sessions

    @property
    def full(self) -> bool:
        return self._connection.full

    async def drained(self) -> None:
        await self._connection.drained()

    def deliver(self, event: dict[str, Any]) -> None:
        params = {key: value for key, value in event.items() if key != "type"}
        self._connection.send({"jsonrpc": "2.0", "method": event["type"], "params": params})

    # Caller of methods

    def attach(self, session: Session) -> None:
        self._attached.append(session)
        session.attach(self)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Run `action` once the answer to the present request is on its way."""
        self._afterwards.append(action)

    def hang_up(self) -> None:
        self._connection.close()

    # Front

    def receive(self, value: Any) -> None:
        for item in self._peer.receive(value):
            match item:
                case Request():
                    self._start(item)
                case Batch():
                    self._spawn(self._batch(item), f"batch of {len(item.items)}")
                case Invalid(response=answer):
                    self._connection.send(answer)
                case Notification() | Response():
                    self._note(item)

    def malformed(self, message: str) -> None:
        self._connection.send(_error(None, -32700, message, {"kind": "parse"}))
