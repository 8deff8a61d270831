"""Owns the events of the conversation, its queue and its approvals. Import them from `events`."""

from __future__ import annotations

from typing import Any, Literal

from zotd.protocol.content import Block, ContextUse, Image, StopReason, Text, ToolCallInfo, Usage
from zotd.protocol.envelope import EventBase
from zotd.protocol.session import Preview, QueuedTurn, SessionInfo


class UserMessage(EventBase, frozen=True, kw_only=True, tag="user_message"):
    """A prompt entered the conversation.

    content: text and images.
    origin: the name of the client that sent it, `client` where it gave none, or `extension:NAME` for one
        that an extension submitted.
    message_id: of its row in the conversation.

    Example: {"type":"user_message","content":[{"type":"text","text":"hello"}]}
    """

    content: list[Block]
    origin: str = "client"
    message_id: int = 0


class TurnStart(EventBase, frozen=True, kw_only=True, tag="turn_start"):
    """The model is about to be called.

    step: which call of this prompt, from 1.

    Example: {"type":"turn_start","step":1}
    """

    step: int


class AssistantStart(EventBase, frozen=True, kw_only=True, tag="assistant_start"):
    """The model begins to answer.

    withheld_by: extensions that approve the text first; until then no text is shown.

    Example: {"type":"assistant_start"}
    """

    withheld_by: list[str] | None = None


class ThinkingDelta(EventBase, frozen=True, kw_only=True, tag="thinking_delta"):
    """More of what a reasoning model thinks.

    delta: text to append.

    Example: {"type":"thinking_delta","delta":"The file is short"}
    """

    delta: str


class TextDelta(EventBase, frozen=True, kw_only=True, tag="text_delta"):
    """More of the answer.

    delta: text to append.

    Example: {"type":"text_delta","delta":"Hello"}
    """

    delta: str


class ToolUseStart(EventBase, frozen=True, kw_only=True, tag="tool_use_start"):
    """The model begins to write a call.

    id: of the call.
    name: of the tool.

    Example: {"type":"tool_use_start","id":"toolu_1","name":"bash"}
    """

    id: str
    name: str


class ToolUseArgs(EventBase, frozen=True, kw_only=True, tag="tool_use_args"):
    """More of the call's arguments, as the model writes them.

    id: of the call.
    delta: JSON text to append.

    Example: {"type":"tool_use_args","id":"toolu_1","delta":"{\\"command\\""}
    """

    id: str
    delta: str


class ToolUseEnd(EventBase, frozen=True, kw_only=True, tag="tool_use_end"):
    """The call is written; it does not run yet.

    id: of the call.

    Example: {"type":"tool_use_end","id":"toolu_1"}
    """

    id: str


class UsageReport(EventBase, frozen=True, kw_only=True, tag="usage"):
    """What one model call cost, and the session so far.

    input: prompt tokens billed at full price.
    output: tokens the model wrote.
    cache_read: prompt tokens served from the provider's cache.
    cache_write: prompt tokens written to it.
    cost_usd: US dollars, 0 where no price is known.
    cumulative: the same of the whole session.
    context: how full the model's window is.

    Example: {"type":"usage","input":10,"output":7,"cache_read":2,"cache_write":3,"cost_usd":0.00014685,"cumulative":{"input":20,"output":14,"cache_read":4,"cache_write":6,"cost_usd":0.0002937},"context":{"used":22,"window":8192}}
    """  # noqa: E501

    input: int
    output: int
    cache_read: int
    cache_write: int
    cost_usd: float
    cumulative: Usage
    context: ContextUse


class AssistantMessage(EventBase, frozen=True, kw_only=True, tag="assistant_message"):
    """The model's message is complete.

    content: its blocks as shown: thinking, text and calls.
    message_id: of its row in the conversation.

    Example: {"type":"assistant_message","content":[{"type":"text","text":"Hello"}]}
    """

    content: list[Block]
    message_id: int = 0


class ToolCalled(EventBase, frozen=True, kw_only=True, tag="tool_call"):
    """A call is accepted. It is sent before the tool runs.

    id: of the call.
    name: of the tool.
    args: as the model gave them.

    Example: {"type":"tool_call","id":"toolu_1","name":"bash","args":{"command":"echo hi"}}
    """

    id: str
    name: str
    args: dict[str, Any]


class TurnEnd(EventBase, frozen=True, kw_only=True, tag="turn_end"):
    """One model call is over.

    stop: why: `end_turn`, `tool_use`, `length`, `error` or `aborted`.
    error: what went wrong, with `stop` `error`.

    Example: {"type":"turn_end","stop":"end_turn"}
    """

    stop: StopReason
    error: str | None = None


class ToolProgress(EventBase, frozen=True, kw_only=True, tag="tool_progress"):
    """Output of a tool that still runs.

    id: of the call.
    text: to append.

    Example: {"type":"tool_progress","id":"toolu_1","text":"hi\\n"}
    """

    id: str
    text: str


class ToolResulted(EventBase, frozen=True, kw_only=True, tag="tool_result"):
    """A call is answered, by its tool or by whoever refused it.

    id: of the call.
    is_error: whether it failed.
    content: text and images, as the model gets them.
    details: for front ends: `tool`, and where they apply `extension`, `diff`, `modified_by` (a list of
        extensions), `refused_by` (an extension) and `denied_by` (as in `approval_resolved`, `rules`
        or `too long`).
    message_id: of the row that it will be in together with the other results of its batch.

    Example: {"type":"tool_result","id":"toolu_1","is_error":false,"content":[{"type":"text","text":"hi"}],"details":{"tool":"bash"}}
    """  # noqa: E501

    id: str
    is_error: bool
    content: list[Text | Image]
    details: dict[str, Any]
    message_id: int = 0


class ErrorEvent(EventBase, frozen=True, kw_only=True, tag="error"):
    """A turn or a compaction failed. It is sent once, directly before `done`.

    message: for a person.
    kind: a stable word for programs, such as `provider_auth`.

    Example: {"type":"error","message":"overloaded (529)","kind":"provider_error"}
    """

    message: str
    kind: str


class Retry(EventBase, frozen=True, kw_only=True, tag="retry"):
    """A model call failed and will be tried again.

    attempt: the number of the coming attempt, from 2.
    delay_ms: milliseconds until then.
    message: what went wrong.

    Example: {"type":"retry","attempt":2,"delay_ms":1000,"message":"overloaded (529)"}
    """

    attempt: int
    delay_ms: int
    message: str


class CompactStart(EventBase, frozen=True, kw_only=True, tag="compact_start"):
    """The older part of the conversation is about to be summarised, by the model, which takes seconds.

    `compact_done` follows, unless it fails or is aborted: then nothing has changed. It is over, at the
    latest, with the next `turn_start`, `error`, `turn_end` or `done`.

    Example: {"type":"compact_start"}
    """


class CompactDone(EventBase, frozen=True, kw_only=True, tag="compact_done"):
    """A summary stands in place of the older part of the conversation. A saved file keeps both.

    summary: its text; the first row of the conversation is a `user` message that holds it.
    message_count: rows of the conversation from now on: the summary and what was kept.
    last_message_id: of the last of them. They are new rows, so that ids go on growing.

    Example: {"type":"compact_done","summary":"The user wants the parser fixed.","message_count":9,"last_message_id":49}
    """  # noqa: E501

    summary: str
    message_count: int = 0
    last_message_id: int = 0


class QueueChanged(EventBase, frozen=True, kw_only=True, tag="queue"):
    """What waits to be run changed.

    turns: all that wait, in order.

    Example: {"type":"queue","turns":[{"turn_id":"turn_2","text":"and now the tests","client":"nvim"}]}
    """

    turns: list[QueuedTurn]


class CommandResult(EventBase, frozen=True, kw_only=True, tag="command_result"):
    """A command answered.

    turn_id: of the command; a turn it starts has the same.
    extension: whose command; `zotd` for one of its own, such as `clear`.
    name: of the command, without the slash.
    action: `prompt`, `insert`, `display`, `open_panel` or `noop`.
    error: set when it failed.

    Example: {"type":"command_result","turn_id":"turn_1","extension":"clock","name":"time","action":"display"}
    """

    turn_id: str | None = None
    extension: str
    name: str
    action: str
    error: str | None = None


class ApprovalRequested(EventBase, frozen=True, kw_only=True, tag="approval_requested"):
    """A call waits until somebody allows it.

    approval_id: correlates it with `approval_resolved`.
    tool_call: the call, with the arguments that would run.
    preview: what it would do.

    Example: {"type":"approval_requested","approval_id":"approval_1","tool_call":{"id":"toolu_1","name":"bash","args":{"command":"make"}},"preview":{"kind":"command","command":"make"}}
    """  # noqa: E501

    approval_id: str
    tool_call: ToolCallInfo
    preview: Preview


class ApprovalResolved(EventBase, frozen=True, kw_only=True, tag="approval_resolved"):
    """The wait is over.

    approval_id: as in `approval_requested`.
    decision: `allow` or `deny`.
    by: who decided: a client's name, or why nobody did: `no client`, `timeout`, `aborted`.

    Example: {"type":"approval_resolved","approval_id":"approval_1","decision":"allow","by":"nvim"}
    """

    approval_id: str
    decision: Literal["allow", "deny"]
    by: str


class SessionChanged(EventBase, frozen=True, kw_only=True, tag="session_changed"):
    """Something about the session that no other event tells: its title, model, approval policy, trust.

    session: as it is now.

    Example: {"type":"session_changed","session":{"session_id":"8f37d5f6","epoch":"e1","next_seq":1,"cwd":"/home/user/project","trusted":false,"provider":"scripted","model":"scripted","reasoning":"","approval":"auto","ephemeral":true,"created":"2026-11-30T03:43:15.576Z","updated":"2026-11-30T03:43:15.576Z","message_count":0,"last_message_id":0,"busy":false,"queue":[],"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"cost_usd":0.0},"context":{"used":0,"window":0},"notes":[],"panels":[],"pending_approvals":[],"extensions":[]}}
    """  # noqa: E501

    session: SessionInfo


class Resync(EventBase, frozen=True, kw_only=True, tag="resync"):
    """Events were skipped for this client; this picture stands in for them.

    Its `seq` is that of the last event in the picture: the next event has the number after it.

    session: as it is now.

    Example: {"type":"resync","session":{"session_id":"8f37d5f6","epoch":"e1","next_seq":1,"cwd":"/home/user/project","trusted":false,"provider":"scripted","model":"scripted","reasoning":"","approval":"auto","ephemeral":true,"created":"2026-11-30T03:43:15.576Z","updated":"2026-11-30T03:43:15.576Z","message_count":0,"last_message_id":0,"busy":false,"queue":[],"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"cost_usd":0.0},"context":{"used":0,"window":0},"notes":[],"panels":[],"pending_approvals":[],"extensions":[]}}
    """  # noqa: E501

    session: SessionInfo


class SessionClosed(EventBase, frozen=True, kw_only=True, tag="session_closed"):
    """Somebody ended the session. It is the last event of its epoch: whoever saw the session is detached.

    reason: `closed`, or `deleted` when its file is removed too.

    Example: {"type":"session_closed","reason":"closed"}
    """

    reason: Literal["closed", "deleted"]


class Done(EventBase, frozen=True, kw_only=True, tag="done"):
    """A turn is over for good. Each accepted turn has exactly one.

    turn_id: which turn.
    stop: why it ended.

    Example: {"type":"done","turn_id":"turn_1","stop":"end_turn"}
    """

    turn_id: str
    stop: StopReason
