"""Owns a run in a daemon: the conversation of `zotd -p` and `--json`, held over the daemon's socket."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from zotd import __version__
from zotd.agent.loop import Outcome
from zotd.base.limits import Limits
from zotd.cli.flags import Flags
from zotd.cli.report import CREDENTIALS, FAILED, USAGE
from zotd.protocol.content import Usage
from zotd.protocol.version import PROTOCOL_VERSION
from zotd.store.ring import Published
from zotd.wire.codec import decode, encode
from zotd.wire.framing import LineBuffer, Oversize

if TYPE_CHECKING:
    from zotd.cli.rendezvous import Met
    from zotd.daemon.audience import Client
    from zotd.daemon.spec import SessionSpec

_CODES = {"provider_auth": CREDENTIALS, "draining": FAILED, "overloaded": FAILED, "internal": FAILED}
"""Exit codes of a run that a daemon does not take; any other refusal is about what was asked for."""


class NotTaken(Exception):
    """The daemon cannot be had, or does not take the run. code: to exit with. passing: another one may."""

    def __init__(self, message: str, code: int = FAILED, *, passing: bool = False) -> None:
        super().__init__(message)
        self.code, self.passing = code, passing


class Gone(Exception):
    """The daemon is lost in the middle of it; the message says what is left."""


class Refusal(Exception):
    """An error that the daemon answered with. kind: its stable word. hint: what to do, "" for nothing."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", "refused"))
        data = error.get("data") or {}
        self.kind: str = data.get("kind", "")
        self.hint: str = data.get("hint", "")


def meet(flags: Flags, spec: SessionSpec) -> tuple[Met, bytes]:
    """Join the daemon that the flags name, as a run that would be the same here. Also what it was told.

    Raises NotTaken.
    """
    from zotd.cli import rendezvous
    from zotd.cli.connect import preface
    from zotd.cli.preface import Unsendable, call_of

    home = str(spec.home)
    try:
        call = call_of(flags)
        if spec.saved is not None:  # which one is meant, and what there is to say of that, is known by now
            call.flags.pop("continue", None)
            call.flags["session"] = str(spec.saved)
        line = preface(call, home, spec.environ, flags.mode)
        return rendezvous.meet(call.address, os.environ, home, line), line
    except UnicodeEncodeError:
        raise NotTaken("a path or flag is no UTF-8: no daemon can be told of it", USAGE) from None
    except (Unsendable, rendezvous.Unwelcome) as wrong:
        raise NotTaken(str(wrong), USAGE) from None
    except (rendezvous.NoDaemon, OSError) as wrong:
        raise NotTaken(str(wrong)) from None


class _Line(asyncio.Protocol):
    """One connection: values in, each with its size, and the end of it."""

    def __init__(self, limits: Limits, take: Callable[[Any, int], None], lost: Callable[[], None]) -> None:
        self._lines = LineBuffer(limits.joined_line_bytes)
        self._take = take
        self._lost = lost

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if not isinstance(line, Oversize):
                self._take(decode(line), len(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


@dataclass(slots=True, eq=False)
class _Asked:
    """A request that has no answer yet.

    answered: called with its result ahead of what came behind it. sent: whether it is on its way.
    """

    method: str
    params: dict[str, Any]
    answered: Callable[[dict[str, Any]], None]
    future: asyncio.Future[dict[str, Any]] = field(repr=False)
    sent: bool = False


class Joined:
    """A session of a daemon, which is over with the run unless others see it too.

    A connection that breaks is made anew once: events go on after the last one that was seen.
    """

    def __init__(self, met: Met, line: bytes, token: str, limits: Limits, *, saved: bool) -> None:
        """line: the preface that the daemon has taken. token: of the daemon, "" without one. saved: whether
        somebody can go on with what a daemon leaves that dies.
        """
        self.id = ""
        self._met = met
        self._path: str = met.socket.getpeername()
        self._preface = line
        self._saved = saved
        self._token = token
        self._limits = limits
        self._epoch = ""
        self._seen = 0
        self._early: list[Published] = []
        self._reporter: Client | None = None
        self._transport: asyncio.Transport | None = None
        self._open: dict[int, _Asked] = {}
        self._ids = count(1)
        self._held: deque[tuple[Any, int]] = deque()
        self._held_bytes = 0
        self._pacing: asyncio.Task[None] | None = None
        self._coming_back: asyncio.Task[None] | None = None
        self._tries = 1
        self._turn = ""
        self._stopped = asyncio.Event()
        self._parting = False
        self._over = asyncio.Event()

    async def begin(self) -> None:
        """Have the daemon open the session. Raises NotTaken."""
        try:
            async with asyncio.timeout(self._limits.joined_answer_s):
                await self._introduce(self._met)
                session = (await self._ask("session/new", {}))["session"]
        except Refusal as no:
            said = f"{no}; {no.hint}" if no.hint else str(no)
            code = _CODES.get(no.kind, USAGE)
            raise NotTaken(said, code, passing=no.kind == "draining") from None
        except TimeoutError:
            raise NotTaken(f"the daemon does not answer within {self._limits.joined_answer_s:g} s") from None
        except (OSError, Gone) as wrong:
            said = f"{self._path}: {getattr(wrong, 'strerror', None) or wrong}"
            raise NotTaken(said, passing=True) from None
        self.id, self._epoch = session["session_id"], session["epoch"]

    def attach(self, reporter: Client) -> None:
        """From here on it gets every event that the session has for this run, the first ones too."""
        self._reporter = reporter
        for event in self._early:
            reporter.deliver(event)
        self._early.clear()

    async def turn(self, text: str, accepted: Callable[[str], object]) -> Outcome:
        """See Conversation. What goes wrong between here and the daemon is an outcome too."""

        def taken(answer: dict[str, Any]) -> None:
            self._turn = answer["turn_id"]
            accepted(self._turn)
            if self._stopped.is_set():
                self._abort()

        self._turn = ""
        try:
            key = uuid.uuid4().hex  # after a connection that broke, the prompt is known by it
            asked = self._ask("turn/start", {"session_id": self.id, "text": text, "key": key}, taken)
            turn_id = (await self._bounded(asked))["turn_id"]
            ended = self._ask("turn/wait", {"session_id": self.id, "turn_id": turn_id})
            return _outcome(await self._bounded(ended))
        except Refusal as no:
            if no.kind == "cancelled":
                return Outcome("aborted")
            return Outcome("error", error=str(no), kind=no.kind, hint=no.hint)
        except Gone as gone:
            return Outcome("error", error=str(gone), kind="disconnected")
        except TimeoutError:
            return Outcome("aborted")

    def stop(self) -> None:
        self._stopped.set()
        for number, asked in self._open.items():
            if asked.method == "turn/start":  # the extensions are loading still
                self._send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
        self._abort()

    async def finish(self) -> None:
        """See Conversation. The daemon hangs up when all is done."""
        self._part()
        await self._over.wait()
        while self._pacing is not None and not self._pacing.done():
            await asyncio.wait([self._pacing])

    async def close(self) -> None:
        self._part()
        if self._transport is not None:
            self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.last_words_s):
                await self._over.wait()
        for task in (self._pacing, self._coming_back):
            if task is not None:
                task.cancel()

    # The connection

    async def _introduce(self, met: Met) -> None:
        """Take over a connection. Raises OSError, Refusal and Gone."""
        line = _Line(self._limits, self._arrived, self._lost)
        taken = socket.socket(fileno=met.socket.detach())
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_unix_connection(lambda: line, sock=taken)
        line.data_received(met.early)
        params: dict[str, Any] = {"protocol_version": PROTOCOL_VERSION, "client": {"version": __version__}}
        if self._token:
            params["token"] = self._token
        await self._ask("initialize", params)

    def _lost(self) -> None:
        self._transport = None
        if self._parting:
            self._over.set()
            self._fail("it has ended")
        elif self._coming_back is None and self._tries and self.id:
            self._tries -= 1
            self._coming_back = asyncio.ensure_future(self._come_back())
        else:
            self._fail("it hung up")

    async def _come_back(self) -> None:
        """Connect anew, see what was missed, and ask again what has no answer. Once: it may be ill."""
        from zotd.cli import rendezvous

        waiting, self._open = self._open, {}
        try:
            async with asyncio.timeout(self._limits.joined_answer_s):
                met = await asyncio.to_thread(rendezvous.greet, self._path, self._preface)
                await self._introduce(met)
                known = {"session_id": self.id, "epoch": self._epoch, "since": self._seen}
                session = (await self._ask("session/attach", known))["session"]
        except (OSError, Refusal, Gone, rendezvous.Gone, rendezvous.NoDaemon) as wrong:
            self._open |= waiting
            said = "it hung up" if isinstance(wrong, Gone) else getattr(wrong, "strerror", None) or str(wrong)
            self._fail(said or "it does not answer")
            return
        self._open |= waiting
        if session["epoch"] != self._epoch:
            self._fail("it was started anew")
            return
        for number, asked in self._open.items():
            if asked in waiting.values() or not asked.sent:
                self._send_request(number, asked)

    def _fail(self, why: str) -> None:
        """Nobody answers any more: whoever waits is told."""
        self._over.set()
        left = f": zotd --session {self.id[:8]} goes on with what is saved of it" if self._saved else ""
        gone = Gone(f"the daemon is gone in the middle of the run ({why}){left}")
        waiting, self._open = self._open, {}
        for asked in waiting.values():
            if not asked.future.done():
                asked.future.set_exception(gone)
                asked.future.exception()  # seen: not every answer is waited for

    # Values

    def _ask(
        self, method: str, params: dict[str, Any], answered: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> asyncio.Future[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        number, asked = next(self._ids), _Asked(method, params, answered, future)
        self._open[number] = asked
        if self._transport is not None:
            self._send_request(number, asked)
        elif self._coming_back is None or self._coming_back.done():
            self._fail("it hung up")
        return future

    async def _bounded(self, asked: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        """An answer. Once the run is to stop it has to come soon: raises TimeoutError."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        either: list[asyncio.Future[Any]] = [asked, stopped]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        async with asyncio.timeout(None if asked.done() else self._limits.joined_stop_s):
            return await asked

    def _send_request(self, number: int, asked: _Asked) -> None:
        asked.sent = True
        self._send({"jsonrpc": "2.0", "id": number, "method": asked.method, "params": asked.params})

    def _send(self, value: dict[str, Any]) -> None:
        if self._transport is not None:
            self._transport.write(encode(value) + b"\n")

    def _abort(self) -> None:
        if self._turn:
            self._ask("turn/abort", {"session_id": self.id, "turn_id": self._turn})
        if self._pacing is not None:
            self._pacing.cancel()
            self._release()

    def _part(self) -> None:
        """Say good-bye: with that the session ends, when all is done, unless others see it."""
        if not self._parting:
            self._parting = True
            self._send({"jsonrpc": "2.0", "method": "exit"})
            if self._transport is None:
                self._over.set()

    def _arrived(self, value: Any, size: int) -> None:
        """Take a value, or keep it until whoever reads our output has read on."""
        reporter = self._reporter
        behind = reporter is not None and reporter.full and not self._stopped.is_set()
        if not (behind or self._held):
            self._take(value)
            return
        self._held.append((value, size))
        self._held_bytes += size
        if self._held_bytes > self._limits.joined_held_bytes and self._transport is not None:
            self._transport.pause_reading()
        if self._pacing is None or self._pacing.done():
            self._pacing = asyncio.ensure_future(self._pace())

    async def _pace(self) -> None:
        while self._held and self._reporter is not None:
            if self._reporter.full:
                await self._reporter.drained()
            self._take_held()

    def _release(self) -> None:
        """Take all that is held, read or not."""
        while self._held:
            self._take_held()

    def _take_held(self) -> None:
        value, size = self._held.popleft()
        self._held_bytes -= size
        if self._transport is not None and self._held_bytes <= self._limits.joined_held_bytes:
            self._transport.resume_reading()
        self._take(value)

    def _take(self, value: Any) -> None:
        if not isinstance(value, dict):
            return
        if "method" in value:
            if "id" in value:
                refused = {"code": -32601, "message": "this client answers no requests"}
                self._send({"jsonrpc": "2.0", "id": value["id"], "error": refused})
            else:
                self._event(value["method"], value["params"])
        elif (asked := self._open.pop(value.get("id", 0), None)) is not None and not asked.future.done():
            if "error" in value:
                asked.future.set_exception(Refusal(value["error"]))
                asked.future.exception()
            else:
                asked.answered(value["result"])
                asked.future.set_result(value["result"])

    def _event(self, name: str, params: dict[str, Any]) -> None:
        event = Published(name, params["seq"], encode(params), params.get("turn_id", ""))
        if event.seq <= self._seen and name != "resync":  # it came before the connection broke
            return
        self._seen = max(self._seen, event.seq)
        if self._reporter is None:
            self._early.append(event)
        else:
            self._reporter.deliver(event)


def _outcome(result: dict[str, Any]) -> Outcome:
    """What `turn/wait` says, as the loop would have it."""
    error = result.get("error") or {}
    return Outcome(
        stop=result["stop"],
        text=result["text"],
        error=error.get("message"),
        kind=error.get("kind", ""),
        hint=error.get("hint", ""),
        usage=msgspec.convert(result["usage"], Usage),
    )
