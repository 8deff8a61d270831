"""One client's bytes: what is held of them while its preface is looked into."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.daemon.houses import LIMITS
from zotd.base.tasks import Independent
from zotd.cli.agents import Agents
from zotd.cli.desk import Desk
from zotd.cli.flags import Flags
from zotd.cli.serve import Server
from zotd.daemon.connection import Connection
from zotd.daemon.spec import SessionSpec
from zotd.daemon.supervisor import Supervisor


class Page:
    """Where the bytes for a client go, to be read here."""

    full = False
    waiting = 0

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def when_roomy(self, call: Callable[[], None]) -> None:
        """It always is."""

    async def drained(self) -> None:
        """Nothing is left."""

    def close(self) -> None:
        self.closed = True

    async def ended(self) -> None:
        """It has."""

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written.splitlines()]


async def test_what_follows_a_preface_is_held_up_to_a_bound(spec: SessionSpec, tmp_path: Path) -> None:
    limits = replace(LIMITS, frame_bytes=1_000)
    preface = json.dumps({"zotd": 1, "cwd": str(tmp_path)}).encode() + b"\n"
    ping = json.dumps({"type": "ping", "id": "x" * 900}).encode() + b"\n"
    async with Independent() as tasks:
        server = Server(
            Agents(Flags(), limits, tasks), spec, limits, "", tasks, Supervisor({}), private=False
        )
        for pings, served in ((2, True), (3, False)):
            connection = Connection(page := Page(), limits, Desk(server))
            connection.receive(preface)
            for _ in range(pings):
                connection.receive(ping)
            await connection.settled()
            first, *rest = page.frames
            if served:
                assert first["zotd"] == 1
                assert len([frame for frame in rest if frame["data"] == {"pong": True}]) == pings
            else:
                assert first["error"]["data"]["kind"] == "overloaded"
                assert (rest, page.closed) == ([], True)
            if connection.front is not None:
                await connection.front.closed()
