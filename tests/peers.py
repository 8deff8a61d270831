"""Extensions without processes: what the host starts is a `Peer`, an object that a test speaks for."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tests.clients import judge_frame_to_extension
from zotd.base.limits import Limits
from zotd.process.spawn import Scope

Frame = dict[str, Any]

_pids = itertools.count(1_000_000)


class Peer:
    """A good extension. It says `hello`, registers what it has, is ready, and leaves when it is told to.

    A test makes another one of it by overriding what it does, or by speaking for it with `say`.

    offers: frames it sends between the acknowledgement and `ready`. heard: all it was sent.
    signals: what it was sent of those. reads: whether it takes what is written to it.
    """

    capabilities: tuple[str, ...] = ()

    def __init__(self, *offers: Frame) -> None:
        self.offers = list(offers)
        self.heard: list[Frame] = []
        self.at: list[float] = []
        self.signals: list[tuple[float, int]] = []
        self.reads = True
        self.name = ""
        self.starts = 0

    # What it does, to be overridden

    def began(self) -> None:
        """Its process runs."""
        self.say(type="hello", name=self.name, version="1", capabilities=[*self.capabilities])

    def greeted(self) -> None:
        """The host acknowledged its hello."""
        for frame in self.offers:
            self.say(**frame)
        self.say(type="ready")

    def invoked(self, frame: Frame) -> None:
        """One of its commands was run."""
        self.say(type="command_response", id=frame["id"], action="display", display="done")

    def called(self, frame: Frame) -> None:
        """One of its tools was called."""
        self.say(type="tool_result", id=frame["id"], content=[{"type": "text", "text": "done"}])

    def asked(self, frame: Frame) -> None:
        """It is to decide on something."""
        self.say(type="event_intercept_response", id=frame["id"])

    def dismissed(self) -> None:
        """It was told to leave."""
        self.say(type="shutdown_ack")
        self.exit(0)

    def input_ended(self) -> None:
        """Its input was closed."""

    def signalled(self, number: int) -> None:
        """It got a signal that can be handled."""
        self.exit(-number)

    # What a test does with it

    def say(self, **frame: Any) -> None:
        self.say_bytes(json.dumps(frame).encode() + b"\n")

    def say_bytes(self, data: bytes) -> None:
        self._output += data
        asyncio.get_running_loop().call_soon(self._deliver)

    def exit(self, code: int) -> None:
        """End, like a program that holds nothing open."""
        if not self.exited.done():
            self.exited.set_result(code)
            self.end_output()

    def end_output(self) -> None:
        self._ended = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def of(self, kind: str) -> list[Frame]:
        """What it was sent of one type so far."""
        return [frame for frame in self.heard if frame["type"] == kind]

    def times(self, kind: str) -> list[float]:
        """When it was sent that, in seconds after it was started."""
        return [
            at - self.began_at for frame, at in zip(self.heard, self.at, strict=True) if frame["type"] == kind
        ]

    async def next(self, kind: str, count: int = 1) -> Frame:
        """The frame of one type that it is sent as number `count`."""
        while len(self.of(kind)) < count:
            self._hearing.clear()
            await self._hearing.wait()
        return self.of(kind)[count - 1]

    # `Running`: a process as the host sees it

    def start(self, argv: Sequence[str]) -> None:
        """Begin, or begin anew after a reload."""
        self.starts += 1
        loop = asyncio.get_running_loop()
        self.began_at = loop.time()
        self.argv = argv
        self.pid = next(_pids)
        self.exited: asyncio.Future[int] = loop.create_future()
        self.stdin = PeerInput(self)
        self._output = bytearray()
        self._ended = False
        self._take: Callable[[bytes], None] | None = None
        self._paused = True
        self._hearing = asyncio.Event()
        loop.call_soon(self.began)

    def listen(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.resume()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Hand over what waits, at most as much as a pipe does."""
        if self._paused or self._take is None or not (self._output or self._ended):
            return
        data = bytes(self._output[:65536])
        del self._output[:65536]
        asyncio.get_running_loop().call_soon(self._deliver) if data else self.pause()
        self._take(data)

    def signal_group(self, sig: int) -> None:
        if self.exited.done():
            return
        self.signals.append((asyncio.get_running_loop().time() - self.began_at, sig))
        if sig == signal.SIGKILL:
            self.exit(-sig)
        else:
            self.signalled(sig)

    async def stop(self, grace_s: float) -> None:
        self.signal_group(signal.SIGTERM)
        await asyncio.wait([self.exited], timeout=grace_s)
        self.signal_group(signal.SIGKILL)

    def close(self) -> None:
        self.end_output()

    def take(self, line: bytes) -> None:
        """A line has arrived in its input."""
        if self.exited.done():
            return
        frame = json.loads(line)
        judge_frame_to_extension(frame)
        self.heard.append(frame)
        self.at.append(asyncio.get_running_loop().time())
        self._hearing.set()
        match frame["type"]:
            case "hello_ack":
                self.greeted()
            case "command_invoked":
                self.invoked(frame)
            case "tool_call":
                self.called(frame)
            case "event_intercept":
                self.asked(frame)
            case "shutdown":
                self.dismissed()


class PeerInput:
    """The standard input of a peer: read at once, or never."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._waiting = 0
        self.closed = False

    @property
    def buffered(self) -> int:
        return self._waiting

    def write(self, data: bytes) -> None:
        if self.closed:
            return
        if not self._peer.reads:
            self._waiting += len(data)
            return
        loop = asyncio.get_running_loop()
        for line in data.splitlines():
            loop.call_soon(self._peer.take, line)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._peer.input_ended)


class PeerScope(Scope):
    """Starts peers instead of programs: whichever has the name of the extension."""

    def __init__(self, limits: Limits, peers: Mapping[str, Peer]) -> None:
        super().__init__(limits)
        self._peers = peers

    def warm(self) -> None:
        """Nothing to prepare."""

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: Literal["pipe", "null"],
        stderr: int | Literal["merge", "null"],
    ) -> Any:
        peer = self._peers[cwd.name]
        peer.start(argv)
        return peer

    async def close(self) -> None:
        """Nothing was started that could be left."""
