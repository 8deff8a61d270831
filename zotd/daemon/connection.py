"""Owns one client's bytes: framing and dialect are found out here.

Imports next to nothing, so that a health check is answered before the agent is loaded.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zotd import __version__
from zotd.base.limits import Limits
from zotd.base.tasks import Tasks
from zotd.daemon.sending import Input, Outlet, Sending, Teller
from zotd.wire.codec import Malformed, decode, encode
from zotd.wire.framing import BadFrame, Framer, Framing, Oversize

if TYPE_CHECKING:
    from zotd.protocol.daemon_methods import Dialect
    from zotd.store.ring import Published

PREFACE_VERSION = 1
"""What a preface says in `zotd`, and what its answer says."""


class About(NamedTuple):
    """A client as it has told of itself. requests: of it that have no answer yet."""

    dialect: Dialect = ""
    name: str = ""
    version: str = ""
    requests: int = 0


class Front(Protocol):
    """What speaks one dialect on a connection."""

    def about(self) -> About: ...
    def receive(self, value: Any) -> None: ...
    def malformed(self, message: str) -> None: ...
    async def finished(self) -> None: ...
    async def closed(self) -> None: ...


class Reception(Protocol):
    """What the process does for one connection.

    front: makes the front end for a dialect, "zot" or "jsonrpc".
    tasks: own what goes on meanwhile. draining: whether the process ends, and another one is to be asked.
    preface: takes what a client says ahead of everything; returns the dialect that it names or "". Raises
    BadPreface.
    turned_away: the client cannot be served, and was told why.
    input_over: nothing more will be asked; what was accepted is still answered.
    """

    @property
    def tasks(self) -> Tasks: ...
    @property
    def draining(self) -> bool: ...
    def front(self, dialect: str, connection: Connection) -> Front: ...
    async def preface(self, value: dict[str, Any]) -> str: ...
    def turned_away(self, connection: Connection, message: str) -> None: ...
    def input_over(self, connection: Connection) -> None: ...


class Frames(Protocol):
    """Bytes to frames and back; see Framer."""

    @property
    def framing(self) -> Framing: ...
    def feed(self, data: bytes) -> Sequence[bytes | Oversize | BadFrame]: ...
    def end(self) -> Sequence[bytes | Oversize | BadFrame]: ...
    def settle(self) -> None: ...
    def wrap(self, payload: bytes, framing: Framing | None = None) -> bytes: ...


class BadPreface(Exception):
    """A preface that cannot be honoured. `data` is that of the error that is sent; see `peer.problem`."""

    def __init__(self, code: int, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


_NUMBERS = itertools.count(1)


class Connection:
    """Bytes in, bytes out. frames: how values are cut; by default that is found out from the first bytes.

    number: tells it from all others that this process has had.
    """

    def __init__(
        self, outlet: Outlet, limits: Limits, reception: Reception, frames: Frames | None = None
    ) -> None:
        self.number = next(_NUMBERS)
        self.limits = limits
        self.front: Front | None = None
        self.outlet = outlet
        self._reception = reception
        self._frames: Frames = Framer(limits.frame_bytes, self._decides) if frames is None else frames
        self._preface_framing: Framing | None = None
        self._preface: asyncio.Task[None] | None = None
        self._held: list[bytes | Oversize | BadFrame] = []
        self._held_bytes = 0
        self._dropped = False
        self._first = True
        self._over = False
        self._sending = Sending(outlet, limits, self._frames.wrap)

    def receive(self, data: bytes) -> None:
        """Take in bytes as they come, cut anywhere."""
        self.take(self._frames.feed(data))

    def end(self) -> None:
        """No more bytes will come: a last line may lack its line end."""
        self.take(self._frames.end())

    async def settled(self) -> None:
        """Until a preface is answered, and what came behind it is taken."""
        if self._preface is not None:
            await asyncio.wait([self._preface])

    def leave(self) -> None:
        """The client has said its last word, though bytes may still come."""
        self._reception.input_over(self)

    def send(self, value: Any) -> None:
        """Send one JSON value that is no event."""
        self._sending.send(encode(value))

    def ask(self, value: Any) -> Callable[[], bool]:
        """As `send`; what is returned takes it back, as long as it waits, and says whether it did."""
        payload = encode(value)
        self._sending.send(payload)
        return partial(self._sending.take_back, payload)

    def tell(self, event: Published, teller: Teller, *, asked: bool = False) -> None:
        """Send an event of a session that its client sees; see Sending."""
        self._sending.tell(event, teller, asked=asked)

    def keep(self, *types: str) -> None:
        """Events of these types are sent however far behind the client is."""
        self._sending.kept |= frozenset(types)

    def reads_from(self, source: Input) -> None:
        """Where its bytes come from."""
        self._sending.input = source

    def flush(self) -> None:
        self._sending.flush()

    @property
    def full(self) -> bool:
        """Whether so much waits that a turn should wait for the client; see `Limits.client_queue_bytes`."""
        return self._sending.full

    async def drained(self, stall_s: float) -> None:
        """Until less waits, or the client has read nothing for so many seconds."""
        await self._sending.drained(stall_s)

    @property
    def deaf(self) -> bool:
        """Whether its client has asked for so much that it has to read first."""
        return self._sending.deaf

    async def heard(self) -> None:
        """Until it has read enough for another answer, or has gone."""
        await self._sending.heard()

    @property
    def queued_bytes(self) -> int:
        """What waits for the client to read it."""
        return self._sending.queued_bytes

    @property
    def lagging(self) -> bool:
        """Whether it is to be brought up to date with a `resync`."""
        return self._sending.lagging

    def about(self) -> About:
        """What is known of its client."""
        return About() if self.front is None else self.front.about()

    def close(self) -> None:
        """Send what is queued, then hang up. What comes later counts for nothing."""
        self._over = True
        self._sending.close()

    def take(self, frames: Sequence[bytes | Oversize | BadFrame]) -> None:
        for at, frame in enumerate(frames):
            if self._over:
                return
            if self._preface is not None:  # what follows it waits for what it says
                self._hold(frames[at:])
                return
            if isinstance(frame, Oversize | BadFrame):
                self._malformed(frame.message)
                continue
            try:
                value = decode(frame)
            except Malformed as problem:
                self._malformed(problem.message)
            else:
                self._dispatch(value)

    def _hold(self, frames: Sequence[bytes | Oversize | BadFrame]) -> None:
        """Keep frames until the preface is answered: the last one may be as large as a frame can be."""
        for frame in frames:
            if self._held_bytes > self.limits.frame_bytes:
                self._dropped = True
                return
            self._held.append(frame)
            self._held_bytes += len(frame if isinstance(frame, bytes) else frame.message)

    def _decides(self, value: Any) -> bool:
        """Whether a first value tells the framing: what follows a preface may be in the other one."""
        if is_preface(value):
            self._preface_framing = self._frames.framing
        return dialect_of(value) != ""

    def _dispatch(self, value: Any) -> None:
        first, self._first = self._first, False
        if first and is_preface(value):
            self._preface = self._reception.tasks.create_task(self._take_preface(value), name="preface")
            return
        if self.front is None and (dialect := dialect_of(value)):
            self._frames.settle()
            self.front = self._reception.front(dialect, self)
        if self.front is None:
            from zotd.wire.peer import INVALID_REQUEST, error, problem

            data = problem(
                "invalid_request", "a connection begins with a JSON-RPC 2.0 request or a zot command"
            )
            self.send(error(None, INVALID_REQUEST, 'expected a JSON object with "jsonrpc" or "type"', data))
        else:
            self.front.receive(value)

    async def _take_preface(self, value: dict[str, Any]) -> None:
        try:
            dialect = await self._reception.preface(value)
        except BadPreface as bad:
            self._refuse_preface(value, bad)
            return
        except Exception:
            self._refuse_preface(value, BadPreface(-32603, "internal error", {"kind": "internal"}))
            raise
        finally:
            self._preface = None
        if self._over:
            return
        if self._dropped:
            self._refuse_preface(value, _too_much(self.limits.frame_bytes))
            return
        ending = {"draining": True} if self._reception.draining else {}
        self._answer_preface({"zotd": PREFACE_VERSION, "version": __version__, **ending})
        if dialect:
            self.front = self._reception.front(dialect, self)
        held, self._held = self._held, []
        self.take(held)

    def _refuse_preface(self, value: dict[str, Any], bad: BadPreface) -> None:
        """Served without it, the client would be in another folder than it thinks."""
        self._over = True
        self._answer_preface(_refusal(value, bad))
        self._reception.turned_away(self, str(bad))

    def _answer_preface(self, answer: dict[str, Any]) -> None:
        self._sending.frame(self._frames.wrap(encode(answer), self._preface_framing))

    def _malformed(self, message: str) -> None:
        if self.front is None:
            # No dialect is known yet: JSON-RPC has a shape for that.
            from zotd.wire.peer import parse_error

            self.send(parse_error(message))
        else:
            self.front.malformed(message)


def dialect_of(value: Any) -> str:
    """The dialect of a first value: "zot", "jsonrpc", or "" for neither."""
    if isinstance(value, list):  # a batch, if anything in it is a request
        return "jsonrpc" if any(isinstance(item, dict) and "jsonrpc" in item for item in value) else ""
    if not isinstance(value, dict):
        return ""
    if "jsonrpc" in value:
        return "jsonrpc"
    return "zot" if "type" in value else ""


def _refusal(preface: dict[str, Any], bad: BadPreface) -> dict[str, Any]:
    """The error in the dialect that a preface names, else in the one that has a shape for it."""
    if preface.get("dialect") == "zot":
        from zotd.wire.dialect import response

        hint = bad.data.get("hint")
        return response("", error=f"{bad}; {hint}" if hint else str(bad))
    from zotd.wire.peer import error

    return error(None, bad.code, str(bad), bad.data)


def _too_much(most: int) -> BadPreface:
    from zotd.wire.peer import OVERLOADED, RETRY_AFTER_MS, problem

    hint = "wait for the answer to a preface before sending so much"
    data = problem("overloaded", hint, retry_after_ms=RETRY_AFTER_MS)
    return BadPreface(OVERLOADED, f"more than {most} bytes came before the preface was answered", data)


def is_preface(value: Any) -> bool:
    return isinstance(value, dict) and "zotd" in value and not dialect_of(value)
