"""Owns one client's bytes: framing and dialect are found out here, output is gathered and bounded here.

Imports next to nothing, so that a health check is answered before the agent is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from zotd.base.limits import Limits
from zotd.wire.codec import Malformed, decode, encode
from zotd.wire.framing import BadFrame, Framer, Oversize


class Front(Protocol):
    """What speaks one dialect on a connection."""

    def receive(self, value: Any) -> None: ...
    def malformed(self, message: str) -> None: ...
    async def finished(self) -> None: ...
    async def closed(self) -> None: ...


class Outlet(Protocol):
    """Where bytes go. `write` never blocks; `drained` waits until little is left, within a bound."""

    @property
    def full(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...
    def close(self) -> None: ...
    async def ended(self) -> None: ...


class Connection:
    """Bytes in, bytes out. `fronts` makes the front end for a dialect, "zot" or "jsonrpc"."""

    def __init__(self, outlet: Outlet, limits: Limits, fronts: Callable[[str, Connection], Front]) -> None:
        self.limits = limits
        self.front: Front | None = None
        self.outlet = outlet
        self._framer = Framer(limits.frame_bytes)
        self._fronts = fronts
        self._pending: list[bytes] = []
        self._gathering = False

    def receive(self, data: bytes) -> None:
        """Take in bytes as they come, cut anywhere."""
        self._take(self._framer.feed(data))

    def end(self) -> None:
        """No more bytes will come: a last line may lack its line end."""
        self._take(self._framer.end())

    def send(self, value: Any) -> None:
        """Send one JSON value. The first of one turn of the event loop leaves at once, for somebody may be
        waiting; what else that turn produces leaves in one write, for it may be thousands.
        """
        frame = self._framer.wrap(encode(value))
        if self._gathering:
            self._pending.append(frame)
            return
        self._gathering = True
        asyncio.get_running_loop().call_soon(self._turn_over)
        self.outlet.write(frame)

    def _turn_over(self) -> None:
        self._gathering = False
        self.flush()

    def flush(self) -> None:
        if self._pending:
            data, self._pending = b"".join(self._pending), []
            self.outlet.write(data)

    @property
    def full(self) -> bool:
        """Whether the client is behind: see `Limits.client_queue_bytes`."""
        if len(self._pending) > _FLUSH_AT:
            self.flush()
        return self.outlet.full

    async def drained(self) -> None:
        await self.outlet.drained()

    def close(self) -> None:
        """Send what is queued, then hang up."""
        self.flush()
        self.outlet.close()

    def _take(self, frames: Sequence[bytes | Oversize | BadFrame]) -> None:
        for frame in frames:
            if isinstance(frame, Oversize | BadFrame):
                self._malformed(frame.message)
                continue
            try:
                value = decode(frame)
            except Malformed as problem:
                self._malformed(problem.message)
            else:
                self._dispatch(value)

    def _dispatch(self, value: Any) -> None:
        if self.front is None and (dialect := _dialect(value)):
            self._framer.settle()
            self.front = self._fronts(dialect, self)
        if self.front is None:
            self._refuse(-32600, 'expected a JSON object with "jsonrpc" or "type"', "invalid_request")
        else:
            self.front.receive(value)

    def _malformed(self, message: str) -> None:
        if self.front is None:
            self._refuse(-32700, message, "parse")
        else:
            self.front.malformed(message)

    def _refuse(self, code: int, message: str, kind: str) -> None:
        """No dialect is known yet: JSON-RPC has a shape for that."""
        error = {"code": code, "message": message, "data": {"kind": kind}}
        self.send({"jsonrpc": "2.0", "id": None, "error": error})


_FLUSH_AT = 256
"""Frames gathered before a write even if the loop has not come round."""


def _dialect(value: Any) -> str:
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return ""
    if "jsonrpc" in first:
        return "jsonrpc"
    return "zot" if "type" in first and first is value else ""
