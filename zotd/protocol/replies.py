"""Owns the lines that are no events: answers in the zot dialect, and the last line of `--json`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from zotd.protocol.content import StopReason, Usage


class Response(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="response"):
    """The answer to a command of the zot dialect. It precedes the events the command causes.

    command: the `type` of the command, empty when the line was no JSON.
    success: whether it was accepted.
    id: of the command, as it came; absent when it had none.
    data: what was asked for, absent when there is nothing to say.
    error: what went wrong, for a person.

    Example: {"type":"response","command":"prompt","success":true,"id":"1","data":{"started":true}}
    """

    command: str
    success: bool
    id: str | int | float | None = None
    data: dict[str, Any] | None = None
    error: str | None = None


class RunResult(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="result"):
    """The last line of a `--json` run.

    ok: whether the exit code is 0.
    stop: why the turn ended.
    text: the answer.
    usage: what it cost.
    session_id: to go on with.
    duration_ms: milliseconds since the program started.
    error: what went wrong, for a person.

    Example: {"type":"result","ok":true,"stop":"end_turn","text":"Hello","usage":{"input":10,"output":7,"cache_read":0,"cache_write":0,"cost_usd":0.0},"session_id":"8f37d5f6","duration_ms":112}
    """  # noqa: E501

    ok: bool
    stop: StopReason
    text: str
    usage: Usage
    session_id: str
    duration_ms: int
    error: str | None = None
