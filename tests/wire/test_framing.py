"""Framing: values come out whole however the bytes were cut, damage is told, and the stream stays in sync."""

import time
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.wire.framing import BadFrame, Frame, Framer, HeaderBuffer, LineBuffer, Oversize

LIMIT = 64
AFTER = b'{"after":1}'

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
payloads = json_values.map(orjson.dumps)
cuts = st.lists(st.integers(0, 400), max_size=12)
junk = st.binary(max_size=80) | st.text(
    alphabet='{}[]":,\\\r\n\u2028\u2029é😀Content-Length0', max_size=60
).map(str.encode)


def pieces(data: bytes, at: list[int]) -> list[bytes]:
    """`data` cut at each of the places in `at` that lie inside it."""
    marks = sorted({0, len(data), *(place for place in at if place < len(data))})
    return [data[a:b] for a, b in pairwise(marks)]


def with_headers(payload: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)


def fed(framer: Framer | HeaderBuffer | LineBuffer, parts: list[bytes]) -> list[Frame]:
    return [frame for part in parts for frame in framer.feed(part)]


@given(st.lists(payloads, min_size=1, max_size=6), st.sampled_from([b"\n", b"\r\n", b"\n\r\n \n"]), cuts)
def test_lines_come_out_whole_wherever_they_are_cut(
    values: list[bytes], ending: bytes, at: list[int]
) -> None:
    data = b"".join(value + ending for value in values)
    assert fed(Framer(1000), pieces(data, at)) == values


@given(st.lists(payloads, min_size=1, max_size=6), cuts)
def test_header_frames_come_out_whole_wherever_they_are_cut(values: list[bytes], at: list[int]) -> None:
    data = b"".join(map(with_headers, values))
    framer = Framer(1000)
    assert fed(framer, pieces(data, at)) == values
    assert framer.framing == "headers"


@given(st.lists(payloads, max_size=3), junk, cuts)
def test_a_line_after_any_damage_is_read(before: list[bytes], damage: bytes, at: list[int]) -> None:
    data = b"".join(value + b"\n" for value in [b"{}", *before]) + damage + b"\n" + AFTER + b"\n"
    frames = fed(Framer(1000), pieces(data, at))
    assert frames[0] == b"{}"
    assert frames[-1] == AFTER


@given(junk, cuts)
def test_a_header_frame_after_any_damage_is_read(damage: bytes, at: list[int]) -> None:
    data = with_headers(b"{}") + b"?" + damage + b"\n" + with_headers(AFTER) + with_headers(AFTER)
    buffer = HeaderBuffer(1000)
    frames = fed(buffer, pieces(data, at))
    assert frames[0] == b"{}"
    # Only damage that reads as a header of its own may swallow what follows.
    assert frames[-1] == AFTER or b"content-" in damage.lower()


@given(st.binary(max_size=300), cuts)
def test_any_bytes_at_all_are_values_or_clear_errors(data: bytes, at: list[int]) -> None:
    for framer in (Framer(LIMIT), HeaderBuffer(LIMIT), LineBuffer(LIMIT)):
        for frame in [*fed(framer, pieces(data, at)), *framer.end()]:
            if isinstance(frame, bytes):
                assert 0 < len(frame) <= LIMIT
            else:
                assert frame.message


@given(st.binary(max_size=300), cuts)
def test_how_bytes_are_cut_changes_nothing(data: bytes, at: list[int]) -> None:
    whole, cut = Framer(LIMIT), Framer(LIMIT)
    expected = [*whole.feed(data), *whole.end()]
    found = [*fed(cut, pieces(data, at)), *cut.end()]
    assert [type(frame) for frame in found] == [type(frame) for frame in expected]
    assert [frame for frame in found if isinstance(frame, bytes)] == [
        f for f in expected if isinstance(f, bytes)
    ]


def test_line_separators_of_unicode_are_data() -> None:
    line = '{"text":"a\u2028b\u2029c"}'.encode()
    assert LineBuffer(100).feed(line + b"\n") == [line]


def test_a_line_of_exactly_the_limit_passes_with_and_without_cr() -> None:
    line = b"x" * LIMIT
    assert LineBuffer(LIMIT).feed(line + b"\n") == [line]
    assert fed(LineBuffer(LIMIT), [line, b"\r", b"\n"]) == [line]


def test_a_line_one_byte_over_the_limit_is_dropped_once_and_in_sync() -> None:
    frames = fed(LineBuffer(LIMIT), [b"x" * LIMIT, b"y", b"z" * 1000, b"\n" + AFTER + b"\n"])
    assert frames == [Oversize(LIMIT, b"x" * LIMIT + b"y"), AFTER]


def test_an_oversize_line_in_one_read_is_dropped_too() -> None:
    frames = LineBuffer(LIMIT).feed(b"x" * 1000 + b"\n" + AFTER + b"\n")
    assert [type(frame) for frame in frames] == [Oversize, bytes]


def test_an_oversize_header_frame_is_skipped_by_count() -> None:
    body = b"Content-Length: 2\r\n\r\n" * 20
    frames = fed(HeaderBuffer(LIMIT), pieces(with_headers(body) + with_headers(AFTER), [5, 40, 100, 300]))
    assert [type(frame) for frame in frames] == [Oversize, bytes]
    assert frames[1] == AFTER


def test_an_incredible_length_does_not_swallow_what_follows() -> None:
    frames = HeaderBuffer(LIMIT).feed(b"Content-Length: 99999999999\r\n\r\n{}" + with_headers(AFTER))
    assert [type(frame) for frame in frames] == [BadFrame, bytes]


@pytest.mark.parametrize(
    "bad",
    [
        b"Content-Length: ten\r\n\r\n{}",
        b"Content-Length: -1\r\n\r\n{}",
        b"Content-Type: x\r\n\r\n{}",
        b"Content-Length 2\r\n\r\n{}",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Type: " + b"x" * 5000,
    ],
)
def test_bad_headers_are_named_and_the_next_frame_is_read(bad: bytes) -> None:
    frames = fed(Framer(LIMIT), [with_headers(b"{}"), bad, with_headers(AFTER)])
    assert frames[0] == b"{}"
    assert isinstance(frames[1], BadFrame)
    assert frames[2:] == [AFTER]


@pytest.mark.parametrize(
    "start",
    [
        b"Content-Length: 11\r\n\r\n",
        b"content-length:11\n\n",
        b"CONTENT-TYPE: application/json\r\nContent-length : 11\r\n\r\n",
        b"\r\n\r\nContent-Length: 11\r\n\r\n",
        b"\xef\xbb\xbfContent-Length: 11\r\n\r\n",
    ],
)
def test_headers_are_detected_in_every_spelling(start: bytes) -> None:
    framer = Framer(LIMIT)
    assert fed(framer, [bytes([byte]) for byte in start + AFTER]) == [AFTER]
    assert framer.wrap(b"{}") == b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\r\n  \n", b"[]"])
def test_anything_else_is_lines(start: bytes) -> None:
    framer = Framer(LIMIT)
    assert fed(framer, [bytes([byte]) for byte in start + AFTER + b"\n"]) == [
        start.lstrip(b"\xef\xbb\xbf\r\n ") + AFTER
    ]
    assert framer.wrap(b"{}") == b"{}\n"


def test_detection_goes_on_until_the_first_json_value() -> None:
    framer = Framer(LIMIT)
    assert framer.feed(b"{bad\n" + with_headers(b"{worse}") + AFTER + b"\n") == [b"{bad", b"{worse}", AFTER]
    assert framer.framing == "lines"
    assert framer.feed(b"Content-Length: 2\n") == [b"Content-Length: 2"]


def test_junk_without_a_line_end_before_the_first_header_does_not_hide_it() -> None:
    framer = Framer(LIMIT)
    assert framer.feed(b"Starting..." + with_headers(AFTER))[-1] == AFTER
    assert framer.framing == "headers"


def test_the_owner_can_settle_earlier() -> None:
    framer = Framer(LIMIT)
    framer.feed(b"hello\n")
    framer.settle()
    assert framer.feed(b"Content-Length: 2\r\n\r\n{}\n") == [b"Content-Length: 2", b"{}"]


def test_a_last_line_without_its_end_is_a_frame_and_a_cut_header_frame_is_damage() -> None:
    framer = Framer(LIMIT)
    assert framer.feed(AFTER) == []
    assert framer.end() == [AFTER]
    framer = Framer(LIMIT)
    assert framer.feed(with_headers(AFTER)[:-1]) == []
    assert [type(frame) for frame in framer.end()] == [BadFrame]


def test_large_frames_in_small_reads_take_linear_time() -> None:
    body = b'"' + b"x" * (4 << 20) + b'"'
    for data in (body + b"\n", with_headers(body)):
        framer = Framer(16 << 20)
        began = time.process_time()
        frames = fed(framer, [data[i : i + 1024] for i in range(0, len(data), 1024)])
        assert frames == [body]
        # Copying what is held at every read would take 8 GiB of copies, several seconds.
        assert time.process_time() - began < 1.0
