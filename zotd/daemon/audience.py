"""Owns who sees a session: what each of them was shown, and what those who were away get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from msgspec import to_builtins

from zotd.base.clock import now
from zotd.base.limits import Limits
from zotd.daemon.approvals import Approver
from zotd.protocol.events import Resync
from zotd.protocol.session import SessionInfo
from zotd.store.ring import Budget, Published, Ring
from zotd.wire.codec import encode

End: TypeAlias = Literal["closed", "deleted"]  # for everyone who sees it


class Client(Protocol):
    """A front end that sees a session.

    capabilities: what it can show or do for extensions: `panels`, `insert`, `submit`.
    approver: through whom its user is asked whether calls may run; None where that cannot be.
    """

    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def approver(self) -> Approver | None: ...
    @property
    def full(self) -> bool: ...
    def deliver(self, event: Published) -> None: ...
    async def drained(self) -> None: ...


class Audience:
    """The clients of one session. Every event is shown to all of them, and kept for those who come back.

    clients: each with the number of the first event that it was shown. next_seq: that of the next event.
    unseen: nobody was ever attached.
    """

    def __init__(
        self, epoch: str, picture: Callable[[], SessionInfo], limits: Limits, budget: Budget
    ) -> None:
        """picture: the session after all events so far. budget: what the replay of all sessions may hold."""
        self.clients: dict[Client, int] = {}
        self.unseen = True
        self._epoch = epoch
        self._picture = picture
        self.next_seq = 1
        self._ring = Ring(limits, budget)
        self._changed = asyncio.Event()

    def show(self, event: Published) -> None:
        """Hand the next event to every client, and keep it for replay."""
        self.next_seq = event.seq + 1
        self._ring.add(event)
        for client in self.clients:
            client.deliver(event)

    def attach(self, client: Client, since: int | None = None, epoch: str = "") -> None:
        """From now on `client` sees every event, and first those after number `since` of an epoch, the
        current one by default, that it was not shown before. What is not kept any more is stood in for by
        one `resync`.
        """
        self.unseen = False
        shown = self.clients.get(client, self.next_seq)
        if since is not None:
            missed = self._missed(since, shown) if epoch in ("", self._epoch) else None
            for event in [self._resync()] if missed is None else missed:
                client.deliver(event)
            if missed:
                shown = since + 1
        self._changed.set()
        self.clients[client] = shown

    def detach(self, client: Client) -> None:
        if self.clients.pop(client, None) is not None:
            self._changed.set()

    def can(self, capability: str) -> bool:
        """Whether somebody in it declared a capability."""
        return any(capability in client.capabilities for client in self.clients)

    async def changed(self) -> None:
        """Until a client comes or goes, or may have said anew what it can do."""
        self._changed.clear()
        await self._changed.wait()

    @property
    def full(self) -> bool:
        """Whether its only client is behind: with others, nobody waits for one of them."""
        return len(self.clients) == 1 and next(iter(self.clients)).full

    async def drained(self) -> None:
        """Wait for the only client while it reads. It bounds the wait itself."""
        if len(self.clients) == 1:
            await next(iter(self.clients)).drained()

    def resync(self, client: Client) -> Published | None:
        """What stands in for events that a client was not sent; None if it is not attached."""
        if client not in self.clients:
            return None
        self.clients[client] = self.next_seq
        return self._resync()

    @property
    def replay_bytes(self) -> int:
        """Of events that are kept."""
        return self._ring.held

    def close(self) -> None:
        """The session is over: nothing is kept any more."""
        self._ring.clear()

    def _missed(self, since: int, shown: int) -> list[Published] | None:
        """The events between two numbers, both left out; None when they never were or are not kept."""
        if not 0 <= since < self.next_seq:
            return None
        missed = self._ring.after(since) if since + 1 < shown else []
        return None if missed is None else missed[: shown - since - 1]

    def _resync(self) -> Published:
        """The picture after all events so far, under the number of the last one."""
        picture = self._picture()
        wire = to_builtins(Resync(session=picture))
        name, seq = wire.pop("type"), self.next_seq - 1
        body = encode({**wire, "session_id": picture.session_id, "seq": seq, "time": now()})
        return Published(name, seq, body)
