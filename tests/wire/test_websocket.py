"""The server's end of a WebSocket, in bytes: whatever the cuts, the same messages come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame as WireFrame
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from zotd.wire.framing import INCREDIBLE_FRAMES, Frame, Oversize
from zotd.wire.websocket import HANDSHAKE_BYTES, WebSocket

LIMIT = 1000


class Peer:
    """A client of the library, and the server's end, joined by hand."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.server = WebSocket(limit)
        self.client = ClientProtocol(parse_uri("ws://127.0.0.1:1/"), max_size=None)
        self.client.send_request(self.client.connect())
        assert self.pass_on(self.written()) == []
        assert self.server.open

    def written(self) -> bytes:
        """What the client has to send."""
        return b"".join(self.client.data_to_send())

    def pass_on(self, data: bytes, size: int = 1 << 20) -> list[Frame]:
        """Hand the client's bytes over in pieces, and back what the server says to them."""
        frames: list[Frame] = []
        for at in range(0, len(data), size):
            frames += self.server.feed(data[at : at + size])
        said, _ = self.server.output()
        if said:
            self.client.receive_data(said)
        return frames

    def received(self) -> list[bytes]:
        return [bytes(event.data) for event in self.client.events_received() if isinstance(event, WireFrame)]

    def send(self, *pieces: bytes) -> bytes:
        """One message in so many frames."""
        first, *more = pieces
        self.client.send_text(first, fin=not more)
        for at, piece in enumerate(more, 1):
            self.client.send_continuation(piece, fin=at == len(more))
        return self.written()


def shown(frames: Iterable[Frame]) -> list[object]:
    return ["oversize" if isinstance(frame, Oversize) else frame for frame in frames]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100, 10_000])
def test_messages_come_out_the_same_however_the_bytes_are_cut(size: int) -> None:
    peer = Peer()
    data = b"".join(
        (
            peer.send(b"{}"),
            peer.send(b"[", b"1", b"", b"]"),
            peer.send(b"x" * 126),
            peer.send(b"x" * LIMIT),
            peer.send(b"x" * (LIMIT + 1)),
            peer.send(b"a", b"x" * (LIMIT + 1), b"b"),
            peer.send(b"x" * 60_000),
            peer.send(b"x" * 600, b"x" * 600, b"x" * 600),
            peer.send(b""),
            peer.send(b'{"a":\n1}\n'),
            peer.send(b"1\r\n\n2\n"),
            peer.send(b"last"),
        )
    )
    assert shown(peer.pass_on(data, size)) == [
        b"{}",
        b"[1]",
        b"x" * 126,
        b"x" * LIMIT,
        *["oversize"] * 4,
        b'{"a":\n1}\n',
        b"1",
        b"2",
        b"last",
    ]
    assert peer.server.open


@given(st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=4), max_size=6), st.integers(1, 50))
def test_of_any_messages_those_within_the_limit_are_read(messages: Sequence[list[bytes]], size: int) -> None:
    peer = Peer(limit=50)
    out = peer.pass_on(b"".join(peer.send(*pieces) for pieces in messages) + peer.send(b'"end"'), size)
    whole = [b"".join(pieces) for pieces in messages]
    assert out[-1] == b'"end"'
    assert sum(isinstance(frame, Oversize) for frame in out) == sum(len(message) > 50 for message in whole)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_what_is_sent_is_one_message_of_text(size: int) -> None:
    peer = Peer()
    peer.received()
    peer.client.receive_data(peer.server.wrap(b"x" * size))
    assert peer.received() == [b"x" * size]


def test_a_ping_is_answered_and_control_frames_come_between_the_parts_of_a_message() -> None:
    peer = Peer()
    peer.received()
    peer.client.send_text(b"[", fin=False)
    peer.client.send_ping(b"hi")
    peer.client.send_continuation(b"]", fin=True)
    assert peer.pass_on(peer.written()) == [b"[]"]
    assert peer.received() == [b"hi"]
    peer.server.ping()
    said, last = peer.server.output()
    assert (said, last) == (b"\x89\x00", False)


def test_goodbyes_of_either_end_are_said_once_and_nothing_counts_behind_them() -> None:
    peer = Peer()
    peer.client.send_close(1000)
    data = peer.written() + b"rest"
    assert peer.server.feed(data) == []
    said, last = peer.server.output()
    assert (said[:1], last, peer.server.over) == (b"\x88", True, True)
    peer.server.close()
    assert peer.server.output() == (b"", False)

    peer = Peer()
    peer.server.close()
    said, last = peer.server.output()
    peer.client.receive_data(said)
    assert (last, peer.client.state) == (True, State.CLOSING)
    assert peer.client.close_rcvd is not None
    assert peer.client.close_rcvd.code == 1000
    assert peer.server.feed(peer.written()) == []


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x02{}", 1002),  # without a mask
        (b"\x80\x80mask", 1002),  # a continuation of nothing
        (b"\xf1\x80mask", 1002),  # of an extension that was not agreed to
        (b"\x89\xfe\x01\x00mask" + b"x" * 256, 1002),  # a ping that long
        (b"\x89\xfe\x04\x00mask" + b"x" * 1024, 1002),  # and one that no message may be as long as
        (b"\x88\xff" + (LIMIT + 1).to_bytes(8, "big") + b"mask", 1002),
        (b"\x81\xff" + (LIMIT * INCREDIBLE_FRAMES + 1).to_bytes(8, "big") + b"mask", 1009),
    ],
)
def test_damage_ends_it_with_a_code(data: bytes, code: int) -> None:
    peer = Peer()
    peer.pass_on(data)
    assert peer.server.over
    assert peer.client.close_rcvd is not None
    assert peer.client.close_rcvd.code == code


@pytest.mark.parametrize("size", [1, 1000, HANDSHAKE_BYTES * 2])
def test_a_request_without_end_is_refused(size: int) -> None:
    server = WebSocket(LIMIT)
    data = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * HANDSHAKE_BYTES
    for at in range(0, len(data), size):
        assert server.feed(data[at : at + size]) == []
    said, last = server.output()
    assert (said[:13], last, server.over) == (b"HTTP/1.1 431 ", True, True)


def test_a_handshake_may_be_cut_and_what_comes_behind_it_is_read() -> None:
    client = ClientProtocol(parse_uri("ws://localhost:1/any/path"), max_size=None)
    client.send_request(client.connect())
    request = b"".join(client.data_to_send())
    early = b"\x81\x82\x00\x00\x00\x00{}"
    server = WebSocket(LIMIT)
    frames = [frame for byte in request + early for frame in server.feed(bytes([byte]))]
    assert frames == [b"{}"]
    client.receive_data(server.output()[0])
    (response,) = client.events_received()
    assert isinstance(response, Response)
    assert (client.state, "Sec-WebSocket-Extensions" in response.headers) == (State.OPEN, False)
