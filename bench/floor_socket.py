"""The floor of a client's turn: `floor_socket.py PATH` answers lines of JSON on a Unix socket, with asyncio.

Each line `{"frames": N}` is answered with N frames like those of a text delta, each encoded for itself.
"""

from __future__ import annotations

import asyncio
import sys
import time

import orjson
import uvloop

ENOUGH = 256
"""Frames that leave in one write."""


class Flood(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.answer(orjson.loads(line)["frames"])

    def answer(self, frames: int) -> None:
        pending = []
        for number in range(frames):
            params = {
                "delta": "word ",
                "session_id": "6b8c0f9e-5d0e-4f43-8a52-0d5b2f6a8b10",
                "seq": number,
                "time": f"2026-11-30T03:43:15.{time.time_ns() // 1_000_000 % 1000:03}Z",
                "turn_id": "0d5b2f6a8b106b8c0f9e5d0e4f438a52",
            }
            event = {"jsonrpc": "2.0", "method": "text_delta", "params": params}
            pending.append(orjson.dumps(event) + b"\n")
            if len(pending) == ENOUGH:
                self.transport.write(b"".join(pending))  # type: ignore[attr-defined]
                pending.clear()
        self.transport.write(b"".join(pending))  # type: ignore[attr-defined]


async def main(path: str) -> None:
    server = await asyncio.get_running_loop().create_unix_server(Flood, path)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
