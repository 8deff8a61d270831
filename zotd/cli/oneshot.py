"""Owns `zotd -p` and `zotd --json`: one prompt, one session, one exit code."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from zotd.agent.loop import Outcome
from zotd.agent.ports import ProviderError
from zotd.base.limits import Limits
from zotd.cli.agents import Agents, on_signals
from zotd.cli.flags import Flags
from zotd.daemon.spec import SessionSpec
from zotd.providers.catalog import BadChoice, NoCredentials
from zotd.wire.codec import encode, to_wire

if TYPE_CHECKING:
    from zotd.cli.answer_schema import AnswerSchema
    from zotd.daemon.session import Session

ANSWERED, FAILED, USAGE, LIMIT, CREDENTIALS, TIMED_OUT, INTERRUPTED = 0, 1, 2, 4, 5, 124, 130


class Reporter(Protocol):
    """Shows a run: it is the run's only client."""

    broken: bool

    @property
    def full(self) -> bool: ...
    def deliver(self, event: dict[str, Any]) -> None: ...
    async def drained(self) -> None: ...
    def result(self, outcome: Outcome, session_id: str, code: int, started: float) -> None: ...


async def oneshot(flags: Flags, spec: SessionSpec, limits: Limits) -> int:
    """Run one prompt to its end. Everything but the answer goes to standard error."""
    started = time.monotonic()
    prompt = _prompt(flags.prompt, limits)
    if not prompt.strip():
        return _complain("no prompt: give one on the command line or on standard input", USAGE)
    try:
        schema = _schema(flags.output_schema)
    except ValueError as wrong:
        return _complain(f"--output-schema {flags.output_schema}: {wrong}", USAGE)
    async with asyncio.TaskGroup() as tasks:
        agents = Agents(flags, limits, tasks)
        try:
            session = agents.open(spec)
        except (BadChoice, NoCredentials, ProviderError) as wrong:
            return _complain(str(wrong), CREDENTIALS if isinstance(wrong, NoCredentials) else USAGE)
        run = Run(
            session, _JsonReporter() if flags.mode == "json" else _TextReporter(), flags.timeout, schema
        )
        session.attach(run.reporter)
        agents.sessions.start(session)
        on_signals(run.interrupt)
        try:
            outcome = await run.prompt(prompt)
        finally:
            await agents.close()
    code = run.code(outcome)
    run.reporter.result(outcome, session.id, code, started)
    return FAILED if run.reporter.broken else code


class Run:
    """One prompt, its time-out, its interruption, and its second try when the answer misses a schema."""

    def __init__(
        self, session: Session, reporter: Reporter, timeout: float, schema: AnswerSchema | None
    ) -> None:
        self.reporter = reporter
        self._session = session
        self._timeout = timeout
        self._schema = schema
        self._end = ANSWERED

    async def prompt(self, text: str) -> Outcome:
        """Raises nothing: a time-out or an interruption aborts the turn, and the outcome says so."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._timeout, self._time_out) if self._timeout else None
        try:
            outcome = await self._turn(text if self._schema is None else self._schema.ask(text))
            if self._schema is None or outcome.stop != "end_turn":
                return outcome
            if (fault := self._fault(outcome)) is not None:
                outcome = await self._turn(self._schema.ask_again(fault))
                fault = self._fault(outcome)
            if fault is not None:
                outcome.error, outcome.kind = f"the answer does not fit the schema: {fault}", "output_schema"
            elif outcome.stop == "end_turn":
                outcome.text = self._schema.bare(outcome.text)
            return outcome
        finally:
            if timer is not None:
                timer.cancel()

    def interrupt(self) -> None:
        self._stop(INTERRUPTED)

    def code(self, outcome: Outcome) -> int:
        """The exit code; docs/cli.md lists them."""
        if self._end:
            return self._end
        if outcome.stop == "length" or outcome.kind.startswith("limit_"):
            return LIMIT
        if outcome.kind == "provider_auth":
            return CREDENTIALS
        return FAILED if outcome.error or outcome.stop in ("error", "aborted") else ANSWERED

    def _fault(self, outcome: Outcome) -> str | None:
        """Why an answer does not do; None too where there is no whole answer to judge."""
        if self._schema is None or outcome.stop != "end_turn":
            return None
        try:
            return self._schema.fault(outcome.text)
        except ValueError as wrong:  # a part of the schema that only this answer reaches
            return str(wrong)

    async def _turn(self, text: str) -> Outcome:
        accepted = await self._session.submit(text)
        accepted.begin()
        if self._end:  # interrupted while the extensions loaded
            self._session.unqueue()
        outcome = await self._session.wait(accepted.turn_id)
        assert outcome is not None
        return outcome

    def _time_out(self) -> None:
        self._stop(TIMED_OUT)

    def _stop(self, code: int) -> None:
        self._end = self._end or code
        self._session.abort()
        self._session.cancel_commands()


class _TextReporter:
    """The answer on standard output; notes of extensions and errors on standard error."""

    full = False
    broken = False

    def __init__(self) -> None:
        self._shown: list[str] = []

    def deliver(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "ext_notify":
                _note(f"[{event['extension']}] {event['level']}: {event['message']}")
            case "ext_display" | "ext_insert":
                self._write(event["text"])
            case "retry":
                _note(event["message"])
            case _:
                return

    async def drained(self) -> None:
        return

    def result(self, outcome: Outcome, session_id: str, code: int, started: float) -> None:
        if outcome.stop in ("end_turn", "length") and outcome.text not in self._shown:
            self._write(outcome.text)
        if outcome.stop == "length":
            _note("the answer was cut at the model's length limit")
        if outcome.error and outcome.kind != "command":
            _note(outcome.error + (f" ({outcome.hint})" if outcome.hint else ""))
        if code == TIMED_OUT:
            _note("gave up: --timeout is over")

    def _write(self, text: str) -> None:
        self._shown.append(text)
        data = (text.removesuffix("\n") + "\n").encode("utf-8", "replace")  # a model may say half a character
        self.broken = not _write_all(data) or self.broken


class _JsonReporter:
    """Every event as a JSON line, `result` last."""

    broken = False

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    @property
    def full(self) -> bool:
        return len(self._lines) >= _LINES_GATHERED

    def deliver(self, event: dict[str, Any]) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(encode(event) + b"\n")

    async def drained(self) -> None:
        self._flush()

    def result(self, outcome: Outcome, session_id: str, code: int, started: float) -> None:
        result: dict[str, Any] = {
            "type": "result",
            "ok": code == ANSWERED,
            "stop": outcome.stop,
            "text": outcome.text,
            "usage": to_wire(outcome.usage),
            "session_id": session_id,
            "duration_ms": round((time.monotonic() - started) * 1000),
        }
        if code != ANSWERED:
            result["error"] = outcome.error or _REASONS.get(code, outcome.stop)
        self._lines.append(encode(result) + b"\n")
        self._flush()

    def _flush(self) -> None:
        data, self._lines = b"".join(self._lines), []
        self.broken = not _write_all(data) or self.broken


_LINES_GATHERED = 256
"""Lines of one write: a model that never waits would fill the memory before the loop comes round."""

_REASONS = {TIMED_OUT: "gave up: --timeout is over", INTERRUPTED: "interrupted", LIMIT: "a limit was reached"}


def _prompt(words: str, limits: Limits) -> str:
    """The prompt, with what is piped in appended."""
    piped = _piped(limits.stdin_s if words else None)
    if piped is None:
        _note("standard input is still open after 1 s and was ignored; close it (< /dev/null) or pipe a file")
        return words
    return "\n\n".join(part for part in (words, piped.strip("\n")) if part)


def _piped(within: float | None) -> str | None:
    """Standard input up to its end, "" where there is none, None when it does not end within seconds."""
    try:
        if os.isatty(0):
            return ""
    except OSError:
        return ""
    deadline = None if within is None else time.monotonic() + within
    parts: list[bytes] = []
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            if not select.select([0], [], [], left)[0]:
                return None
            data = os.read(0, 1 << 16)
        except OSError:
            return ""
        if not data:
            return b"".join(parts).decode("utf-8", "replace")
        parts.append(data)


def _schema(path: str) -> AnswerSchema | None:
    if not path:
        return None
    from zotd.cli.answer_schema import AnswerSchema

    return AnswerSchema.load(path)


def _write_all(data: bytes) -> bool:
    """Write to standard output; False when nobody reads it any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(1, view) :]
        except BlockingIOError:
            select.select([], [1], [])
        except OSError:
            return False
    return True


def _note(text: str) -> None:
    sys.stderr.write("".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text) + "\n")


def _complain(message: str, code: int) -> int:
    _note(f"zotd: {message}")
    return code
