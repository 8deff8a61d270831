"""Owns the question whether a tool call may run, which the daemon asks its clients."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from zotd.protocol.content import ToolCallInfo
from zotd.protocol.params import SessionRef
from zotd.protocol.session import Preview

Decision: TypeAlias = Literal["allow", "deny"]
Scope: TypeAlias = Literal["once", "session", "always"]


class ApprovalRequest(SessionRef, frozen=True, kw_only=True):
    """Asks whether a tool call may run. Sent to every attached client that declared `approvals`; the first
    answer counts, and the others get `$/cancelRequest`.

    session_id: whose call it is.
    approval_id: that of `approval_requested` and `approval_resolved`.
    tool_call: the call, with the arguments that would run.
    preview: what it would do.
    original_args: the model's own arguments, where an extension changed them and there is room for both.

    Example: {"session_id":"8f37d5f6","approval_id":"approval_1","tool_call":{"id":"toolu_1","name":"bash","args":{"command":"make"}},"preview":{"kind":"command","command":"make"}}
    """  # noqa: E501

    approval_id: str
    tool_call: ToolCallInfo
    preview: Preview
    original_args: dict[str, Any] | None = None


class ApprovalAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers `approval/request`.

    decision: `allow` or `deny`.
    scope: how long that holds: `once`, for like calls of this `session`, or `always`.
    reason: for the model, where it is denied.

    Example: {"decision":"deny","scope":"session","reason":"use the Makefile"}
    """

    decision: Decision
    scope: Scope = "once"
    reason: str | None = None
