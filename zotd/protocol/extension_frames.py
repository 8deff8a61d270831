"""Owns every frame an extension sends. Import them from `frames`, which has both directions.

The structs are as lenient as extension authors are: only what a frame cannot do without is required, and a
member that is `null` counts as absent, which the codec sees to before it converts.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from zotd.protocol.frame_parts import FrameBase, PanelSpec


class Hello(FrameBase, frozen=True, kw_only=True, tag="hello"):
    """Who is there: the first frame an extension sends.

    name: as in the manifest, not empty.
    version: shown to people.
    capabilities: for information, except `tool_cancel` and `panel_resize`, which ask for those frames.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"hello","name":"weather","version":"1.0.0","capabilities":["commands","tools","panels"]}
    """

    name: Annotated[str, Meta(min_length=1)]
    version: str = ""
    capabilities: list[str] = field(default_factory=list)


class RegisterCommand(FrameBase, frozen=True, kw_only=True, tag="register_command"):
    """Offers a slash command.

    name: matched without regard to case; a leading slash is tolerated.
    description: one line for lists.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"register_command","name":"weather","description":"current weather for a city"}
    """

    name: Annotated[str, Meta(min_length=1)]
    description: str = ""


class RegisterTool(FrameBase, frozen=True, kw_only=True, tag="register_tool"):
    """Offers a tool to the model.

    name: matches `[A-Za-z0-9_-]{1,64}`, which is what providers accept.
    description: what the model is told.
    schema: JSON Schema of the arguments; a missing `type` means `object`.
    deferred: not told to the model before a `tool_result` names it in `activate_tools`.
    interactive: waits for a person: no time limit, refused where no panel can be shown.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"register_tool","name":"weather","description":"Get the current weather for a city.","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}
    """  # noqa: E501

    name: Annotated[str, Meta(min_length=1)]
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    deferred: bool = False
    interactive: bool = False


class Ready(FrameBase, frozen=True, kw_only=True, tag="ready"):
    """All registrations of the start are sent.

    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"ready"}
    """


class ToolResultFrame(FrameBase, frozen=True, kw_only=True, tag="tool_result"):
    """Answers a `tool_call`.

    id: of the `tool_call` frame.
    content: blocks, `{type: text, text}` or `{type: image, mime_type, data}` with base64.
    is_error: whether the call failed.
    activate_tools: deferred tools that the model is told about from now on.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"tool_result","id":"7","content":[{"type":"text","text":"Berlin: 16°C, fog"}]}
    """

    id: str
    content: list[dict[str, Any]] = field(default_factory=list)
    is_error: bool = False
    activate_tools: list[str] = field(default_factory=list)


class Subscribe(FrameBase, frozen=True, kw_only=True, tag="subscribe"):
    """Asks for events; several of these add up.

    events: to observe: `session_start`, `turn_start`, `turn_end`, `tool_call`, `assistant_message`.
    intercept: to decide on: `tool_call`, `turn_start`, `assistant_message`.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"subscribe","events":["session_start","turn_start"],"intercept":["tool_call"]}
    """

    events: list[str] = field(default_factory=list)
    intercept: list[str] = field(default_factory=list)


class InterceptResponse(FrameBase, frozen=True, kw_only=True, tag="event_intercept_response"):
    """Answers an `event_intercept`; with nothing set it lets the event pass.

    id: of the `event_intercept` frame.
    block: refuse the action.
    reason: why: told to the model for `tool_call`, else to the user.
    modified_args: for `tool_call`: the arguments to use instead; anything but an object changes nothing.
    replace_text: for `assistant_message`: the text to show instead; empty changes nothing.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"event_intercept_response","id":"9","block":true,"reason":"refused: matches danger pattern"}
    """  # noqa: E501

    id: str
    block: bool = False
    reason: str = ""
    modified_args: Any = None
    replace_text: str = ""


class CommandResponse(FrameBase, frozen=True, kw_only=True, tag="command_response"):
    """Answers a `command_invoked`.

    id: of the `command_invoked` frame.
    action: `prompt`, `insert`, `display`, `open_panel` or `noop`. Another one is an error of the command, and
        so is one without the member of its name.
    prompt: for `prompt`: the user message to run.
    insert: for `insert`: text for the cursor.
    display: for `display`: text to show once.
    open_panel: for `open_panel`: the panel.
    error: shown as an error, whatever the action.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"command_response","id":"3","action":"prompt","prompt":"Show today's weather for Berlin."}
    """  # noqa: E501

    id: str
    action: str = "noop"
    prompt: str | None = None
    insert: str | None = None
    display: str | None = None
    open_panel: PanelSpec | None = None
    error: str = ""


class Submit(FrameBase, frozen=True, kw_only=True, tag="submit"):
    """Submits a user prompt, where an attached client allows it.

    text: the prompt; only white space is ignored.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"submit","text":"Summarize the selected workspace."}
    """

    text: str


class SubmitSlash(FrameBase, frozen=True, kw_only=True, tag="submit_slash"):
    """Runs a slash command as if it were typed.

    text: begins with the slash.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"submit_slash","text":"/weather berlin"}
    """

    text: str


class OpenPanel(FrameBase, frozen=True, kw_only=True, tag="open_panel"):
    """Opens a panel at any time; one it had open before is closed.

    panel: what to open.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"open_panel","panel":{"id":"todos-main","title":"Todos","lines":["□ ship"],"footer":"esc close"}}
    """  # noqa: E501

    panel: PanelSpec


class PanelRender(FrameBase, frozen=True, kw_only=True, tag="panel_render"):
    """Draws the open panel anew.

    panel_id: the panel's id.
    title: its heading; empty keeps the old one.
    lines: its rows, in place of the old ones.
    footer: its last row, in place of the old one.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"panel_render","panel_id":"todos-main","title":"Todos","lines":["✓ ship"],"footer":"esc close"}
    """  # noqa: E501

    panel_id: str
    title: str = ""
    lines: list[str] = field(default_factory=list)
    footer: str = ""


class Notify(FrameBase, frozen=True, kw_only=True, tag="notify"):
    """Shows a notice until the next prompt.

    message: what it says.
    level: `info`, `success`, `warn` or `error`; another one counts as `info`.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"notify","level":"info","message":"refreshed cache (12 entries)"}
    """

    message: str
    level: str = "info"


class ClearNotes(FrameBase, frozen=True, kw_only=True, tag="clear_notes"):
    """Removes every notice and displayed text of this extension.

    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"clear_notes"}
    """


class ShutdownAck(FrameBase, frozen=True, kw_only=True, tag="shutdown_ack"):
    """Answers `shutdown`; the exit follows.

    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"shutdown_ack"}
    """
