"""Owns what a run shows: the answer or the events on standard output, the rest on standard error."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Container
from typing import Any

from zotd.agent.loop import Outcome
from zotd.cli.console import escaped
from zotd.daemon.sending import Outlet
from zotd.extensions.panel_text import paragraphs
from zotd.store.ring import Published
from zotd.wire.codec import decode, encode, to_wire

ANSWERED, FAILED, USAGE, BLOCKED, LIMIT, CREDENTIALS, TIMED_OUT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 124, 130
"""Exit codes; docs/cli.md says when."""

_REASONS = {
    TIMED_OUT: "gave up: --timeout is over",
    INTERRUPTED: "interrupted",
    LIMIT: "a limit was reached",
    BLOCKED: "a call of a tool was not approved",
}

_TOLD = ("command", "turn_blocked")
"""Kinds of errors that the extension's own note has told."""

_SHOWN = frozenset(
    [
        "ext_notify",
        "ext_clear_notes",
        "ext_display",
        "ext_insert",
        "ext_panel_open",
        "ext_state",
        "tool_result",
        "assistant_message",
        "error",
        "retry",
    ]
)
"""Events that `-p` looks into."""

_LINES_GATHERED = 256
"""Lines of one write: a model that never waits would fill the memory before the loop comes round."""


class TextReporter:
    """The answer on standard output; notes of extensions, what they refused, and errors on standard error."""

    full = False
    capabilities: frozenset[str] = frozenset()
    approver = None

    def __init__(self, outlet: Outlet, turns: Container[str]) -> None:
        """turns: the ids of those whose outcome `result` gets; others are of extensions."""
        self.denied = False
        """Whether a call was not approved."""
        self._outlet = outlet
        self._turns = turns
        self._said: dict[str, str] = {}  # by other turns, last
        self._shown: list[str] = []
        self._errors: dict[tuple[str, str], bool] = {}  # of extensions: whether cleared since
        self._up: set[str] = set()  # what fails to come up has a note of its own

    def deliver(self, published: Published) -> None:
        if published.type not in _SHOWN:
            return
        event = decode(published.body)
        match published.type:
            case "ext_notify":
                if not self._again(event):
                    note(f"[{event['extension']}] {event['level']}: {event['message']}")
            case "ext_clear_notes":
                self._errors |= {told: True for told in self._errors if told[0] == event["extension"]}
            case "ext_display" | "ext_insert":
                self._write(event["text"], paragraphs(event["text"]))
            case "ext_panel_open":  # nobody could press a key in it, so that its lines are all there is
                self._write("\n".join(event["lines"]))
            case "ext_state" if event["state"] in ("ready", "auto_ready"):
                self._up.add(event["extension"])
            case "ext_state" if event["state"] == "failed" and event["extension"] in self._up:
                note(f"[{event['extension']}] error: {event['error']}")
            case "tool_result" if "denied_by" in event["details"]:
                self.denied = True
                words = " ".join(block.get("text", "") for block in event["content"])
                say(f"{event['details']['tool']}: {words}")
            case "tool_result" if by := event["details"].get("refused_by"):
                words = " ".join(block.get("text", "") for block in event["content"])
                note(f"[{by}] refused {event['details']['tool']}: {words}")
            case "assistant_message" if event.get("turn_id") not in self._turns:
                texts = [block["text"] for block in event["content"] if block["type"] == "text"]
                self._said[event["turn_id"]] = "".join(texts)
            case "error" if event.get("turn_id") not in self._turns:
                say(event["message"])
            case "retry":
                say(event["message"])
            case _:
                return

    async def drained(self) -> None:
        return

    def result(self, outcome: Outcome, session_id: str, code: int, started: float) -> None:
        answered = outcome.stop in ("end_turn", "length") and not outcome.error
        if answered and outcome.text not in self._shown:
            self._write(outcome.text)
        for text in self._said.values():
            self._write(text)
        if outcome.stop == "length":
            say("the answer was cut at the model's length limit")
        if outcome.error and outcome.kind not in _TOLD:
            say(outcome.error + (f" ({outcome.hint})" if outcome.hint else ""))
        if code == TIMED_OUT:
            say(_REASONS[code])

    def _again(self, event: dict[str, Any]) -> bool:
        """Whether an error only comes back that was cleared: what is printed stays to be read."""
        if event["level"] != "error":
            return False
        told = event["extension"], event["message"]
        again = self._errors.get(told, False)
        self._errors[told] = False
        return again

    def _write(self, text: str, printed: str = "") -> None:
        if not text:
            return
        self._shown.append(text)
        # A model may say half a character.
        self._outlet.write(((printed or text).removesuffix("\n") + "\n").encode("utf-8", "replace"))


class JsonReporter:
    """Every event as a JSON line, `result` last."""

    capabilities: frozenset[str] = frozenset()
    approver = None

    def __init__(self, outlet: Outlet) -> None:
        self.denied = False
        """Whether a call was not approved."""
        self._outlet = outlet
        self._lines: list[bytes] = []

    @property
    def full(self) -> bool:
        return self._outlet.full or len(self._lines) >= _LINES_GATHERED

    def deliver(self, event: Published) -> None:
        # Only what may be one is looked into: there may be thousands of others.
        if event.type == "tool_result" and b'"denied_by"' in event.body:
            self.denied = self.denied or "denied_by" in decode(event.body)["details"]
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(b'{"type":"%b",%b\n' % (event.type.encode(), event.body[1:]))

    async def drained(self) -> None:
        self._flush()
        await self._outlet.drained()

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
        if data:
            self._outlet.write(data)


def note(text: str) -> None:
    """A line on standard error, with control characters shown instead of sent."""
    sys.stderr.write(escaped(text) + "\n")


def say(text: str) -> None:
    """What zotd itself has to say, and no extension."""
    note(f"zotd: {text}")
