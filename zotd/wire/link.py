"""Owns the life of one extension as its frames tell it. All of that state changes in `TRANSITIONS`.

SPAWNED until `hello`, GREETED until the host acknowledged it, REGISTERING until `ready` (or a silence that
counts as one), RUNNING until the host says stop, STOPPING until the process is gone, then GONE.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TypeAlias

from zotd.base.limits import Limits
from zotd.protocol.frames import FROM_EXTENSION, FromExtension, FromHost, Hello, HelloAck, Ready, Shutdown
from zotd.wire.codec import (
    FrameDecoder,
    FrameId,
    Malformed,
    WireError,
    decode,
    encode_frame,
    from_wire,
    near_id,
)
from zotd.wire.framing import LineBuffer, Oversize


@cache
def _decoder() -> FrameDecoder:
    """One for all links: making it takes longer than most extensions need to say hello."""
    return FrameDecoder(FROM_EXTENSION)


class State(Enum):
    """Where an extension is in its life."""

    __hash__ = object.__hash__  # an enum's own hashes its name, in Python, at every look into the table

    SPAWNED = "spawned"
    GREETED = "greeted"
    REGISTERING = "registering"
    RUNNING = "running"
    STOPPING = "stopping"
    GONE = "gone"


class Input(Enum):
    """What moves it on. The first two come from the extension, the others from the host."""

    __hash__ = object.__hash__

    HELLO = "hello"
    BAD_START = "bad first frame"
    ACKNOWLEDGE = "hello_ack"
    READY = "ready"
    SEND = "frame to it"
    STOP = "shutdown"
    EXIT = "exit"


TRANSITIONS: dict[tuple[State, Input], State] = {
    (State.SPAWNED, Input.HELLO): State.GREETED,
    (State.SPAWNED, Input.BAD_START): State.GONE,
    (State.SPAWNED, Input.STOP): State.STOPPING,
    (State.SPAWNED, Input.EXIT): State.GONE,
    (State.GREETED, Input.ACKNOWLEDGE): State.REGISTERING,
    (State.GREETED, Input.STOP): State.STOPPING,
    (State.GREETED, Input.EXIT): State.GONE,
    (State.REGISTERING, Input.READY): State.RUNNING,
    (State.REGISTERING, Input.SEND): State.REGISTERING,
    (State.REGISTERING, Input.STOP): State.STOPPING,
    (State.REGISTERING, Input.EXIT): State.GONE,
    (State.RUNNING, Input.READY): State.RUNNING,
    (State.RUNNING, Input.SEND): State.RUNNING,
    (State.RUNNING, Input.STOP): State.STOPPING,
    (State.RUNNING, Input.EXIT): State.GONE,
    (State.STOPPING, Input.READY): State.STOPPING,
    (State.STOPPING, Input.STOP): State.STOPPING,
    (State.STOPPING, Input.EXIT): State.GONE,
    (State.GONE, Input.STOP): State.GONE,
    (State.GONE, Input.EXIT): State.GONE,
}
"""Every legal move. What is not here is an error of the caller (LocalError)."""

_HEARD = (State.RUNNING, State.REGISTERING, State.STOPPING)
"""Where a frame is taken as it comes."""


class LocalError(Exception):
    """The host asked for something this state does not allow: a mistake on our side, not the extension's."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A line for the extension's own log. Nothing else follows from it."""

    text: str


@dataclass(frozen=True, slots=True)
class Greeted:
    """The extension said `hello`; answer with `acknowledge`."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Failed:
    """The handshake cannot succeed any more. `reason` is for a person; the link reads nothing further."""

    reason: str


@dataclass(frozen=True, slots=True)
class BadAnswer:
    """A frame that cannot be used carries this id: a request waiting on it must fail now, for `reason`."""

    id: FrameId
    reason: str


Output: TypeAlias = FromExtension | Remark | Greeted | Failed | BadAnswer


class ExtensionLink:
    """Bytes of one extension in, frames and remarks out; frames to it in, bytes out."""

    def __init__(self, limits: Limits) -> None:
        self.state = State.SPAWNED
        self._limits = limits
        self._buffer = LineBuffer(limits.frame_bytes)
        self._decoder = _decoder()
        self._banners = 0
        self._waiting: deque[bytes | Oversize] = deque()

    def receive(self, data: bytes) -> list[Output]:
        """What `data` completes, in order.

        Frames that come before `acknowledge` are kept; the first call after it yields them, also one with
        no bytes. After a failed handshake, and once the process is gone, everything is ignored.
        """
        lines = self._buffer.feed(data)
        if self._waiting or self.state not in _HEARD:
            self._waiting.extend(lines)
            return self._drain()
        out: list[Output] = []
        for line in lines:
            self._frame(line, out)
        return out

    def acknowledge(self, ack: HelloAck) -> bytes:
        """Answers `hello`. Call `receive(b"")` next: frames may have been waiting for it."""
        self._move(Input.ACKNOWLEDGE)
        return encode_frame(ack)

    def ready(self) -> None:
        """The host counts the extension as ready, because it has been silent long enough."""
        self._move(Input.READY)

    def send(self, frame: FromHost) -> bytes:
        """The bytes of a frame. Raises LocalError before `hello_ack` went out and after `stop`."""
        if isinstance(frame, HelloAck | Shutdown):
            raise LocalError(f"{type(frame).__name__} is sent by a method of its own")
        self._move(Input.SEND)
        return encode_frame(frame)

    def stop(self) -> bytes:
        """Asks it to end. No bytes when it has been asked, or when it was never greeted back."""
        tell = self.state in (State.REGISTERING, State.RUNNING)
        self._move(Input.STOP)
        return encode_frame(Shutdown()) if tell else b""

    def gone(self, reason: str) -> list[Output]:
        """The process ended or closed its output; `reason` says which, such as `exited with status 7`.

        Yields what its last bytes hold, and Failed if it never said `hello`.
        """
        self._waiting.extend(self._buffer.end())
        out = self._drain()
        unheard = self.state is State.SPAWNED
        self._move(Input.EXIT)
        self._waiting.clear()
        return [*out, Failed(f"{reason} before hello")] if unheard else out

    def _move(self, event: Input) -> None:
        to = TRANSITIONS.get((self.state, event))
        if to is None:
            raise LocalError(f"{event.value} is not possible while the extension is {self.state.value}")
        self.state = to

    def _drain(self) -> list[Output]:
        out: list[Output] = []
        while self._waiting and self.state not in (State.GREETED, State.GONE):
            line = self._waiting.popleft()
            if self.state is State.SPAWNED:
                self._greet(line, out)
            else:
                self._frame(line, out)
        if self.state is State.GONE:
            self._waiting.clear()
        return out

    def _greet(self, line: bytes | Oversize, out: list[Output]) -> None:
        """The first object must be `hello`. Other lines are banners of a runtime, up to a number of them."""
        try:
            value = decode(line) if isinstance(line, bytes) else None
        except Malformed:
            value = None
        if not isinstance(value, dict):
            self._banner(line, out)
            return
        ignored: list[str] = []
        try:
            frame = from_wire(value, FROM_EXTENSION, ignored)
        except WireError as error:
            self._fail(f"failed: its first frame must be hello: {error.message}: {self._quote(line)}", out)
            return
        self._ignore(line, ignored, out)
        if isinstance(frame, Hello):
            self._move(Input.HELLO)
            out.append(Greeted(frame))
        else:
            self._fail(f"failed: its first frame was {value['type']}, not hello", out)

    def _banner(self, line: bytes | Oversize, out: list[Output]) -> None:
        self._banners += 1
        out.append(Remark(f"skipped a line before hello that is no frame: {self._quote(line)}"))
        if self._banners > self._limits.banner_lines:
            self._fail(
                f"failed: more than {self._limits.banner_lines} lines before hello that are no frames", out
            )

    def _fail(self, reason: str, out: list[Output]) -> None:
        self._move(Input.BAD_START)
        out.append(Failed(reason))

    def _frame(self, line: bytes | Oversize, out: list[Output]) -> None:
        if isinstance(line, Oversize):
            self._skip(line, line.message, near_id(line.head), out)
            return
        ignored: list[str] = []
        try:
            frame = self._decoder.decode(line, ignored)
        except WireError as error:
            self._skip(line, error.message, error.id, out)
            return
        self._ignore(line, ignored, out)
        if isinstance(frame, Hello):
            out.append(Remark("ignored a second hello"))
            return
        if isinstance(frame, Ready):
            self._move(Input.READY)
        out.append(frame)

    def _ignore(self, line: bytes | Oversize, ignored: list[str], out: list[Output]) -> None:
        if ignored:
            out.append(Remark(f"took a member for absent: {'; '.join(ignored)}: {self._quote(line)}"))

    def _skip(self, line: bytes | Oversize, why: str, frame_id: FrameId | None, out: list[Output]) -> None:
        out.append(Remark(f"skipped a frame: {why}: {self._quote(line)}"))
        if frame_id is not None:
            out.append(BadAnswer(frame_id, why))

    def _quote(self, line: bytes | Oversize) -> str:
        head = line.head if isinstance(line, Oversize) else line[: 4 * self._limits.log_chars]
        return head.decode("utf-8", "replace")[: self._limits.log_chars]


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    arrows = [f"    {was.name} --> {to.name}: {event.value}" for (was, event), to in TRANSITIONS.items()]
    ends = [f"    [*] --> {State.SPAWNED.name}", *arrows, f"    {State.GONE.name} --> [*]"]
    return "\n".join(["stateDiagram-v2", *ends])
