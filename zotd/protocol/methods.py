"""Owns the JSON-RPC methods: their params and results. Imported only by who speaks JSON-RPC."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from zotd.protocol import approval_methods as a
from zotd.protocol import daemon_methods as d
from zotd.protocol import extension_methods as x
from zotd.protocol import project_methods as p
from zotd.protocol import session_methods as s
from zotd.protocol import turn_methods as t
from zotd.protocol.params import Params, SessionRef
from zotd.protocol.version import PROTOCOL_VERSION as PROTOCOL_VERSION


class Ping(Params, frozen=True, kw_only=True):
    """Asks whether the daemon is there. Answered before `initialize` too.

    Example: {}
    """


class ClientInfo(Struct, frozen=True, kw_only=True):
    """A program at one end of a connection.

    name: as people know it.
    version: its own.

    Example: {"name":"nvim","version":"0.11"}
    """

    name: str = "client"
    version: str = ""


class Capabilities(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client can show or do for extensions and tools. Names that are not known are ignored.

    approvals: asks the user whether a tool call may run.
    panels: shows the panels of extensions and sends their keys.
    insert: has a prompt with a cursor.
    submit: lets extensions submit prompts and run commands that are not their own.
    dirty_files: tells which files have unsaved changes.

    Example: {"panels":true,"insert":true,"submit":true}
    """

    approvals: bool = False
    panels: bool = False
    insert: bool = False
    submit: bool = False
    dirty_files: bool = False


class Initialize(Params, frozen=True, kw_only=True):
    """First call of a connection. Until it succeeded, only `ping` and `rpc.discover` are answered besides.

    Where the daemon wants a token, these wait for it too. A later call says anew who the client is and what
    it can do, from then on and for the sessions that it sees.

    protocol_version: the version the client speaks.
    client: who it is.
    capabilities: what it can show or do.
    token: needed when the daemon was started with one.
    cwd: absolute path that `session/new` works in when it names none.

    Example: {"protocol_version":1,"client":{"name":"nvim","version":"0.11"},"capabilities":{"panels":true},"cwd":"/home/user/project"}
    """  # noqa: E501

    protocol_version: int
    client: ClientInfo = field(default_factory=ClientInfo)
    capabilities: Capabilities = field(default_factory=Capabilities)
    token: str = ""
    cwd: str | None = None


class Initialized(Struct, frozen=True, kw_only=True):
    """Answers `initialize`.

    protocol_version: the version the daemon speaks.
    server: who it is.
    capabilities: the methods that exist, by name.

    Example: {"protocol_version":1,"server":{"name":"zotd","version":"0.1.0"},"capabilities":{"methods":["ping"]}}
    """  # noqa: E501

    protocol_version: int
    server: ClientInfo
    capabilities: dict[str, Any]


class NotesClear(SessionRef, frozen=True, kw_only=True):
    """Takes away every note, failures of extensions too: what a front end does on `esc`.

    session_id: whose.

    Example: {"session_id":"8f37d5f6"}
    """


class Discover(Params, frozen=True, kw_only=True):
    """Asks for the OpenRPC document of this daemon. Answered before `initialize` too.

    Example: {}
    """


class OpenRpcDocument(Struct, frozen=True, kw_only=True):
    """Answers `rpc.discover`: an OpenRPC document.

    openrpc: the version of OpenRPC.
    info: title and version of the protocol.
    methods: all that clients call: params, result, errors and an example of each.
    x-zotd-server-methods: all that the daemon sends by itself, described in the same way.
    components: the schemas of shapes, and the errors, that they refer to.

    Example: {"openrpc":"1.3.2","info":{"title":"zotd","version":"1"},"methods":[],"x-zotd-server-methods":[],"components":{"schemas":{},"errors":{}}}
    """  # noqa: E501

    openrpc: str
    info: dict[str, Any]
    methods: list[dict[str, Any]]
    server_methods: list[dict[str, Any]] = field(name="x-zotd-server-methods")
    components: dict[str, Any]


class CancelRequest(Params, frozen=True, kw_only=True):
    """Gives up waiting for an answer: it comes as error -32800. Sent as a notification, or as a request.

    id: of the request. One that is answered already, or unknown, is none to give up.
    requestId: the same, as the agent client protocol spells it.

    Example: {"id":7}
    """

    id: str | int | float | None = None
    request_id: str | int | float | None = field(name="requestId", default=None)


class ShutdownParams(Params, frozen=True, kw_only=True):
    """Ends this connection once what was accepted is done, as the end of input would. The daemon goes on.

    Example: {}
    """


class ExitParams(Params, frozen=True, kw_only=True):
    """As `shutdown`; sent as a notification after it by clients of the language server protocol.

    Example: {}
    """


METHOD_TYPES: dict[str, tuple[type[Struct], type[Struct] | None]] = {
    "initialize": (Initialize, Initialized),
    "ping": (Ping, None),
    "rpc.discover": (Discover, OpenRpcDocument),
    "$/cancelRequest": (CancelRequest, None),
    "$/cancel_request": (CancelRequest, None),
    "shutdown": (ShutdownParams, None),
    "exit": (ExitParams, None),
    "session/new": (s.SessionNew, s.SessionResult),
    "session/load": (s.SessionLoad, s.SessionResult),
    "session/attach": (s.SessionAttach, s.SessionAttached),
    "session/detach": (s.SessionDetach, None),
    "session/close": (s.SessionClose, None),
    "session/delete": (s.SessionDelete, None),
    "session/rename": (s.SessionRename, s.SessionResult),
    "session/list": (s.SessionList, s.SessionRows),
    "session/fork": (s.SessionFork, s.SessionResult),
    "session/export": (s.SessionExport, s.SessionExported),
    "session/import": (s.SessionImport, s.SessionResult),
    "session/state": (s.SessionState, s.SessionResult),
    "session/messages": (s.SessionMessages, s.Messages),
    "session/clear": (s.SessionClear, None),
    "session/compact": (s.SessionCompact, s.CompactAccepted),
    "session/set": (s.SessionSet, s.SessionResult),
    "turn/start": (t.TurnStartParams, t.TurnAccepted),
    "turn/wait": (t.TurnWait, t.TurnResult),
    "turn/abort": (t.TurnAbort, t.TurnAborted),
    "turn/queue": (t.TurnQueue, t.QueuedTurns),
    "turn/unqueue": (t.TurnUnqueue, t.QueuedTurns),
    "turn/revert": (t.TurnRevert, t.TurnReverted),
    "notes/clear": (NotesClear, None),
    "tool/list": (x.ToolList, x.Tools),
    "command/list": (x.CommandList, x.CommandRows),
    "command/run": (x.CommandRun, x.CommandRan),
    "extension/list": (x.ExtensionList, x.Extensions),
    "extension/reload": (x.ExtensionReload, x.Reloaded),
    "extension/log": (x.ExtensionLog, x.LogTail),
    "panel/key": (x.PanelKeyParams, None),
    "panel/resize": (x.PanelResizeParams, None),
    "panel/close": (x.PanelCloseParams, None),
    "workspace/trust": (p.WorkspaceTrust, None),
    "skill/list": (p.SkillList, p.SkillsFound),
    "theme/list": (p.ThemeList, p.ThemesFound),
    "model/list": (p.ModelList, p.Models),
    "provider/list": (p.ProviderList, p.ProvidersFound),
    "daemon/status": (d.DaemonStatus, d.DaemonState),
    "daemon/stop": (d.DaemonStop, None),
}
"""Every method: its params, and its result, None for the empty object."""

SERVER_METHOD_TYPES: dict[str, tuple[type[Struct], type[Struct]]] = {
    "approval/request": (a.ApprovalRequest, a.ApprovalAnswer),
}
"""What the daemon asks its clients, in the same form."""
