"""Owns every frame the host sends to an extension. Import them from `frames`, which has both directions."""

from __future__ import annotations

from typing import Any

from zotd.protocol.frame_parts import FrameBase, HostInfo


class HelloAck(FrameBase, frozen=True, kw_only=True, tag="hello_ack"):
    """Answers `hello`: the first frame an extension gets.

    protocol_version: 1.
    zot_version: the zot release whose protocol the host speaks.
    provider: id of the active model's provider.
    model: id of the active model.
    cwd: absolute path of the project, which is not where the extension runs.
    extension_dir: absolute path of the extension's directory, where it runs.
    data_dir: absolute path where it may keep files.
    host: the program behind the host end.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"hello_ack","protocol_version":1,"zot_version":"0.0.7","provider":"anthropic","model":"claude-opus-4-7","cwd":"/home/user/project","extension_dir":"/x/todos","data_dir":"/x/todos","host":{"name":"zotd","version":"0.1.0"},"session_id":"8f37d5f6"}
    """  # noqa: E501

    protocol_version: int
    zot_version: str
    provider: str
    model: str
    cwd: str
    extension_dir: str
    data_dir: str
    host: HostInfo | None = None


class CommandInvoked(FrameBase, frozen=True, kw_only=True, tag="command_invoked"):
    """Somebody ran a command of the extension. Answered by `command_response`.

    id: to answer with.
    name: in the spelling it was registered with.
    args: what was typed after the name, trimmed.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"command_invoked","id":"3","name":"weather","args":"berlin"}
    """

    id: str
    name: str
    args: str


class ToolCallFrame(FrameBase, frozen=True, kw_only=True, tag="tool_call"):
    """The model called a tool of the extension. Answered by `tool_result`.

    id: to answer with.
    name: of the tool.
    args: as the model gave them; the extension checks them.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"tool_call","id":"7","name":"weather","args":{"city":"Berlin"}}
    """

    id: str
    name: str
    args: dict[str, Any]


class ToolCancel(FrameBase, frozen=True, kw_only=True, tag="tool_cancel"):
    """Nobody waits for that call any more. Sent to extensions with the capability `tool_cancel`.

    id: of the `tool_call` frame.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"tool_cancel","id":"7"}
    """

    id: str


class EventFrame(FrameBase, frozen=True, kw_only=True, tag="event"):
    """Something happened that the extension observes. Not answered.

    event: `session_start`, `turn_start`, `turn_end`, `tool_call` or `assistant_message`.
    step: for `turn_start`: which model call of the prompt, from 1.
    tool_id: for `tool_call`: id of the call.
    tool_name: for `tool_call`: name of the tool.
    tool_args: for `tool_call`: the arguments as the model gave them.
    stop: for `turn_end`: `end_turn`, `tool_use`, `length`, `error` or `aborted`.
    error: for `turn_end`: what went wrong.
    text: for `assistant_message`: as shown.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"event","event":"turn_end","stop":"end_turn"}
    """

    event: str
    step: int | None = None
    tool_id: str | None = None
    tool_name: str | None = None
    tool_args: dict[str, Any] | None = None
    stop: str | None = None
    error: str | None = None
    text: str | None = None


class EventIntercept(FrameBase, frozen=True, kw_only=True, tag="event_intercept"):
    """Asks for leave. Answered by `event_intercept_response` within 5 s, else it passes.

    id: to answer with.
    event: `tool_call`, `turn_start` or `assistant_message`.
    step: for `turn_start`: which model call of the prompt, from 1.
    tool_id: for `tool_call`: id of the call.
    tool_name: for `tool_call`: name of the tool.
    tool_args: for `tool_call`: the arguments as they stand, earlier rewrites included.
    text: for `assistant_message`: as it stands, earlier rewrites included.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"event_intercept","id":"9","event":"turn_start","step":3}
    """

    id: str
    event: str
    step: int | None = None
    tool_id: str | None = None
    tool_name: str | None = None
    tool_args: dict[str, Any] | None = None
    text: str | None = None


class PanelKey(FrameBase, frozen=True, kw_only=True, tag="panel_key"):
    """A key was pressed in the extension's panel.

    panel_id: the panel's id.
    key: `up down left right enter esc tab pageup pagedown home end backspace delete rune`.
    text: for `rune`: the character.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"panel_key","panel_id":"todos-main","key":"rune","text":"x"}
    """

    panel_id: str
    key: str
    text: str = ""


class PanelResize(FrameBase, frozen=True, kw_only=True, tag="panel_resize"):
    """The panel has another size. Sent to extensions with the capability `panel_resize`.

    panel_id: the panel's id.
    width: in cells.
    height: in cells.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"panel_resize","panel_id":"todos-main","width":80,"height":24}
    """

    panel_id: str
    width: int
    height: int


class Shutdown(FrameBase, frozen=True, kw_only=True, tag="shutdown"):
    """The extension is to end within 2 s. Answered by `shutdown_ack`, then the exit.

    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"shutdown"}
    """
