"""Owns the JSON-RPC methods about tools, commands, extensions and their panels. `methods` lists them all."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from zotd.protocol.params import SessionRef
from zotd.protocol.session import ExtensionInfo

PanelKeyName: TypeAlias = Literal[
    "up",
    "down",
    "left",
    "right",
    "enter",
    "esc",
    "tab",
    "pageup",
    "pagedown",
    "home",
    "end",
    "backspace",
    "delete",
    "rune",
    "ctrl+c",
]
Cells: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]


class ToolList(SessionRef, frozen=True, kw_only=True):
    """Asks which tools a session has.

    session_id: which session.

    Example: {"session_id":"8f37d5f6"}
    """


class ToolRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool the model can have.

    name: as the model calls it.
    description: what the model is told.
    schema: JSON Schema of its arguments.
    source: `builtin` or `extension`.
    extension: whose, of an extension.
    deferred: whether it was registered to be told to the model later.
    active: whether the model is told about it.

    Example: {"name":"weather","description":"Weather of a city.","schema":{"type":"object"},"source":"extension","extension":"weather","deferred":false,"active":true}
    """  # noqa: E501

    name: str
    description: str
    schema: dict[str, Any]
    source: Literal["builtin", "extension"]
    extension: str | None = None
    deferred: bool
    active: bool


class Tools(Struct, frozen=True, kw_only=True):
    """Answers `tool/list`.

    tools: built-in ones first.

    Example: {"tools":[]}
    """

    tools: list[ToolRow]


class CommandList(SessionRef, frozen=True, kw_only=True):
    """Asks which slash commands can be run.

    session_id: in which session.

    Example: {"session_id":"8f37d5f6"}
    """


class CommandRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slash command.

    name: in the spelling it was registered with, without the slash.
    description: one line.
    source: `builtin` or `extension`.
    extension: whose, of an extension.

    Example: {"name":"weather","description":"current weather for a city","source":"extension","extension":"weather"}
    """  # noqa: E501

    name: str
    description: str
    source: Literal["builtin", "extension"]
    extension: str | None = None


class CommandRows(Struct, frozen=True, kw_only=True):
    """Answers `command/list`.

    commands: built-in ones first, then in the order they were registered.

    Example: {"commands":[{"name":"clear","description":"start over","source":"builtin"}]}
    """

    commands: list[CommandRow]


class CommandRun(SessionRef, frozen=True, kw_only=True):
    """Runs a slash command at once, also during a turn. Answered when the command has answered.

    session_id: in which session.
    name: of the command, in any case; a leading slash is tolerated.
    args: what would follow the name.

    Example: {"session_id":"8f37d5f6","name":"weather","args":"berlin"}
    """

    name: str
    args: str = ""


class CommandRan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a command; what it shows came as an event before.

    action: `prompt`, `insert`, `display`, `open_panel` or `noop`.
    turn_id: of its `command_result` and `done`; for `prompt` also of the turn that follows.
    error: set when it failed.

    Example: {"action":"prompt","turn_id":"b2c7"}
    """

    action: str
    turn_id: str | None = None
    error: str | None = None


class ExtensionList(SessionRef, frozen=True, kw_only=True):
    """Asks for every extension that was found, whatever became of it.

    session_id: for which session.

    Example: {"session_id":"8f37d5f6"}
    """


class Extensions(Struct, frozen=True, kw_only=True):
    """Answers `extension/list`.

    extensions: in load order; those that have no process after those that have.

    Example: {"extensions":[]}
    """

    extensions: list[ExtensionInfo]


class ExtensionReload(SessionRef, frozen=True, kw_only=True):
    """Stops all extensions of a session, reads their manifests again and starts them.

    Tool calls that run are given 5 s to finish. Answered when all is loaded, behind the events of it.

    session_id: which session.

    Example: {"session_id":"8f37d5f6"}
    """


class LoadProblem(Struct, frozen=True, kw_only=True):
    """Why an extension could not be loaded.

    path: its directory.
    message: in full.

    Example: {"path":"/x/broken","message":"extension.json: expected an object"}
    """

    path: str
    message: str


class Reloaded(Struct, frozen=True, kw_only=True):
    """Answers `extension/reload`.

    stopped: names of those that ran before.
    loaded: names of those that were started.
    ready: names of those among them that are ready by now.
    errors: every failure.

    Example: {"stopped":["weather"],"loaded":["weather"],"ready":["weather"],"errors":[]}
    """

    stopped: list[str]
    loaded: list[str]
    ready: list[str]
    errors: list[LoadProblem]


class ExtensionLog(SessionRef, frozen=True, kw_only=True):
    """Asks for the end of an extension's log.

    session_id: of which session.
    name: of the extension.
    lines: at most; 200 when absent.

    Example: {"session_id":"8f37d5f6","name":"weather","lines":50}
    """

    name: str
    lines: Annotated[int, Meta(ge=0)] = 200


class LogTail(Struct, frozen=True, kw_only=True):
    """Answers `extension/log`.

    text: the last lines, at most 1 MiB; empty when there is no log yet.
    path: absolute path of the log.

    Example: {"text":"[zotd] starting weather/1.0.0","path":"/l/ext-weather.log"}
    """

    text: str
    path: str


class PanelRef(SessionRef, frozen=True, kw_only=True):
    """The parent of all params that name a panel.

    session_id: in which session.
    extension: whose panel.
    panel_id: the extension's name for it.
    """

    extension: str
    panel_id: str


class PanelKeyParams(PanelRef, frozen=True, kw_only=True):
    """A key was pressed in an open panel. `esc` and `ctrl+c` close it; the extension never gets them as keys.

    session_id: in which session.
    extension: whose panel.
    panel_id: the extension's name for it.
    key: what was pressed; `rune` for a character.
    text: for `rune`: the characters; the extension gets them one by one.

    Example: {"session_id":"8f37d5f6","extension":"todos","panel_id":"main","key":"rune","text":"x"}
    """

    key: PanelKeyName
    text: str = ""


class PanelResizeParams(PanelRef, frozen=True, kw_only=True):
    """The space for an open panel changed. Only extensions with the capability `panel_resize` are told.

    session_id: in which session.
    extension: whose panel.
    panel_id: the extension's name for it.
    width: in cells.
    height: in cells.

    Example: {"session_id":"8f37d5f6","extension":"todos","panel_id":"main","width":80,"height":24}
    """

    width: Cells
    height: Cells


class PanelCloseParams(PanelRef, frozen=True, kw_only=True):
    """The user closed an open panel: it vanishes from every client, and the extension is told.

    session_id: in which session.
    extension: whose panel.
    panel_id: the extension's name for it.

    Example: {"session_id":"8f37d5f6","extension":"todos","panel_id":"main"}
    """
