"""Owns the list of what is published: which structs and unions, in which order."""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

import msgspec

from zotd.protocol.content import Block, ContextUse, Message, ToolCallInfo, Usage
from zotd.protocol.daemon_methods import ClientStatus, ExtensionProcess, MemoryUse, SessionStatus
from zotd.protocol.envelope import Envelope
from zotd.protocol.events import Event
from zotd.protocol.extension_methods import CommandRow, LoadProblem, ToolRow
from zotd.protocol.frames import FromExtension, FromHost, HostInfo, PanelSpec
from zotd.protocol.manifest import Manifest
from zotd.protocol.methods import METHOD_TYPES, SERVER_METHOD_TYPES, Capabilities, ClientInfo
from zotd.protocol.project_methods import BadFileInfo, ModelInfo, ProviderInfo, SkillInfo, ThemeInfo
from zotd.protocol.replies import Response, RunResult
from zotd.protocol.session import (
    ExtensionInfo,
    Note,
    Panel,
    PendingApproval,
    Preview,
    QueuedTurn,
    SessionInfo,
    ShadowedName,
)
from zotd.protocol.session_methods import MessageRow, SessionRow
from zotd.protocol.theme import AnsiColor, Colors, Palette, RgbColor, Syntax, Theme, XtermColor
from zotd.protocol.turn_methods import ContextItem, Position, PromptImage, TurnError

StructType: TypeAlias = type[msgspec.Struct]


def members(union: Any) -> tuple[StructType, ...]:
    """The structs of a union, in its order."""
    return get_args(union)


BLOCKS = members(Block)
EVENTS = members(Event)
FRAMES_FROM_EXTENSION = members(FromExtension)
FRAMES_FROM_HOST = members(FromHost)
REPLIES: tuple[StructType, ...] = (Response, RunResult)
EVENT_SHAPES: tuple[StructType, ...] = (
    Message,
    *BLOCKS,
    ToolCallInfo,
    Usage,
    ContextUse,
    SessionInfo,
    QueuedTurn,
    Note,
    Panel,
    Preview,
    PendingApproval,
    ExtensionInfo,
    ShadowedName,
)
FRAME_SHAPES: tuple[StructType, ...] = (PanelSpec, HostInfo)
THEME_SHAPES: tuple[StructType, ...] = (Theme, Colors, Palette, Syntax, XtermColor, AnsiColor, RgbColor)
METHOD_SHAPES: tuple[StructType, ...] = (
    ClientInfo,
    Capabilities,
    SessionRow,
    MessageRow,
    ContextItem,
    Position,
    PromptImage,
    TurnError,
    ToolRow,
    CommandRow,
    LoadProblem,
    SkillInfo,
    ThemeInfo,
    BadFileInfo,
    ModelInfo,
    ProviderInfo,
    SessionStatus,
    ExtensionProcess,
    ClientStatus,
    MemoryUse,
    *THEME_SHAPES,
)
METHODS: tuple[StructType, ...] = tuple(
    dict.fromkeys(
        struct
        for methods in (METHOD_TYPES, SERVER_METHOD_TYPES)
        for both in methods.values()
        for struct in both
        if struct is not None
    )
)
"""Params and results of every method, the daemon's own too, each once."""

UNIONS: dict[str, tuple[StructType, ...]] = {
    "Block": BLOCKS,
    "Event": EVENTS,
    "FromExtension": FRAMES_FROM_EXTENSION,
    "FromHost": FRAMES_FROM_HOST,
}
"""Every union by name; the JSON Schema has a definition for each."""

STRUCTS: tuple[StructType, ...] = tuple(
    dict.fromkeys(
        (
            *EVENT_SHAPES,
            Envelope,
            *EVENTS,
            *REPLIES,
            *FRAME_SHAPES,
            *FRAMES_FROM_EXTENSION,
            *FRAMES_FROM_HOST,
            Manifest,
            *METHODS,
            *METHOD_SHAPES,
        )
    )
)
"""Every struct, once."""
