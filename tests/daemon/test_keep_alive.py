"""A WebSocket client that is no longer there is cut off, and one that is only silent is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.clients import LONG
from zotd.base.limits import MIB, Limits
from zotd.base.tasks import Independent
from zotd.daemon.connection import About, Connection, Frames, Front
from zotd.daemon.sending import Outlet
from zotd.daemon.websocket import listen_websocket

PING, PONG = b"\x89\x00", b"\x8a\x80mask"
PING_S = 0.1
QUICK = Limits(websocket_open_s=PING_S, websocket_ping_s=PING_S, websocket_close_s=PING_S)


class Echo:
    """Sends back what it gets, with as much more as is asked for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def about(self) -> About:
        return About()

    def receive(self, value: dict[str, Any]) -> None:
        self._connection.send({**value, "pad": "y" * MIB * value["mib"]} if "mib" in value else value)
        if value.get("leave"):
            self._connection.close()

    def malformed(self, message: str) -> None:
        self._connection.send({"message": message})

    async def finished(self) -> None:
        """It answers at once."""

    async def closed(self) -> None:
        """It keeps nothing."""


class House:
    """Where connections come in. `gone` is set at the end of each."""

    draining = False

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.gone = asyncio.Event()
        self.tasks = Independent()

    def connect(self, outlet: Outlet, frames: Frames | None) -> Connection:
        self.connections.append(Connection(outlet, QUICK, self, frames))
        return self.connections[-1]

    def left(self, connection: Connection) -> None:
        self.gone.set()

    # Reception

    def front(self, dialect: str, connection: Connection) -> Front:
        return Echo(connection)

    async def preface(self, value: dict[str, Any]) -> str:
        return ""

    def turned_away(self, connection: Connection, message: str) -> None:
        connection.close()

    def input_over(self, connection: Connection) -> None:
        connection.close()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[House, str]]:
    house = House()
    server, address = await listen_websocket("ws://127.0.0.1:0", QUICK, house.connect, house.left)
    async with asyncio.timeout(LONG):
        yield house, address
    server.close()
    await server.wait_closed()


async def test_a_silent_client_that_answers_pings_stays() -> None:
    async with listening() as (house, address):
        reader, writer = await raw(address)
        for _ in range(4):
            assert await reader.readexactly(2) == PING
            writer.write(PONG)
        writer.write(masked(b'{"type":"x"}'))
        await reader.readuntil(b'{"type":"x"}')
        assert not house.gone.is_set()
        writer.close()
        await writer.wait_closed()
        await house.gone.wait()


async def test_one_that_answers_nothing_is_cut_off() -> None:
    async with listening() as (house, address):
        reader, writer = await raw(address)
        await house.gone.wait()
        assert (await reader.read()).startswith(PING)
        writer.close()
        await writer.wait_closed()


async def test_one_that_takes_nothing_of_what_waits_for_it_is_cut_off() -> None:
    async with listening() as (house, address):
        _, writer = await raw(address)
        writer.write(masked(b'{"type":"x","mib":64}'))
        while not house.gone.is_set():
            writer.write(PONG)
            with suppress(TimeoutError):
                await asyncio.wait_for(house.gone.wait(), PING_S / 4)
        writer.close()


async def test_one_that_never_asks_for_a_websocket_is_cut_off() -> None:
    async with listening() as (house, address):
        host, port = address.removeprefix("ws://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        await house.gone.wait()


async def test_one_that_does_not_hang_up_after_our_goodbye_is_cut_off() -> None:
    async with listening() as (house, address):
        reader, writer = await raw(address)
        writer.write(masked(b'{"type":"x","leave":true}'))
        said = await reader.read()
        assert said.endswith(b'{"type":"x","leave":true}\x88\x02\x03\xe8')
        await house.gone.wait()
        writer.close()
        await writer.wait_closed()


async def raw(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose handshake is done, and that does nothing by itself."""
    host, port = address.removeprefix("ws://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    fields = (
        f"Host: {host}:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
    )
    writer.write("\r\n".join(("GET / HTTP/1.1", *fields, "", "")).encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def masked(payload: bytes) -> bytes:
    return bytes((0x81, 0x80 | len(payload))) + b"\0\0\0\0" + payload
