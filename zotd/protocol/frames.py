"""Owns the list of every frame between the host and an extension, in both directions."""

from __future__ import annotations

from typing import TypeAlias, get_args

from zotd.protocol.extension_frames import (
    ClearNotes,
    CommandResponse,
    Hello,
    InterceptResponse,
    Notify,
    OpenPanel,
    PanelRender,
    Ready,
    RegisterCommand,
    RegisterTool,
    ShutdownAck,
    Submit,
    SubmitSlash,
    Subscribe,
    ToolResultFrame,
)
from zotd.protocol.frame_parts import FrameBase, HostInfo, PanelClose, PanelSpec
from zotd.protocol.host_frames import (
    CommandInvoked,
    EventFrame,
    EventIntercept,
    HelloAck,
    PanelKey,
    PanelResize,
    Shutdown,
    ToolCallFrame,
    ToolCancel,
)

FromExtension: TypeAlias = (
    Hello
    | RegisterCommand
    | RegisterTool
    | Ready
    | ToolResultFrame
    | Subscribe
    | InterceptResponse
    | CommandResponse
    | Submit
    | SubmitSlash
    | OpenPanel
    | PanelRender
    | PanelClose
    | Notify
    | ClearNotes
    | ShutdownAck
)
FromHost: TypeAlias = (
    HelloAck
    | CommandInvoked
    | ToolCallFrame
    | ToolCancel
    | EventFrame
    | EventIntercept
    | PanelKey
    | PanelResize
    | PanelClose
    | Shutdown
)

FROM_EXTENSION: dict[str, type[FrameBase]] = {f.__struct_config__.tag: f for f in get_args(FromExtension)}
"""Every frame an extension sends, by its `type`."""

FROM_HOST: dict[str, type[FrameBase]] = {f.__struct_config__.tag: f for f in get_args(FromHost)}
"""Every frame the host sends, by its `type`."""

__all__ = [
    "FROM_EXTENSION",
    "FROM_HOST",
    "ClearNotes",
    "CommandInvoked",
    "CommandResponse",
    "EventFrame",
    "EventIntercept",
    "FrameBase",
    "FromExtension",
    "FromHost",
    "Hello",
    "HelloAck",
    "HostInfo",
    "InterceptResponse",
    "Notify",
    "OpenPanel",
    "PanelClose",
    "PanelKey",
    "PanelRender",
    "PanelResize",
    "PanelSpec",
    "Ready",
    "RegisterCommand",
    "RegisterTool",
    "Shutdown",
    "ShutdownAck",
    "Submit",
    "SubmitSlash",
    "Subscribe",
    "ToolCallFrame",
    "ToolCancel",
    "ToolResultFrame",
]
