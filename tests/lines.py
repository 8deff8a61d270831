"""Many connections on one loop, for tests that have too many for a thread and a judge each."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.clients import LONG, Frame

MIB = 1 << 20


class Line:
    """One JSON-RPC connection over a Unix socket. Events are kept in the order in which they came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self.events: list[Frame] = []

    @staticmethod
    async def open(path: Path, **greeting: Any) -> Line:
        line = Line(*await asyncio.open_unix_connection(path, limit=MIB))
        await line.call("initialize", protocol_version=1, **greeting)
        return line

    async def call(self, method: str, **params: Any) -> Frame:
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._writer.write(json.dumps(request).encode() + b"\n")
        while True:
            message = await self.take()
            if message.get("id") == self._number:
                assert "result" in message, message
                result: Frame = message["result"]
                return result

    async def take(self) -> Frame:
        async with asyncio.timeout(4 * LONG):
            message: Frame = json.loads(await self._reader.readline())
        if "method" in message:
            self.events.append({"type": message["method"], **message["params"]})
        return message

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def cut(self) -> None:
        """As a client that is killed: nothing more is read or said."""
        self._writer.transport.abort()


def resident(pid: int) -> int:
    """Bytes of memory that a process has at present."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
