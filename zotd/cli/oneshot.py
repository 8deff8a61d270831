"""Owns `zotd -p` and `zotd --json`: one prompt, one session, one exit code."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from zotd.agent.loop import Outcome
from zotd.agent.ports import ProviderError
from zotd.base.limits import KIB, Limits
from zotd.base.tasks import Independent
from zotd.cli.agents import CANNOT_ASK, Agents, on_signals
from zotd.cli.flags import Flags
from zotd.cli.report import (
    ANSWERED,
    BLOCKED,
    CREDENTIALS,
    FAILED,
    INTERRUPTED,
    LIMIT,
    TIMED_OUT,
    USAGE,
    JsonReporter,
    TextReporter,
    say,
)
from zotd.daemon.server import open_stdout
from zotd.daemon.spec import SessionSpec
from zotd.providers.catalog import BadChoice, NoCredentials
from zotd.store.errors import StoreError

if TYPE_CHECKING:
    from zotd.cli.answer_schema import AnswerSchema
    from zotd.daemon.audience import Client


_ABORTED = "the turn was aborted from elsewhere: by another client, or as the daemon was stopped"


class NotBegun(Exception):
    """There is nothing to run the prompt in; the message says why. code: what to exit with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Conversation(Protocol):
    """What a run needs of its session, be it in this process or in a daemon.

    attach: a reporter gets every event from the first on.
    turn: a prompt or command, to its end; `accepted` gets its id ahead of its events.
    stop: ends what runs, and what is asked for later, as aborted.
    finish: until all has ended that it made extensions do, bounded.
    close: the session is over, unless others see it.
    """

    @property
    def id(self) -> str: ...
    def attach(self, reporter: Client) -> None: ...
    async def turn(self, text: str, accepted: Callable[[str], object]) -> Outcome: ...
    def stop(self) -> None: ...
    async def finish(self) -> None: ...
    async def close(self) -> None: ...


class Here:
    """A session of this process."""

    def __init__(self, agents: Agents, spec: SessionSpec) -> None:
        """Raises NotBegun."""
        try:
            self._session = agents.sessions.open(replace(spec, headless=True))
        except (BadChoice, NoCredentials, ProviderError, StoreError) as wrong:
            from zotd.cli.which import told

            code = CREDENTIALS if isinstance(wrong, NoCredentials) else USAGE
            raise NotBegun(told(wrong), code) from None
        self._agents = agents
        self._stopped = False

    @property
    def id(self) -> str:
        return self._session.id

    def attach(self, reporter: Client) -> None:
        self._session.attach(reporter, since=0)

    async def turn(self, text: str, accepted: Callable[[str], object]) -> Outcome:
        taken = await self._session.submit(text)
        accepted(taken.turn_id)
        taken.begin()
        if self._stopped:  # while the extensions loaded
            self.stop()
        outcome = await self._session.wait(taken.turn_id)
        assert outcome is not None
        return outcome

    def stop(self) -> None:
        self._stopped = True
        self._session.abort()
        self._session.commands.cancel()

    async def finish(self) -> None:
        await self._session.finish()

    async def close(self) -> None:
        await self._agents.close()


async def oneshot(flags: Flags, spec: SessionSpec, limits: Limits, token: str = "") -> int:
    """Run one prompt to its end. Everything but the answer goes to standard error.

    token: of the daemon that runs it.
    """
    started = time.monotonic()
    prompt = _prompt(flags.prompt, limits)
    if not prompt.strip():
        return _complain("no prompt: give one on the command line or on standard input", USAGE)
    try:
        schema = _schema(flags.output_schema)
    except ValueError as wrong:
        return _complain(f"--output-schema {flags.output_schema}: {wrong}", USAGE)
    if flags.approval == "ask":
        say(CANNOT_ASK)
    async with Independent() as tasks:
        conversation: Conversation
        try:
            if flags.connect:
                conversation = await _joined(flags, spec, limits, token)
            else:
                conversation = Here(Agents(flags, limits, tasks), spec)
        except NotBegun as why:
            return _complain(str(why), why.code)
        run = Run(conversation, flags.timeout, schema, limits)
        on_signals(run.interrupt)
        outlet = await open_stdout(_patient(limits), run.lose)
        reporter = JsonReporter(outlet) if flags.mode == "json" else TextReporter(outlet, run.turns)
        conversation.attach(reporter)
        try:
            outcome = await run.prompt(prompt)
        finally:
            await conversation.close()
        code = run.code(outcome, denied=reporter.denied)
        reporter.result(outcome, conversation.id, code, started)
        outlet.close()
        await run.heard(outlet.ended())
        return run.code(outcome, denied=reporter.denied)


async def _joined(flags: Flags, spec: SessionSpec, limits: Limits, token: str) -> Conversation:
    """A session of the daemon that the flags name. Raises NotBegun."""
    from zotd.cli.moving import Moving
    from zotd.cli.remote import NotTaken

    conversation = Moving(flags, spec, token, limits)
    try:
        await conversation.begin()
    except NotTaken as why:
        raise NotBegun(str(why), why.code) from None
    return conversation


def _patient(limits: Limits) -> Limits:
    """A pager may read after hours: what ends the wait for it is a signal or --timeout."""
    return replace(limits, client_unsent_bytes=64 * KIB, client_stall_s=24 * 3600.0)


class Run:
    """One prompt, its time-out, its interruption, and its second try when the answer misses a schema.

    turns: the ids of its turns; others are of extensions.
    """

    def __init__(
        self, conversation: Conversation, timeout: float, schema: AnswerSchema | None, limits: Limits
    ) -> None:
        self.turns: set[str] = set()
        self._conversation = conversation
        self._limits = limits
        self._timeout = timeout
        self._schema = schema
        self._end = ANSWERED
        self._stopped = asyncio.Event()
        self._all_said = False

    async def prompt(self, text: str) -> Outcome:
        """The outcome, once all has ended that the prompt made extensions do.

        Raises nothing: a time-out or an interruption aborts the turn, and the outcome says so.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._timeout, self._time_out) if self._timeout else None
        try:
            outcome = await self._answer(text)
            await self._settle()
            if outcome.stop == "aborted" and not (outcome.error or self._end):
                outcome.error = _ABORTED
            return outcome
        finally:
            if timer is not None:
                timer.cancel()

    def interrupt(self) -> None:
        self._stop(INTERRUPTED)

    def lose(self) -> None:
        """Nobody reads the output any more."""
        if not self._all_said:
            self._stop(FAILED)

    async def heard(self, ended: Coroutine[Any, Any, None]) -> None:
        """Until the output is read to its end, or a signal says that it need not be."""
        reading, stopped = asyncio.ensure_future(ended), asyncio.ensure_future(self._stopped.wait())
        self._all_said = True
        await asyncio.wait([reading, stopped], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([reading], timeout=self._limits.last_words_s)
        reading.cancel()
        stopped.cancel()

    def code(self, outcome: Outcome, *, denied: bool) -> int:
        """The exit code; docs/cli.md lists them. denied: a call was not approved."""
        if self._end:
            return self._end
        if outcome.stop == "length" or outcome.kind.startswith("limit_"):
            return LIMIT
        if outcome.kind == "turn_blocked":
            return BLOCKED
        if outcome.kind == "provider_auth":
            return CREDENTIALS
        if outcome.kind == "configuration":
            return USAGE
        if outcome.error or outcome.stop in ("error", "aborted"):
            return FAILED
        return BLOCKED if denied else ANSWERED

    def _fault(self, outcome: Outcome) -> str | None:
        """Why an answer does not do; None too where there is no whole answer to judge."""
        if self._schema is None or outcome.stop != "end_turn":
            return None
        try:
            return self._schema.fault(outcome.text)
        except ValueError as wrong:  # a part of the schema that only this answer reaches
            return str(wrong)

    async def _answer(self, text: str) -> Outcome:
        asked = text if self._schema is None else self._schema.ask(text)
        outcome = await self._conversation.turn(asked, self.turns.add)
        if self._schema is None or outcome.stop != "end_turn":
            return outcome
        if (fault := self._fault(outcome)) is not None:
            outcome = await self._conversation.turn(self._schema.ask_again(fault), self.turns.add)
            fault = self._fault(outcome)
        if fault is not None:
            outcome.error, outcome.kind = f"the answer does not fit the schema: {fault}", "output_schema"
        elif outcome.stop == "end_turn":
            outcome.text = self._schema.bare(outcome.text)
        return outcome

    async def _settle(self) -> None:
        """Until no turn or command is left, or the run is to end at once."""
        finishing = asyncio.ensure_future(self._conversation.finish())
        stopped = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait([finishing, stopped], return_when=asyncio.FIRST_COMPLETED)
        finishing.cancel()
        stopped.cancel()

    def _time_out(self) -> None:
        self._stop(TIMED_OUT)

    def _stop(self, code: int) -> None:
        self._end = self._end or code
        self._stopped.set()
        self._conversation.stop()


def _prompt(words: str, limits: Limits) -> str:
    """The prompt, with what is piped in appended."""
    piped = _piped(limits.stdin_s if words else None)
    if piped is None:
        say("standard input is still open after 1 s and was ignored; close it (< /dev/null) or pipe a file")
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


def _complain(message: str, code: int) -> int:
    say(message)
    return code
