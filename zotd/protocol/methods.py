"""Owns the JSON-RPC methods: their params and results. Imported only by who speaks JSON-RPC."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from zotd.protocol import extension_methods as x
from zotd.protocol import project_methods as p
from zotd.protocol.content import Block, Image, Role, StopReason, Usage
from zotd.protocol.params import Params, SessionRef
from zotd.protocol.session import SessionInfo

ReasoningLevel: TypeAlias = Literal[
    "off", "minimum", "minimal", "low", "medium", "high", "xhigh", "max", "maximum"
]

PROTOCOL_VERSION = 1
"""The major version both sides must share."""


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
    """First call of a connection. Until it succeeded, only `ping` is answered besides.

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


class SessionNew(Params, frozen=True, kw_only=True):
    """Opens a session and attaches the caller to it. What is absent comes from the daemon's own flags.

    cwd: absolute path; the connection's when absent.
    provider: id such as `scripted` or `openai-compatible`.
    model: id of that provider.
    reasoning: a level, `off` for none.
    api_key: for this session only; never stored or shown.
    base_url: of an OpenAI-compatible server.
    env: the environment that extensions, shell commands and providers see, whole; the daemon's own when
        absent. It moves no home: extensions, logs, skills, themes and `SYSTEM.md` are those of the daemon's
        `ZOT_HOME`, which children get too, and of its user.
    system_prompt: instead of the built-in one.
    append_system_prompt: paragraphs after it.
    tools: names of the built-in tools to offer.
    skills: whether there are any, or the names of those to have.
    extensions: absolute paths of extension directories to load ahead of installed ones.
    discover_extensions: whether installed ones are loaded too.
    max_steps: model calls in one turn.

    Example: {"cwd":"/home/user/project","provider":"scripted"}
    """

    cwd: str | None = None
    provider: str | None = None
    model: str | None = None
    reasoning: ReasoningLevel | None = None
    api_key: str | None = None
    base_url: str | None = None
    env: dict[str, str] | None = None
    system_prompt: str | None = None
    append_system_prompt: list[str] | None = None
    tools: list[str] | None = None
    skills: bool | list[str] | None = None
    extensions: list[str] | None = None
    discover_extensions: bool | None = None
    max_steps: int | None = None


class SessionState(SessionRef, frozen=True, kw_only=True):
    """Asks for one session, as it stands.

    session_id: as `session/new` gave it.

    Example: {"session_id":"8f37d5f6"}
    """


class SessionResult(Struct, frozen=True, kw_only=True):
    """One session, as it stands.

    session: its live state.

    Example: {"session":{"session_id":"8f37d5f6","epoch":"e1","next_seq":1,"cwd":"/home/user/project","trusted":true,"provider":"scripted","model":"scripted","reasoning":"","approval":"auto","ephemeral":true,"created":"2026-11-30T03:43:15.576Z","updated":"2026-11-30T03:43:15.576Z","message_count":0,"busy":false,"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"cost_usd":0.0},"context":{"used":0,"window":0}}}
    """  # noqa: E501

    session: SessionInfo


class SessionMessages(SessionRef, frozen=True, kw_only=True):
    """A page of the conversation.

    session_id: whose.
    since: only messages after this message_id; from the start when absent.
    limit: messages at most; all when absent.

    Example: {"session_id":"8f37d5f6","limit":1}
    """

    since: int | None = None
    limit: int | None = None


class MessageRow(Struct, frozen=True, kw_only=True):
    """A message and its place.

    message_id: its ordinal, from 1.
    role: who speaks.
    content: its blocks.
    time: when it was complete, RFC 3339 UTC.

    Example: {"message_id":1,"role":"user","content":[{"type":"text","text":"hello"}],"time":"2026-11-30T03:43:15.576Z"}
    """  # noqa: E501

    message_id: int
    role: Role
    content: list[Block]
    time: str


class Messages(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of messages.

    messages: in order.
    next: pass as `since` for the following page; absent on the last.

    Example: {"messages":[{"message_id":1,"role":"user","content":[{"type":"text","text":"hello"}],"time":"2026-11-30T03:43:15.576Z"}],"next":1}
    """  # noqa: E501

    messages: list[MessageRow]
    next: int | None = None


class TurnStartParams(SessionRef, frozen=True, kw_only=True):
    """Sends a prompt.

    session_id: to whom.
    text: the prompt, not blank unless there are images; a registered `/command` runs instead.
    images: pictures that go with it.
    if_busy: `queue` waits its turn, `reject` fails with kind `busy`; a command runs at once either way.

    Example: {"session_id":"8f37d5f6","text":"fix the test"}
    """

    text: str
    images: list[Image] = field(default_factory=list)
    if_busy: Literal["queue", "reject"] = "queue"


class TurnAccepted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers `turn/start`.

    turn_id: of the turn; its `done` carries it.
    state: `started`, `queued` or `command`.
    position: in the queue, from 1.

    Example: {"turn_id":"b2c7","state":"queued","position":1}
    """

    turn_id: str
    state: Literal["started", "queued", "command"]
    position: int | None = None


class TurnWait(SessionRef, frozen=True, kw_only=True):
    """Waits for a turn's end; of a turn that ended, answers at once.

    session_id: whose turn.
    turn_id: of the last 1,000 turns.

    Example: {"session_id":"8f37d5f6","turn_id":"b2c7"}
    """

    turn_id: str


class TurnError(Struct, frozen=True, kw_only=True):
    """Why a turn failed.

    kind: a stable word.
    message: for a person.

    Example: {"kind":"provider_error","message":"529 overloaded"}
    """

    kind: str
    message: str


class TurnResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a turn ended.

    stop: `end_turn`, `length`, `error` or `aborted`.
    text: the last assistant text.
    usage: of the whole turn.
    error: set when stop is `error`.

    Example: {"stop":"end_turn","text":"Fixed.","usage":{"input":10,"output":7,"cache_read":0,"cache_write":0,"cost_usd":0.0}}
    """  # noqa: E501

    stop: StopReason
    text: str
    usage: Usage
    error: TurnError | None = None


class TurnAbort(SessionRef, frozen=True, kw_only=True):
    """Stops the running turn.

    session_id: whose.
    clear_queue: also empties the queue and gives its texts back.

    Example: {"session_id":"8f37d5f6","clear_queue":true}
    """

    clear_queue: bool = False


class TurnAborted(Struct, frozen=True, kw_only=True):
    """Answers `turn/abort`.

    aborted: whether a turn was running.
    unqueued: texts of the prompts taken from the queue.

    Example: {"aborted":true,"unqueued":[]}
    """

    aborted: bool
    unqueued: list[str]


class SessionClear(SessionRef, frozen=True, kw_only=True):
    """Starts over with an empty conversation and no notes. Refused while a turn runs.

    session_id: whose.

    Example: {"session_id":"8f37d5f6"}
    """


class NotesClear(SessionRef, frozen=True, kw_only=True):
    """Takes away every note, failures of extensions too: what a front end does on `esc`.

    session_id: whose.

    Example: {"session_id":"8f37d5f6"}
    """


METHOD_TYPES: dict[str, tuple[type[Struct], type[Struct] | None]] = {
    "initialize": (Initialize, Initialized),
    "ping": (Ping, None),
    "session/new": (SessionNew, SessionResult),
    "session/state": (SessionState, SessionResult),
    "session/messages": (SessionMessages, Messages),
    "turn/start": (TurnStartParams, TurnAccepted),
    "turn/wait": (TurnWait, TurnResult),
    "turn/abort": (TurnAbort, TurnAborted),
    "session/clear": (SessionClear, None),
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
    "skill/list": (p.SkillList, p.SkillsFound),
    "theme/list": (p.ThemeList, p.ThemesFound),
}
"""Every method: its params, and its result, None for the empty object."""
