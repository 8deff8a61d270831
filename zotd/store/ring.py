"""Owns the events of a session that somebody who was away may still ask for."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from zotd.base.limits import Limits


class Published(NamedTuple):
    """An event as it left: encoded once, for every client and for those who come back.

    type: of the event. seq: its number. body: the JSON object of all its members but `type`, UTF-8.
    turn_id: of its envelope, "" without one.
    """

    type: str
    seq: int
    body: bytes
    turn_id: str = ""


class Budget:
    """Bytes that the rings of one daemon may hold together."""

    def __init__(self, most: int) -> None:
        self.left = most


class Ring:
    """The last events of one session, within the bounds of a session and of the daemon."""

    def __init__(self, limits: Limits, budget: Budget) -> None:
        self._most_events = limits.replay_events
        self._most_bytes = limits.replay_bytes
        self._budget = budget
        self._bytes = 0
        self._last = 0
        self._events: deque[Published] = deque()

    def add(self, event: Published) -> None:
        """Keep an event; the oldest go where there is no room."""
        events = self._events
        size = len(event.body) + _OVERHEAD
        events.append(event)
        self._last = event.seq
        self._bytes += size
        self._budget.left -= size
        while events and (
            len(events) > self._most_events or self._bytes > self._most_bytes or self._budget.left < 0
        ):
            size = len(events.popleft().body) + _OVERHEAD
            self._bytes -= size
            self._budget.left += size

    def after(self, seq: int) -> list[Published] | None:
        """The events with a greater number, in order; None when some of them are not kept any more."""
        events = self._events
        missed = self._last - seq
        if missed <= 0:
            return []
        if missed > len(events):
            return None
        return (
            [events[at] for at in range(len(events) - missed, len(events))]
            if missed < 64
            else [event for event in events if event.seq > seq]
        )

    def clear(self) -> None:
        """Give the room back: the session is over."""
        self._events.clear()
        self._budget.left += self._bytes
        self._bytes = 0


_OVERHEAD = 200
"""Bytes that an event takes beside its body."""
