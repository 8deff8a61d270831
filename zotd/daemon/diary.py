"""Owns what the log says of one session: a line for each turn, command and change of an extension. No words
of the conversation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zotd.base.log import log, wanted
from zotd.protocol.events import (
    CommandResult,
    Done,
    ErrorEvent,
    Event,
    ExtState,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolUseStart,
    TurnStart,
    UsageReport,
)


@dataclass(slots=True)
class _Running:
    """A turn, as its events have told of it so far. first: when the model was first heard."""

    id: str
    fields: dict[str, Any]
    since: float = field(default_factory=time.perf_counter)
    first: float = 0.0
    steps: int = 0
    tool_calls: int = 0
    retries: int = 0
    kind: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    cost_usd: float = 0.0


def _ms_since(then: float) -> float:
    return round((time.perf_counter() - then) * 1000, 3)


class Diary:
    """Follows the events of a session. What streams costs it a look at the type."""

    def __init__(self, session_id: str) -> None:
        self._session = session_id
        self._running: _Running | None = None
        self._commands: dict[str, float] = {}  # when those that were taken began, until their `done`
        self._states: dict[str, float] = {}  # since when each extension has been in the state that it is in
        self._hears: dict[type, Callable[[Any], None]] = {
            TurnStart: self._step,
            TextDelta: self._first,
            ThinkingDelta: self._first,
            ToolUseStart: self._first,
            ToolCalled: self._call,
            UsageReport: self._usage,
            ErrorEvent: self._error,
            Retry: self._retry,
            CommandResult: self._command,
            ExtState: self._extension,
            Done: self._done,
        }

    def begin(self, turn_id: str, **fields: Any) -> None:
        """A turn begins. fields: what is known of it, such as the model."""
        self._running = _Running(turn_id, fields)

    def begin_command(self, turn_id: str) -> None:
        """A command was taken: its line comes with its result."""
        if wanted():
            self._commands[turn_id] = time.perf_counter()

    def follow(self, event: Event) -> None:
        """One more event."""
        if (hear := self._hears.get(type(event))) is not None and wanted():
            hear(event)

    def _step(self, event: TurnStart) -> None:
        if self._running is not None:
            self._running.steps = event.step

    def _first(self, event: TextDelta | ThinkingDelta | ToolUseStart) -> None:
        if (running := self._running) is not None and not running.first:
            running.first = time.perf_counter()

    def _call(self, event: ToolCalled) -> None:
        if self._running is not None:
            self._running.tool_calls += 1

    def _usage(self, event: UsageReport) -> None:
        if (running := self._running) is not None:
            for name in ("input", "output", "cache_read", "cache_write"):
                running.usage[name] = running.usage.get(name, 0) + getattr(event, name)
            running.cost_usd += event.cost_usd

    def _error(self, event: ErrorEvent) -> None:
        if self._running is not None:
            self._running.kind = event.kind

    def _retry(self, event: Retry) -> None:
        if self._running is not None:
            self._running.retries += 1

    def _command(self, event: CommandResult) -> None:
        begun = self._commands.setdefault(event.turn_id or "", time.perf_counter())
        log(
            "command",
            session=self._session,
            turn=event.turn_id,
            extension=event.extension,
            name=event.name,
            action=event.action,
            failed=event.error is not None,
            duration_ms=_ms_since(begun),
        )

    def _extension(self, event: ExtState) -> None:
        before = self._states.get(event.extension)
        self._states[event.extension] = time.perf_counter()
        log(
            "extension",
            "warning" if event.state == "failed" else "info",
            session=self._session,
            extension=event.extension,
            state=event.state,
            **({"error": event.error} if event.error else {}),
            **({} if before is None else {"duration_ms": _ms_since(before)}),
        )

    def _done(self, event: Done) -> None:
        running, command = self._running, self._commands.pop(event.turn_id, None)
        if running is None or running.id != event.turn_id:
            if command is None:  # taken out of the queue, or taken in by the turn that ran
                log("turn", session=self._session, turn=event.turn_id, stop=event.stop, steps=0)
            return
        self._running = None
        log(
            "turn",
            "warning" if event.stop == "error" else "info",
            session=self._session,
            turn=event.turn_id,
            **running.fields,
            steps=running.steps,
            tool_calls=running.tool_calls,
            retries=running.retries,
            stop=event.stop,
            **({"kind": running.kind} if running.kind else {}),
            usage=running.usage,
            cost_usd=round(running.cost_usd, 6),
            duration_ms=_ms_since(running.since),
            first_delta_ms=round((running.first - running.since) * 1000, 3) if running.first else None,
        )
