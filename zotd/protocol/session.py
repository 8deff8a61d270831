"""Owns the picture of a session: what a client that just came needs to draw it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from zotd.protocol.content import ContextUse, ToolCallInfo, Usage

NoteLevel: TypeAlias = Literal["info", "success", "warn", "error"]
Approval: TypeAlias = Literal["auto", "ask", "rules"]
ExtensionState: TypeAlias = Literal[
    "starting", "ready", "auto_ready", "disabled", "shadowed", "untrusted", "failed", "stopped"
]


class QueuedTurn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that waits for its turn.

    turn_id: the turn it will be.
    text: what was typed.
    client: who sent it: a client's name, or an extension's.
    steer: whether it reaches the model before its next call, instead of a turn of its own.

    Example: {"turn_id":"turn_2","text":"and now the tests","client":"nvim"}
    """

    turn_id: str
    text: str
    client: str
    steer: bool = False


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line an extension shows outside the conversation.

    extension: whose note.
    text: what it says.
    level: set for a notice, absent for text a command displayed.
    command: the command that displayed it.

    Example: {"extension":"weather","text":"refreshed cache (12 entries)","level":"info"}
    """

    extension: str
    text: str
    level: NoteLevel | None = None
    command: str | None = None


class Panel(Struct, frozen=True, kw_only=True):
    """An open panel of an extension.

    extension: whose panel.
    panel_id: the extension's name for it.
    title: its heading.
    lines: its rows; SGR colours are the only control sequences in them.
    footer: its last row.

    Example: {"extension":"todos","panel_id":"main","title":"Todos","lines":["□ ship"],"footer":"esc close"}
    """

    extension: str
    panel_id: str
    title: str
    lines: list[str]
    footer: str


class Preview(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call would do, for the person who is asked.

    kind: `diff`, `command` or `args` (look at the call's arguments).
    path: the file a diff is of.
    old_text: its text before.
    new_text: its text after.
    command: the shell command line.

    Example: {"kind":"command","command":"make test"}
    """

    kind: Literal["diff", "command", "args"]
    path: str | None = None
    old_text: str | None = None
    new_text: str | None = None
    command: str | None = None


class PendingApproval(Struct, frozen=True, kw_only=True):
    """A question that waits for an answer.

    approval_id: correlates it with its end.
    tool_call: the call that waits.
    preview: what it would do.

    Example: {"approval_id":"a1","tool_call":{"id":"t1","name":"bash","args":{}},"preview":{"kind":"args"}}
    """

    approval_id: str
    tool_call: ToolCallInfo
    preview: Preview


class ShadowedName(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command or a tool that an extension wanted to register, and that somebody else has.

    kind: `command` or `tool`.
    name: a command's is without the slash.
    by: the extension that has it, absent when it is built in.

    Example: {"kind":"command","name":"deploy","by":"ci"}
    """

    kind: Literal["command", "tool"]
    name: str
    by: str | None = None


class ExtensionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An extension as the host sees it.

    name: from its manifest.
    version: from its manifest, empty when it names none.
    dir: absolute path of its directory.
    scope: `flag` (given for this run), `project` or `global`.
    state: where it is in its life.
    error: why it failed.
    log_path: absolute path of the file its stderr goes to.
    commands: names of the commands it owns, without the slash.
    tools: names of the tools it owns.
    shadowed: names it wanted and does not have.

    Example: {"name":"hello","version":"1.0.0","dir":"/x/hello","scope":"flag","state":"ready","log_path":"/l/ext-hello.log","commands":["hello"],"tools":[]}
    """  # noqa: E501

    name: str
    version: str
    dir: str
    scope: Literal["flag", "project", "global"]
    state: ExtensionState
    error: str | None = None
    log_path: str
    commands: list[str]
    tools: list[str]
    shadowed: list[ShadowedName] = field(default_factory=list)


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session: the fold of all its events, except the messages, which are paged separately.

    session_id: opaque and unique.
    epoch: names its life in one daemon; event numbers start again with another. Empty while it is not open.
    next_seq: the number the next event will have.
    path: its file, which is there from the first message on; absent for an ephemeral one.
    title: given by somebody.
    cwd: absolute path of the directory it works in.
    trusted: whether the folder's own extensions may run.
    provider: id of the model's provider.
    model: id of the model.
    reasoning: level asked for, empty for off.
    approval: `auto`, `ask` or `rules`.
    ephemeral: whether it is never saved.
    created: RFC 3339 UTC.
    updated: RFC 3339 UTC.
    message_count: rows of the conversation.
    last_message_id: of the row that came last, whether it is still among them or was summarised.
    busy: whether a turn runs.
    active_turn: id of that turn.
    partial_text: what of the current message was streamed so far.
    queue: prompts that wait.
    usage: tokens and money so far.
    context: how full the model's window is.
    notes: what extensions show at the moment.
    panels: open ones.
    pending_approvals: open questions.
    extensions: all that were found.

    Example: {"session_id":"8f37d5f6","epoch":"e1","next_seq":1,"cwd":"/home/user/project","trusted":false,"provider":"scripted","model":"scripted","reasoning":"","approval":"auto","ephemeral":true,"created":"2026-11-30T03:43:15.576Z","updated":"2026-11-30T03:43:15.576Z","message_count":0,"last_message_id":0,"busy":false,"queue":[],"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"cost_usd":0.0},"context":{"used":0,"window":0},"notes":[],"panels":[],"pending_approvals":[],"extensions":[]}
    """  # noqa: E501

    session_id: str
    epoch: str
    next_seq: int
    path: str | None = None
    title: str | None = None
    cwd: str
    trusted: bool
    provider: str
    model: str
    reasoning: str
    approval: Approval
    ephemeral: bool
    created: str
    updated: str
    message_count: int
    last_message_id: int
    busy: bool
    active_turn: str | None = None
    partial_text: str | None = None
    queue: list[QueuedTurn]
    usage: Usage
    context: ContextUse
    notes: list[Note]
    panels: list[Panel]
    pending_approvals: list[PendingApproval]
    extensions: list[ExtensionInfo]
