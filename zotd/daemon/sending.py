"""Owns what one client is sent: gathered into few writes, and held back while it reads too little.

Imports next to nothing, so that a health check is answered before the agent is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from zotd.base.limits import Limits

if TYPE_CHECKING:
    from zotd.daemon.outbox import Outbox
    from zotd.store.ring import Published


class Outlet(Protocol):
    """Where bytes go. `write` never blocks; `drained` waits until little is left, within a bound.

    full: it was given more than is taken at present; `when_roomy` names who is called once it is not.
    waiting: bytes that were written and not taken yet.
    """

    @property
    def full(self) -> bool: ...
    @property
    def waiting(self) -> int: ...
    def when_roomy(self, call: Callable[[], None]) -> None: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...
    def close(self) -> None: ...
    async def ended(self) -> None: ...


class Input(Protocol):
    """Where a client's own bytes come from: it is not heard while its answers pile up."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool: ...


class Teller(Protocol):
    """Who puts events into words for the client: `shown` as the payload of one frame.

    resync: the picture of a session that stands in for what the client was not sent; None where it does not
        see the session any more.
    """

    def shown(self, event: Published) -> bytes: ...
    def resync(self, session_id: str) -> Published | None: ...


class Sending:
    """The bytes to one client.

    The first frame of one turn of the event loop leaves at once, for somebody may be waiting; what else that
    turn produces leaves in one write, for it may be thousands. Once the outlet is full, the rest waits in an
    Outbox until it has room again.

    kept: types of events that are sent however far behind the client is. After the last event of a session
        there is no picture that could stand in for it.
    """

    def __init__(self, outlet: Outlet, limits: Limits, wrap: Callable[[bytes], bytes]) -> None:
        """wrap: makes the frame of a payload."""
        self.kept = frozenset({"session_closed"})
        self.input: Input | None = None
        self._outlet = outlet
        self._limits = limits
        self._wrap = wrap
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._gathering = False
        self._outbox: Outbox | None = None  # while the client is behind
        self._teller: Teller | None = None
        self._deaf = False
        self._stalled = False
        self._moved = asyncio.Event()
        outlet.when_roomy(self._room)

    def send(self, payload: bytes) -> None:
        """Send one JSON value that is no event."""
        if self._outbox is None:
            self.frame(self._wrap(payload))
        else:
            self._outbox.answer(payload)
            self._heed()

    def take_back(self, payload: bytes) -> bool:
        """Do not send what `send` was given, if it still waits: whether it does not leave any more."""
        taken = self._outbox is not None and self._outbox.take_back(payload)
        self._heed()
        return taken

    def tell(self, event: Published, teller: Teller, *, asked: bool = False) -> None:
        """Send an event, unless its session lags. asked: the client waits for this one, lagging or not."""
        if self._outbox is None:
            self.frame(self._wrap(teller.shown(event)))
        else:
            self._teller = teller
            self._outbox.event(event, asked=asked)
            if asked:
                self._heed()

    def frame(self, frame: bytes) -> None:
        """Send what is wrapped already."""
        if not self._gathering:
            self._gathering = True
            asyncio.get_running_loop().call_soon(self._turn_over)
            self._write(frame)
            return
        self._pending.append(frame)
        self._pending_bytes += len(frame)
        if len(self._pending) >= _FRAMES_GATHERED or self._pending_bytes >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        if self._pending:
            data, self._pending, self._pending_bytes = b"".join(self._pending), [], 0
            self._write(data)

    def close(self) -> None:
        """Write all that waits, with the pictures of sessions that lag."""
        self.flush()
        while self._outbox is not None and self._hand_on(self._outbox):
            pass
        self._outbox = None
        self._heed()
        self._moved.set()
        self._outlet.close()

    @property
    def queued_bytes(self) -> int:
        """What waits for the client to read it."""
        waits = self._outbox.size if self._outbox is not None else 0
        return waits + self._pending_bytes + self._outlet.waiting

    @property
    def lagging(self) -> bool:
        """Whether events were given up that it will be sent a picture for."""
        return self._outbox is not None and bool(self._outbox.lagging)

    @property
    def full(self) -> bool:
        """Whether so much waits that it is worth waiting for the client, and it still reads."""
        if self._outbox is None or self._stalled:
            return False
        return self._outbox.size > self._limits.client_queue_bytes // 2

    async def drained(self, stall_s: float) -> None:
        """Until less waits, or the client has read nothing for so many seconds."""
        while self.full:
            self._moved.clear()
            try:
                async with asyncio.timeout(stall_s):
                    await self._moved.wait()
            except TimeoutError:
                self._stalled = True

    @property
    def deaf(self) -> bool:
        """Whether so many answers wait that none is made to what else was asked."""
        return self._deaf

    async def heard(self) -> None:
        """Until the client has read enough for another answer, or has gone."""
        while self._deaf:
            self._moved.clear()
            await self._moved.wait()

    def _turn_over(self) -> None:
        self._gathering = False
        self.flush()

    def _write(self, data: bytes) -> None:
        self._outlet.write(data)
        if self._outbox is None and self._outlet.full:
            from zotd.daemon.outbox import Outbox

            self._outbox = Outbox(self._limits.client_queue_bytes, self.kept)

    def _room(self) -> None:
        """The outlet can take more: hand on a part, then let others have their turn."""
        self._stalled = False
        self._moved.set()
        if self._outbox is None or self._outlet.full:
            return
        if self._hand_on(self._outbox):
            if not self._outlet.full:
                asyncio.get_running_loop().call_soon(self._room)
        else:
            self._outbox = None
        self._heed()

    def _hand_on(self, outbox: Outbox) -> bool:
        """Write the oldest of what waits; once that is nothing, the next picture. Whether there was any."""
        entries = outbox.take(_AT_ONCE)
        teller = self._teller
        while not entries and (session_id := outbox.caught_up()):
            if teller is not None and (picture := teller.resync(session_id)) is not None:
                entries = [picture]
        frames = [self._wrap(entry if isinstance(entry, bytes) else self._shown(entry)) for entry in entries]
        self._outlet.write(b"".join(frames))
        return bool(frames)

    def _shown(self, event: Published) -> bytes:
        assert self._teller is not None  # it brought the event
        return self._teller.shown(event)

    def _heed(self) -> None:
        """Who asks on and reads no answers would have them pile up here: hear it again when it has."""
        source = None if self.input is None or self.input.is_closing() else self.input
        answers, most = (0 if self._outbox is None else self._outbox.answers), self._limits.client_queue_bytes
        if not self._deaf and answers > most:
            self._deaf = True
            if source is not None:
                source.pause_reading()
        elif self._deaf and answers <= most // 2:
            self._deaf = False
            if source is not None:
                source.resume_reading()


_FRAMES_GATHERED = 256
"""Frames of one write, even if the loop has not come round."""

_AT_ONCE = 256 * 1024
"""Bytes of one write, unless a single frame has more."""
