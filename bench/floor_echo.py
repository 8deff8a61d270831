"""The floor: the least an asyncio program can do that answers a line of JSON on stdin with one on stdout."""

from __future__ import annotations

import asyncio
import sys

import orjson


class Echo(asyncio.Protocol):
    def __init__(self, closed: asyncio.Future[None]) -> None:
        self.closed = closed
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        out = b"".join(orjson.dumps(orjson.loads(line)) + b"\n" for line in lines)
        sys.stdout.buffer.write(out)
        sys.stdout.buffer.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


async def main() -> None:
    loop = asyncio.get_running_loop()
    closed = loop.create_future()
    await loop.connect_read_pipe(lambda: Echo(closed), sys.stdin)
    await closed


if __name__ == "__main__":
    asyncio.run(main())
