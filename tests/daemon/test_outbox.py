"""What waits for a client that reads too little: whatever happens to it, the client ends with the whole."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from tests.clients import judge_event
from zotd.daemon.outbox import Outbox
from zotd.protocol.events import Event, ExtNotify, TextDelta, ThinkingDelta, ToolProgress, ToolUseArgs
from zotd.store.ring import Published
from zotd.wire.codec import decode, encode

KEPT = {"session_closed"}
TIME = "2026-11-30T03:43:15.576Z"
ENTRY = 200
"""Bytes that an entry is counted beside its text."""

TEXTS = st.text(max_size=12) | st.sampled_from(['","session_id":"', '"delta":"', "\\", "\u2028", "x" * 300])
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, delta=TEXTS),
    st.builds(TextDelta, delta=TEXTS),
    st.builds(ThinkingDelta, delta=TEXTS),
    st.builds(ToolUseArgs, id=st.sampled_from("ab"), delta=TEXTS),
    st.builds(ToolProgress, id=st.sampled_from(["a", '"text":"']), text=TEXTS),
    st.builds(ExtNotify, extension=st.just("pup"), level=st.just("info"), message=TEXTS),
)
TURNS = st.sampled_from(["turn_1", "turn_1", "turn_1", "turn_2", ""])
ACTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("st"), EVENTS, TURNS),
        st.tuples(st.sampled_from("st"), EVENTS, TURNS),
        st.tuples(st.just("r"), EVENTS, TURNS),  # it is replayed
        st.sampled_from("st"),  # an answer that tells how far this session is
        st.integers(1, 2_000),  # bytes that the client reads
    ),
    max_size=80,
)

Told: TypeAlias = tuple[str, str, str, str]


def published(event: Event, session_id: str, seq: int, turn_id: str = "") -> Published:
    wire = to_builtins(event)
    name = wire.pop("type")
    wire |= {"session_id": session_id, "seq": seq, "time": TIME}
    if turn_id:
        wire["turn_id"] = turn_id
    return Published(name, seq, encode(wire), turn_id, session_id)


@dataclass
class Picture:
    """The fold of all events of a session: what adds to one text is one."""

    seq: int = 0
    told: list[Told] = field(default_factory=list)

    def fold(self, kind: str, body: dict[str, Any]) -> None:
        text = body.get("delta") or body.get("text") or body.get("message") or ""
        of = kind, body.get("turn_id", ""), body.get("id", "")
        if kind != "ext_notify" and self.told and self.told[-1][:3] == of:
            text = self.told.pop()[3] + text
        self.told.append((*of, text))
        self.seq = body["seq"]

    def copy(self) -> Picture:
        return Picture(self.seq, [*self.told])


class Reader:
    """A client: it knows no gap, nothing twice, and no answer from before what it has seen."""

    def __init__(self, house: dict[str, Picture]) -> None:
        self.house = house
        self.pictures = {session_id: Picture() for session_id in house}
        self.resyncs = 0
        self.answers: list[bytes] = []

    def read(self, outbox: Outbox, enough: int) -> bool:
        entries = outbox.take(enough)
        if not entries and (session_id := outbox.caught_up()):
            self.pictures[session_id] = self.house[session_id].copy()
            self.resyncs += 1
            return True
        for entry in entries:
            if isinstance(entry, bytes):
                self.answers.append(entry)
                session_id, seq = decode(entry)
                assert self.pictures[session_id].seq <= seq
                continue
            body = decode(entry.body)
            judge_event({"type": entry.type, **body})
            mine = self.pictures[entry.session_id]
            assert body.get("first_seq", body["seq"]) == mine.seq + 1
            assert entry.seq == body["seq"]
            mine.fold(entry.type, body)
        return bool(entries)


@given(ACTS, st.integers(300, 6_000))
def test_a_client_ends_with_what_was_told_however_it_reads(acts: list[Any], most: int) -> None:
    outbox, house = Outbox(most, KEPT), {"s": Picture(), "t": Picture(), "r": Picture()}
    reader, answers = Reader(house), []
    for act in acts:
        before = len(outbox), outbox.answers
        if isinstance(act, int):
            reader.read(outbox, act)
        elif isinstance(act, str):
            answers.append(encode([act, house[act].seq]))
            outbox.answer(answers[-1])
        else:
            session_id, event, turn_id = act
            entry = published(event, session_id, house[session_id].seq + 1, turn_id)
            house[session_id].fold(entry.type, decode(entry.body))
            outbox.event(entry, asked=session_id == "r")
        most_now = max(most + outbox.replayed, outbox.answers + ENTRY)
        replays = house["r"].seq - reader.pictures["r"].seq
        assert outbox.size <= most_now or len(outbox) - replays == 1, before
    while reader.read(outbox, 100):
        pass
    assert reader.pictures == house
    assert reader.answers == answers
    assert (outbox.size, outbox.answers, len(outbox)) == (0, 0, 0)


def fill(outbox: Outbox, session_id: str, count: int, first: int = 1) -> None:
    for seq in range(first, first + count):
        outbox.event(published(TextDelta(delta="word "), session_id, seq, "turn_1"))


def test_what_fits_is_sent_as_it_was() -> None:
    outbox = Outbox(1 << 20, KEPT)
    fill(outbox, "s", 50)
    entries = [entry for entry in outbox.take(1 << 20) if isinstance(entry, Published)]
    assert entries == [published(TextDelta(delta="word "), "s", seq, "turn_1") for seq in range(1, 51)]


def test_over_the_bound_the_oldest_are_merged_and_nothing_is_lost() -> None:
    outbox = Outbox(10_000, KEPT)
    fill(outbox, "s", 500)
    entries = [decode(entry.body) for entry in outbox.take(1 << 20) if isinstance(entry, Published)]
    assert not outbox.lagging
    assert len(entries) < 40
    assert (entries[0]["first_seq"], entries[-1]["seq"]) == (1, 500)
    assert "".join(entry["delta"] for entry in entries) == "word " * 500
    assert "first_seq" not in entries[-1]


def test_sessions_that_speak_in_turn_are_merged_each() -> None:
    outbox = Outbox(10_000, KEPT)
    for seq in range(1, 301):
        fill(outbox, "s", 1, seq)
        fill(outbox, "t", 1, seq)
    entries = outbox.take(1 << 20)
    assert not outbox.lagging
    assert len(entries) < 40


def test_the_session_that_takes_most_is_given_up_and_the_others_are_not() -> None:
    outbox = Outbox(10_000, KEPT)
    fill(outbox, "quiet", 3)
    for seq in range(1, 100):
        note = ExtNotify(extension="pup", level="info", message="x" * 100)
        outbox.event(published(note, "loud", seq))
    assert [*outbox.lagging] == ["loud"]
    assert outbox.caught_up() == ""  # something waits
    taken = [entry for entry in outbox.take(1 << 20) if isinstance(entry, Published)]
    assert {entry.session_id for entry in taken} == {"quiet"}
    assert "".join(decode(entry.body)["delta"] for entry in taken) == "word " * 3
    assert [outbox.caught_up(), outbox.caught_up()] == ["loud", ""]


@pytest.mark.parametrize("answer", [True, False])
def test_an_empty_one_takes_a_frame_of_any_size(answer: bool) -> None:
    outbox = Outbox(1_000, KEPT)
    large = ExtNotify(extension="pup", level="info", message="x" * 100_000)
    if answer:
        outbox.answer(b"x" * 100_000)
    else:
        outbox.event(published(large, "s", 1))
    assert not outbox.lagging
    (entry,) = outbox.take(1)
    assert len(entry if isinstance(entry, bytes) else entry.body) >= 100_000


def test_the_last_event_of_a_session_that_lags_is_sent() -> None:
    outbox = Outbox(1_000, KEPT)
    for seq in (1, 2):
        outbox.event(published(ExtNotify(extension="pup", level="info", message="x" * 800), "s", seq))
    outbox.event(Published("session_closed", 3, b'{"reason":"closed"}', "", "s"))
    assert [*outbox.lagging] == ["s"]
    assert [entry.type for entry in outbox.take(1) if isinstance(entry, Published)] == ["session_closed"]


def note(session_id: str, seq: int, size: int = 800) -> Published:
    return published(ExtNotify(extension="pup", level="info", message="x" * size), session_id, seq)


def numbers(outbox: Outbox) -> list[int]:
    return [entry.seq for entry in outbox.take(1 << 30) if isinstance(entry, Published)]


def test_what_was_asked_for_is_never_given_up_and_gives_nothing_up() -> None:
    outbox = Outbox(2_000, KEPT)
    for seq in range(1, 101):
        outbox.event(note("s", seq), asked=True)
    assert outbox.answers == outbox.size > 100_000
    outbox.event(note("s", 101))
    assert not outbox.lagging
    for seq in (102, 103):
        outbox.event(note("s", seq))
    assert [*outbox.lagging] == ["s"]
    assert outbox.size == outbox.answers
    assert numbers(outbox) == [*range(1, 101)]
    assert [outbox.caught_up(), outbox.size, outbox.answers] == ["s", 0, 0]


def test_of_ends_that_nobody_waits_for_a_session_that_lags_holds_the_last_in_its_place() -> None:
    def done(seq: int) -> Published:
        return Published("done", seq, b'{"stop":"end_turn"}', "", "s")

    outbox = Outbox(1_000, {"done"})
    for seq in (1, 2):
        outbox.event(note("s", seq))
    assert [*outbox.lagging] == ["s"]
    for seq in range(3, 1_000):
        outbox.event(done(seq))
    assert (len(outbox), outbox.size) == (1, len(done(3).body) + ENTRY)
    outbox.event(done(1_000), asked=True)
    for seq in range(1_001, 2_000):
        outbox.event(done(seq))
    assert numbers(outbox) == [999, 1_000]
    assert numbers(outbox) == [1_999]
    assert [outbox.caught_up(), outbox.size] == ["s", 0]


def test_what_an_event_costs_does_not_grow_with_what_waits() -> None:
    def seconds(count: int) -> float:
        outbox = Outbox(count * 100, KEPT)
        events = [published(TextDelta(delta="word "), "s", seq, "turn_1") for seq in range(1, count + 1)]
        began = time.process_time()
        for event in events:
            outbox.event(event)
        took = time.process_time() - began
        assert not outbox.lagging
        return took / count

    small = min(seconds(2_000) for _ in range(3))
    assert min(seconds(40_000) for _ in range(3)) < 4 * small
