"""A real HTTP server on this machine that plays a prepared answer to each request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

HANG = object()
"""In place of a piece: say nothing until the client goes away."""


@dataclass
class Prepared:
    """One answer: pieces are sent as one chunk each. `whole` False leaves out the end of the body."""

    pieces: list[bytes | object]
    status: str = "200 OK"
    headers: list[str] = field(default_factory=lambda: ["content-type: text/event-stream"])
    whole: bool = True


class ModelServer:
    """`answers` are played in order, the last again and again; `requests` are what came in, parsed."""

    def __init__(self) -> None:
        self.answers: list[Prepared] = []
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.gone = asyncio.Event()
        self.drop_after: Callable[[int], bool] = lambda served: False
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.tasks: list[asyncio.Task[Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def say(self, *chunks: object, done: bool = True) -> None:
        """Prepare an answer: each value one event, text as it is."""
        pieces: list[bytes | object] = [c if c is HANG or isinstance(c, bytes) else event(c) for c in chunks]
        self.answers.append(Prepared([*pieces, b"data: [DONE]\n\n"] if done else pieces))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        if (task := asyncio.current_task()) is not None:
            self.tasks.append(task)
        served = 0
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                if self.drop_after(served):
                    break
                await self._one(head.decode(), reader, writer)
                served += 1
        writer.close()

    async def _one(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *rows = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append({"path": first.split()[1], "headers": headers, "body": json.loads(body)})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        lines = [f"HTTP/1.1 {answer.status}", "transfer-encoding: chunked", *answer.headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        for piece in answer.pieces:
            if not isinstance(piece, bytes):
                await reader.read()
                self.gone.set()
                raise ConnectionResetError
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if not answer.whole:
            raise ConnectionResetError
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def event(value: object) -> bytes:
    """A value as one server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


@pytest.fixture
async def model_server() -> AsyncIterator[ModelServer]:
    server = ModelServer()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    yield server
    listener.close()
    for writer in server.writers:
        writer.close()
    await asyncio.gather(*server.tasks)
    for writer in server.writers:
        with suppress(ConnectionError):
            await writer.wait_closed()
