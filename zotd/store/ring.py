"""Owns the events of a session that somebody who was away may still ask for."""

from __future__ import annotations

from array import array
from collections import deque
from itertools import accumulate
from typing import NamedTuple

from zotd.base.limits import Limits


class Published(NamedTuple):
    """An event as it left: encoded once, for every client and for those who come back.

    type: of the event. seq: its number. body: the JSON object of all its members but `type`, UTF-8.
    turn_id, session_id: of its envelope, "" without one.
    """

    type: str
    seq: int
    body: bytes
    turn_id: str = ""
    session_id: str = ""


class Budget:
    """Bytes that the rings of one daemon may hold together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most

    @property
    def held(self) -> int:
        """What they hold now."""
        return self.most - self.left


class Ring:
    """The last events of one session, within the bounds of a session and of the daemon.

    All but the newest are packed: thousands of small objects would take twice the memory, and leave it in
    pieces that do not go back to the system.
    """

    def __init__(self, limits: Limits, budget: Budget) -> None:
        self._most_events = limits.replay_events
        self._most_bytes = limits.replay_bytes
        self._budget = budget
        self._bytes = 0
        self._count = 0
        self._last = 0
        self._packs: deque[_Pack] = deque()
        self._newest: list[Published] = []
        self._newest_bytes = 0

    def add(self, event: Published) -> None:
        """Keep an event, whose number follows that of the last one; the oldest go where there is no room."""
        size = len(event.body) + _OVERHEAD
        self._newest.append(event)
        self._newest_bytes += size
        self._last = event.seq
        self._count += 1
        self._bytes += size
        self._budget.left -= size
        if len(self._newest) == _PACKED_EVENTS or self._newest_bytes >= _PACKED_BYTES:
            self._pack()
        if (
            self._bytes > self._most_bytes
            or self._budget.left < 0
            or self._count >= self._most_events + _PACKED_EVENTS
        ):
            self._make_room()

    @property
    def held(self) -> int:
        """Bytes that it takes of the budget."""
        return self._bytes

    def after(self, seq: int) -> list[Published] | None:
        """The events with a greater number, in order; None when some of them are not kept any more."""
        missed = self._last - seq
        if missed <= 0:
            return []
        if missed > min(self._count, self._most_events):
            return None
        seen, events = self._count - missed, list[Published]()
        for pack in self._packs:
            if seen < len(pack):
                events += pack.events(seen)
            seen = max(0, seen - len(pack))
        return events + self._newest[seen:]

    def clear(self) -> None:
        """Give the room back: the session is over."""
        self._packs.clear()
        self._newest.clear()
        self._count = self._newest_bytes = 0
        self._budget.left += self._bytes
        self._bytes = 0

    def _pack(self) -> None:
        self._packs.append(_Pack(self._newest))
        self._newest.clear()
        self._newest_bytes = 0

    def _make_room(self) -> None:
        """Let the oldest go, a pack at a time."""
        while self._count:
            if not self._packs:
                self._pack()
            oldest = self._packs[0]
            many = self._count - len(oldest) >= self._most_events
            if not (many or self._bytes > self._most_bytes or self._budget.left < 0):
                return
            self._packs.popleft()
            self._count -= len(oldest)
            self._bytes -= oldest.size
            self._budget.left += oldest.size


class _Pack:
    """Events whose numbers follow each other, in one piece. size: in bytes, as it is counted."""

    __slots__ = ("_bodies", "_first", "_session", "_sizes", "_turns", "_types", "size")

    def __init__(self, events: list[Published]) -> None:
        bodies = [event.body for event in events]
        self._first = events[0].seq
        self._session = events[0].session_id
        self._types = tuple([event.type for event in events])
        self._turns = tuple([event.turn_id for event in events])
        self._sizes = array("Q", map(len, bodies))
        self._bodies = b"".join(bodies)
        self.size = len(self._bodies) + _OVERHEAD * len(events)

    def __len__(self) -> int:
        return len(self._types)

    def events(self, seen: int) -> list[Published]:
        """All but the first ones, `seen` in number."""
        ends = [*accumulate(self._sizes, initial=0)]
        return [
            Published(
                self._types[at],
                self._first + at,
                self._bodies[ends[at] : ends[at + 1]],
                self._turns[at],
                self._session,
            )
            for at in range(seen, len(self))
        ]


_OVERHEAD = 200
"""Bytes that an event takes at most beside its body."""

_PACKED_EVENTS = 64
"""Events in one pack: few enough to go all at once."""

_PACKED_BYTES = 64 * 1024
"""Bytes after which fewer are packed."""
