"""Owns the list of every event a session publishes. Who makes one leaves the envelope to the session."""

from __future__ import annotations

from typing import TypeAlias, get_args

from zotd.protocol.envelope import Envelope, EventBase
from zotd.protocol.extension_events import (
    ExtClearNotes,
    ExtDisplay,
    ExtInsert,
    ExtNotify,
    ExtPanelClose,
    ExtPanelOpen,
    ExtPanelRender,
    ExtRegistered,
    ExtState,
)
from zotd.protocol.turn_events import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    AssistantStart,
    CommandResult,
    CompactDone,
    CompactStart,
    Done,
    ErrorEvent,
    QueueChanged,
    Resync,
    Retry,
    SessionChanged,
    SessionClosed,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolProgress,
    ToolResulted,
    ToolUseArgs,
    ToolUseEnd,
    ToolUseStart,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)

Event: TypeAlias = (
    UserMessage
    | TurnStart
    | AssistantStart
    | ThinkingDelta
    | TextDelta
    | ToolUseStart
    | ToolUseArgs
    | ToolUseEnd
    | UsageReport
    | AssistantMessage
    | ToolCalled
    | TurnEnd
    | ToolProgress
    | ToolResulted
    | ErrorEvent
    | Retry
    | CompactStart
    | CompactDone
    | QueueChanged
    | CommandResult
    | ApprovalRequested
    | ApprovalResolved
    | SessionChanged
    | SessionClosed
    | Resync
    | Done
    | ExtNotify
    | ExtDisplay
    | ExtClearNotes
    | ExtInsert
    | ExtPanelOpen
    | ExtPanelRender
    | ExtPanelClose
    | ExtState
    | ExtRegistered
)

EVENTS: dict[str, type[EventBase]] = {struct.__struct_config__.tag: struct for struct in get_args(Event)}
"""Every event by its `type`."""

__all__ = [
    "EVENTS",
    "ApprovalRequested",
    "ApprovalResolved",
    "AssistantMessage",
    "AssistantStart",
    "CommandResult",
    "CompactDone",
    "CompactStart",
    "Done",
    "Envelope",
    "ErrorEvent",
    "Event",
    "EventBase",
    "ExtClearNotes",
    "ExtDisplay",
    "ExtInsert",
    "ExtNotify",
    "ExtPanelClose",
    "ExtPanelOpen",
    "ExtPanelRender",
    "ExtRegistered",
    "ExtState",
    "QueueChanged",
    "Resync",
    "Retry",
    "SessionChanged",
    "SessionClosed",
    "TextDelta",
    "ThinkingDelta",
    "ToolCalled",
    "ToolProgress",
    "ToolResulted",
    "ToolUseArgs",
    "ToolUseEnd",
    "ToolUseStart",
    "TurnEnd",
    "TurnStart",
    "UsageReport",
    "UserMessage",
]
