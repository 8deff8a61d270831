"""Owns what waits for one client that reads slower than it is told: in order, bounded, merged, or given up.

Bytes of answers and numbers of events in, the same out; whoever writes them asks for more when there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from zotd.store.ring import Published

_TEXTS = {
    "text_delta": b'"delta":"',
    "thinking_delta": b'"delta":"',
    "tool_use_args": b'"delta":"',
    "tool_progress": b'"text":"',
}
"""Events that say more of the same, and the last member of their own: a text to append."""

_BEHIND_THE_TEXT = b'","session_id":"'
"""Comes once in such an event: within a text, quotes are escaped."""

_OVERHEAD = 200
"""Bytes that an entry takes at most beside its text."""


class Outbox:
    """Answers and events of one client, oldest first.

    size: bytes that wait; of them `answers` are of what was asked for, which is never given up: answers, and
        events that follow from one, such as a replay: those, `replayed`, are no reason to give up others.
    lagging: sessions whose events were given up, oldest first. Their events count for nothing until
        `caught_up` gives them back: what each of them needs then is one picture of it.
    """

    def __init__(self, most: int, kept: Collection[str]) -> None:
        """most: bytes that may wait; a single entry may be larger. kept: types of events never given up."""
        self.size = 0
        self.answers = 0
        self.replayed = 0
        self.lagging: dict[str, None] = {}
        self._most = most
        self._kept = kept
        self._merged: deque[bytes | Published | _Run | _Asked] = deque()
        self._new: deque[bytes | Published | _Run | _Asked] = deque()
        self._held: dict[str, Published] = {}  # of sessions that lag the last event that is kept
        self._tails: dict[str, _Run] = {}  # of each session what the next event may go on with
        self._sizes: dict[str, int] = {}  # of each session's events, those aside that are kept

    def __len__(self) -> int:
        return len(self._merged) + len(self._new) + len(self._held)

    def answer(self, payload: bytes) -> None:
        """Add what the client asked for, or is asked."""
        self._release()
        self._new.append(payload)
        size = _size(payload)
        self.answers += size
        self.size += size
        self._relieve()

    def take_back(self, payload: bytes) -> bool:
        """Drop an answer, the very same object, that is not needed any more. Whether it still waited."""
        for entries in (self._merged, self._new):
            for at, entry in enumerate(entries):
                if entry is payload:
                    del entries[at]
                    self.answers -= _size(payload)
                    self.size -= _size(payload)
                    return True
        return False

    def event(self, event: Published, *, asked: bool = False) -> None:
        """Add an event, unless its session lags. asked: the client waits for this one, lagging or not."""
        if asked:
            self._release()
            entry = _Asked(event)
            self._new.append(entry)
            self._count(entry, _size(entry))
        elif event.session_id not in self.lagging:
            self._new.append(event)
            self._count(event, _size(event))
            self._relieve()
        elif event.type in self._kept:
            if (before := self._held.pop(event.session_id, None)) is not None:
                self._count(before, -_size(before))
            self._held[event.session_id] = event
            self._count(event, _size(event))

    def take(self, enough: int) -> list[bytes | Published]:
        """The oldest entries, until they have so many bytes; none when nothing waits."""
        taken: list[bytes | Published] = []
        if not (self._merged or self._new):
            self._release()
        while enough > 0 and (waiting := self._merged or self._new):
            entry = waiting.popleft()
            size = _size(entry)
            enough -= size
            self._count(entry, -size)
            if isinstance(entry, _Asked):
                entry = entry.event
            if isinstance(entry, _Run):
                if self._tails.get(entry.session_id) is entry:
                    del self._tails[entry.session_id]
                entry = entry.published()
            taken.append(entry)
        return taken

    def caught_up(self) -> str:
        """A session that lags no more, now that nothing waits; "" when there is none, or something waits."""
        if len(self) or not self.lagging:
            return ""
        session_id = next(iter(self.lagging))
        del self.lagging[session_id]
        return session_id

    def _release(self) -> None:
        """Put what is held into its place: ahead of all that comes from now on."""
        self._new.extend(self._held.values())
        self._held.clear()

    def _count(self, entry: bytes | Published | _Run | _Asked, size: int) -> None:
        self.size += size
        if isinstance(entry, bytes | _Asked):
            self.answers += size
            if isinstance(entry, _Asked):
                self.replayed += size
        elif entry.type not in self._kept:
            left = self._sizes.get(entry.session_id, 0) + size
            if left:
                self._sizes[entry.session_id] = left
            else:
                del self._sizes[entry.session_id]

    def _relieve(self) -> None:
        """Merge as much as is needed, each entry once; give up the largest session if that is not enough."""
        most = self._most + self.replayed
        while self._new and self.size > most:
            self._merge(self._new.popleft())
        while self.size > most and len(self) > 1 and self._sizes:
            self._give_up(max(self._sizes, key=self._sizes.__getitem__))

    def _merge(self, entry: bytes | Published | _Run | _Asked) -> None:
        """Put an entry behind those that were merged, or into the last one of its session, if it goes on with
        that and no answer is between: an answer may tell up to which number the client has seen everything.
        """
        if isinstance(entry, bytes):
            self._tails.clear()
        elif isinstance(entry, _Asked):
            self._tails.pop(entry.event.session_id, None)
        elif isinstance(entry, Published):
            tail = self._tails.pop(entry.session_id, None)
            if (run := _Run.of(entry)) is not None:
                if tail is not None and tail.goes_on(run):
                    before = _size(tail) + _size(entry)
                    tail.add(run)
                    self._count(tail, _size(tail) - before)
                    self._tails[tail.session_id] = tail
                    return
                self._tails[run.session_id] = entry = run
        self._merged.append(entry)

    def _give_up(self, session_id: str) -> None:
        """Drop the events of a session: from now on it lags."""
        for entries in (self._merged, self._new):
            left = [
                entry
                for entry in entries
                if isinstance(entry, bytes | _Asked)
                or entry.session_id != session_id
                or entry.type in self._kept
            ]
            entries.clear()
            entries.extend(left)
        self.size -= self._sizes.pop(session_id)
        self._tails.pop(session_id, None)
        self.lagging[session_id] = None


class _Asked:
    """An event that is as good as an answer."""

    __slots__ = ("event",)

    def __init__(self, event: Published) -> None:
        self.event = event


class _Run:
    """Events that add to one text, from number `first_seq` on.

    head, text, tail: the body of the last one, in three pieces, with the text of all.
    """

    __slots__ = ("first_seq", "head", "seq", "session_id", "tail", "text", "turn_id", "type")

    def __init__(self, event: Published, start: int, end: int) -> None:
        """start, end: where the text is in the event's body."""
        self.type, self.seq, body, self.turn_id, self.session_id = event
        self.first_seq = self.seq
        self.head, self.text, self.tail = body[:start], bytearray(body[start:end]), body[end:]

    @classmethod
    def of(cls, event: Published) -> _Run | None:
        """A run of one event, None for one that adds to no text."""
        member = _TEXTS.get(event.type)
        if member is None:
            return None
        start, end = event.body.find(member) + len(member), event.body.find(_BEHIND_THE_TEXT)
        return cls(event, start, end) if len(member) <= start <= end else None

    def goes_on(self, run: _Run) -> bool:
        """Whether another one follows at once, and adds to the same text."""
        return (
            run.first_seq == self.seq + 1
            and run.type == self.type
            and run.head == self.head
            and run.turn_id == self.turn_id
        )

    def add(self, run: _Run) -> None:
        self.text += run.text
        self.seq, self.tail = run.seq, run.tail

    def published(self) -> Published:
        first = b',"first_seq":%d}' % self.first_seq if self.first_seq < self.seq else b"}"
        body = b"".join((self.head, self.text, self.tail[:-1], first))
        return Published(self.type, self.seq, body, self.turn_id, self.session_id)


def _size(entry: bytes | Published | _Run | _Asked) -> int:
    """Bytes, for what it takes in memory."""
    if isinstance(entry, _Asked):
        entry = entry.event
    if isinstance(entry, bytes):
        return len(entry) + _OVERHEAD
    if isinstance(entry, Published):
        return len(entry.body) + _OVERHEAD
    return len(entry.head) + len(entry.text) + len(entry.tail) + _OVERHEAD
