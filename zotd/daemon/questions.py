"""Owns what the client of one connection is asked: each question is answered, taken back, or given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zotd.daemon.connection import Connection
from zotd.wire.peer import Response, RpcId, RpcPeer


class Questions:
    """The requests of the daemon that one client has not answered yet."""

    def __init__(self, peer: RpcPeer, connection: Connection, name: Callable[[], str]) -> None:
        """name: of the client, which it tells when it introduces itself."""
        self._peer = peer
        self._connection = connection
        self._name = name
        self._open: dict[RpcId, Callable[[Response | None], None]] = {}

    @property
    def name(self) -> str:
        return self._name()

    def ask(
        self, method: str, params: Any, answered: Callable[[Response | None], None]
    ) -> Callable[[], None]:
        """Send a request. `answered` gets the response, or None when there will be none.

        Returns what takes it back: the client, if it was asked already, is told not to bother, and `answered`
        is not called any more.
        """
        request_id, request = self._peer.request(method, params)
        self._open[request_id] = answered
        take_back = self._connection.ask(request)

        def withdraw() -> None:
            self._open.pop(request_id, None)
            notification = self._peer.withdraw(request_id)
            # Of a client that does not read, questions would pile up that nobody needs an answer to.
            if notification is not None and not take_back():
                self._connection.send(notification)

        return withdraw

    def take(self, response: Response) -> None:
        """The client has answered."""
        if (answered := self._open.pop(response.id, None)) is not None:
            answered(response)

    def give_up(self) -> None:
        """The client has said its last word: what is open stays without an answer."""
        while self._open:
            _, answered = self._open.popitem()
            answered(None)
