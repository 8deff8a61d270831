"""Server-sent events: the standard's rules hold wherever the stream is cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.wire.sse import SseDecoder, SseEvent, SseTooLarge

texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
cuts = st.lists(st.integers(0, 400), max_size=12)


def fed(data: bytes, at: list[int] | None = None, limit: int = 10_000) -> list[SseEvent]:
    decoder = SseDecoder(limit)
    marks = sorted({0, len(data), *(place for place in at or [] if place < len(data))})
    return [event for a, b in itertools.pairwise(marks) for event in decoder.feed(data[a:b])]


@given(
    st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), max_size=5),
    st.sampled_from(["\n", "\r", "\r\n"]),
    st.booleans(),
    cuts,
)
def test_events_come_out_whole_wherever_they_are_cut(
    events: list[tuple[str, list[str]]], end: str, bom: bool, at: list[int]
) -> None:
    blocks = [
        "".join([f"event: {name}{end}", *(f"data: {line}{end}" for line in data), end])
        for name, data in events
    ]
    stream = ("\ufeff" * bom + "".join(blocks)).encode()
    expected = [(name or "message", "\n".join(data)) for name, data in events]
    assert [(event.event, event.data) for event in fed(stream, at)] == expected


@given(
    st.binary(max_size=200) | st.text("data:\r\n \ufeffeventidretry19é", max_size=80).map(str.encode), cuts
)
def test_how_any_bytes_are_cut_changes_nothing(data: bytes, at: list[int]) -> None:
    assert fed(data, at) == fed(data)


@given(st.binary(max_size=80), cuts)
def test_an_event_after_any_damage_is_read(damage: bytes, at: list[int]) -> None:
    stream = damage + b"\n\ndata: after\n\n"
    assert fed(stream, at)[-1].data == "after"


def test_the_examples_of_the_standard() -> None:
    assert fed(
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    ) == [
        SseEvent("message", "first event", "1", None),
        SseEvent("message", "second event", "", None),
        SseEvent("message", " third event", "", None),
    ]
    assert [event.data for event in fed(b"data\n\ndata\ndata\n\ndata:")] == ["", "\n"]


def test_an_id_lasts_a_name_does_not_and_retry_belongs_to_one_event() -> None:
    assert fed(b"event: a\nid: 7\nretry: 250\ndata: x\n\nid: bad\0\nretry: 2x\ndata: y\n\n") == [
        SseEvent("a", "x", "7", 250),
        SseEvent("message", "y", "7", None),
    ]


def test_a_block_without_data_is_no_event_and_forgets_its_name() -> None:
    assert fed(b"event: ping\n\ndata: x\n\n") == [SseEvent("message", "x", "", None)]


def test_an_unfinished_event_is_dropped() -> None:
    assert fed(b"data: x\n\ndata: y\n") == [SseEvent("message", "x", "", None)]


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert fed(b"data: a\xffb\n\n")[0].data == "a\ufffdb"


@pytest.mark.parametrize(
    "tail", [b"data: " + b"x" * 200, b"data: " + b"x" * 200 + b"\n", b"data: xxxxxxxxx\n" * 20]
)
def test_an_event_over_the_limit_is_an_error_with_what_came_before(tail: bytes) -> None:
    decoder = SseDecoder(100)
    with pytest.raises(SseTooLarge, match="larger than 100 bytes") as caught:
        decoder.feed(b"data: before\n\n" + tail)
    assert [event.data for event in caught.value.events] == ["before"]
    with pytest.raises(SseTooLarge):
        decoder.feed(b"\n\ndata: x\n")


def test_a_long_stream_of_small_events_stays_under_the_limit() -> None:
    assert len(fed(b"data: 0123456789\n\n: comment\n\n" * 100, limit=30)) == 100
