"""Owns the methods that make, find, share, change and save sessions: their params and results."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from zotd.protocol.content import Block, Role, Usage
from zotd.protocol.params import Params, SessionRef
from zotd.protocol.session import Approval, SessionInfo

ReasoningLevel: TypeAlias = Literal[
    "off", "minimum", "minimal", "low", "medium", "high", "xhigh", "max", "maximum"
]
Count: TypeAlias = Annotated[int, Meta(ge=1)]


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
    approval: `auto`, `ask` or `rules`; by default `ask` for a client that declared `approvals`, else `auto`.
    ephemeral: whether it is never saved; a saved one has a file as soon as there is a message.

    Example: {"cwd":"/home/user/project","provider":"scripted","ephemeral":true}
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
    max_steps: Count | None = None
    approval: Approval | None = None
    ephemeral: bool = False


class SessionResult(Struct, frozen=True, kw_only=True):
    """One session, as it stands.

    session: its live state.

    Example: {"session":{"session_id":"8f37d5f6","epoch":"e1","next_seq":1,"cwd":"/home/user/project","trusted":true,"provider":"scripted","model":"scripted","reasoning":"","approval":"auto","ephemeral":true,"created":"2026-11-30T03:43:15.576Z","updated":"2026-11-30T03:43:15.576Z","message_count":0,"last_message_id":0,"busy":false,"queue":[],"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"cost_usd":0.0},"context":{"used":0,"window":0},"notes":[],"panels":[],"pending_approvals":[],"extensions":[]}}
    """  # noqa: E501

    session: SessionInfo


class SessionState(SessionRef, frozen=True, kw_only=True):
    """Asks for one session, as it stands.

    session_id: as `session/new` gave it.

    Example: {"session_id":"8f37d5f6"}
    """


class SessionMessages(SessionRef, frozen=True, kw_only=True):
    """A page of the conversation, as much of it as fits one frame.

    A message that alone is too large for that has words in place of its pictures, or of all.

    session_id: whose.
    since: only messages after this message_id; from the start when absent.
    limit: messages at most; as many as fit when absent.

    Example: {"session_id":"8f37d5f6","limit":1}
    """

    since: Annotated[int, Meta(ge=0)] | None = None
    limit: Count | None = None


class MessageRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message and its place.

    message_id: its ordinal, from 1: it grows by 1 through the whole life of the conversation, also past a
        compaction and a clear.
    turn_id: the turn it belongs to, where that is known.
    role: who speaks.
    content: its blocks.
    time: when it was complete, RFC 3339 UTC.

    Example: {"message_id":1,"role":"user","content":[{"type":"text","text":"hello"}],"time":"2026-11-30T03:43:15.576Z"}
    """  # noqa: E501

    message_id: int
    turn_id: str | None = None
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


class SessionClear(SessionRef, frozen=True, kw_only=True):
    """Starts over with an empty conversation and no notes. Refused while a turn runs.

    session_id: whose.

    Example: {"session_id":"8f37d5f6"}
    """


class SessionLoad(Params, frozen=True, kw_only=True):
    """Opens a saved session and attaches the caller to it. One that is open already is shared.

    One of `session_id`, `path` and `latest` says which. Provider, model and reasoning are those it had last,
    unless the daemon's own flags say otherwise.

    session_id: or the beginning of one, at least four characters, where only one session's begins so.
    path: absolute path of a session file.
    latest: the session of `cwd` that was changed last.
    cwd: absolute path; the connection's when absent. Only `latest` reads it.

    Example: {"latest":true,"cwd":"/home/user/project"}
    """

    session_id: str | None = None
    path: str | None = None
    latest: bool = False
    cwd: str | None = None


class SessionAttach(SessionRef, frozen=True, kw_only=True):
    """Gets the events of a session from now on, and first those after `since`.

    What cannot be replayed, because it is too long ago or of another epoch, is stood in for by one `resync`.
    A saved session that is not open is opened, with another epoch. A caller that is attached already gets
    none again of what it was sent.

    session_id: which.
    epoch: the one `since` belongs to; the current one when absent.
    since: the number of the last event the caller has; without it there is no replay.

    Example: {"session_id":"8f37d5f6","epoch":"e1","since":41}
    """

    epoch: str | None = None
    since: int | None = None


class SessionAttached(Struct, frozen=True, kw_only=True):
    """Answers `session/attach`, ahead of the events.

    session: as it is now, all replayed events included.
    next_seq: the number of the first event that is not in `session`.

    Example: {"session":{"session_id":"8f37d5f6","epoch":"e1","next_seq":1,"cwd":"/home/user/project","trusted":true,"provider":"scripted","model":"scripted","reasoning":"","approval":"auto","ephemeral":true,"created":"2026-11-30T03:43:15.576Z","updated":"2026-11-30T03:43:15.576Z","message_count":0,"last_message_id":0,"busy":false,"queue":[],"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"cost_usd":0.0},"context":{"used":0,"window":0},"notes":[],"panels":[],"pending_approvals":[],"extensions":[]},"next_seq":1}
    """  # noqa: E501

    session: SessionInfo
    next_seq: int


class SessionDetach(SessionRef, frozen=True, kw_only=True):
    """Gets no more events of a session. It goes on: a turn that runs is not aborted.

    session_id: which.

    Example: {"session_id":"8f37d5f6"}
    """


class SessionClose(SessionRef, frozen=True, kw_only=True):
    """Ends a session for everyone: its turn is aborted, its extensions stop, and its last event is
    `session_closed`. A saved one can be loaded again.

    session_id: which.

    Example: {"session_id":"8f37d5f6"}
    """


class SessionDelete(SessionRef, frozen=True, kw_only=True):
    """Closes a session if it is open, which is told as `session/close` tells it, and removes its file.

    session_id: which.

    Example: {"session_id":"8f37d5f6"}
    """


class SessionRename(SessionRef, frozen=True, kw_only=True):
    """Gives a session a title.

    session_id: an open session's, or a saved one's.
    title: one line; empty takes the title away.

    Example: {"session_id":"8f37d5f6","title":"the parser"}
    """

    title: str


class SessionList(Params, frozen=True, kw_only=True):
    """Asks for sessions, open ones and saved ones, the one that was changed last first.

    cwd: absolute path: only those of this directory.
    limit: rows at most; 100 when absent.
    cursor: `next_cursor` of the page before.

    Example: {"cwd":"/home/user/project","limit":1}
    """

    cwd: str | None = None
    limit: Count | None = None
    cursor: str | None = None


class SessionRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session without what is live in it.

    session_id: opaque and unique.
    path: its file, absent while there is none.
    title: given by somebody.
    first_prompt: the beginning of the first prompt, one line, where there is one.
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
    usage: tokens and money so far.
    parent: the session it was forked from.
    fork_point: the `message_id` of the last message they share.
    open: whether this daemon has it open.

    Example: {"session_id":"8f37d5f6","path":"/s/20261130-034315-8f37d5f6.jsonl","title":"the parser","cwd":"/home/user/project","trusted":false,"provider":"scripted","model":"scripted","reasoning":"","approval":"auto","ephemeral":false,"created":"2026-11-30T03:43:15.576Z","updated":"2026-11-30T03:43:15.576Z","message_count":2,"last_message_id":2,"usage":{"input":9,"output":4,"cache_read":0,"cache_write":0,"cost_usd":0.0},"open":false}
    """  # noqa: E501  # noqa: E501

    session_id: str
    path: str | None = None
    title: str | None = None
    first_prompt: str | None = None
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
    usage: Usage
    parent: str | None = None
    fork_point: int | None = None
    open: bool


class SessionRows(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of sessions.

    sessions: the one that was changed last first.
    next_cursor: pass as `cursor` for the following page; absent on the last.

    Example: {"sessions":[]}
    """

    sessions: list[SessionRow]
    next_cursor: str | None = None


class SessionFork(SessionRef, frozen=True, kw_only=True):
    """Makes a new session that begins as this one did, up to a message, and attaches the caller to it.

    session_id: an open session's, or a saved one's.
    message_id: the last message that both share. Where it holds calls without their results, these are added.

    Example: {"session_id":"8f37d5f6","message_id":4}
    """

    message_id: int


class SessionExport(SessionRef, frozen=True, kw_only=True):
    """Writes a session down for people or other programs: what was shown, with the home directory taken out.

    session_id: an open session's, or a saved one's.
    format: `jsonl` can be imported again, `markdown` is a text, `html` one page that needs nothing else.
    path: absolute path of the file to write, which must not exist; the text is answered when absent.

    Example: {"session_id":"8f37d5f6","format":"markdown"}
    """

    format: Literal["jsonl", "markdown", "html"]
    path: str | None = None


class SessionExported(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers `session/export`.

    content: the text, when no path was given.
    path: the file that was written.

    Example: {"content":"# the parser\\n"}
    """

    content: str | None = None
    path: str | None = None


class SessionImport(Params, frozen=True, kw_only=True):
    """Makes a saved session of what `session/export` wrote as `jsonl`, and attaches the caller to it.

    One of `path` and `content` is given.

    path: absolute path of the file.
    content: its text.
    cwd: absolute path of the directory it is to work in; the connection's when absent.

    Example: {"path":"/home/user/parser.zotsession","cwd":"/home/user/project"}
    """

    path: str | None = None
    content: str | None = None
    cwd: str | None = None


class SessionCompact(SessionRef, frozen=True, kw_only=True):
    """Has the model summarise the older part of the conversation. It queues and is aborted like a turn.

    session_id: whose.
    instructions: what the summary should look after.

    Example: {"session_id":"8f37d5f6","instructions":"keep the names of the files"}
    """

    instructions: str = ""


class CompactAccepted(Struct, frozen=True, kw_only=True):
    """Answers `session/compact`.

    turn_id: its `done` carries it; `turn/wait` answers with the summary.

    Example: {"turn_id":"b2c7"}
    """

    turn_id: str


class SessionSet(SessionRef, frozen=True, kw_only=True):
    """Changes what a session works with, from the next model call on. What is absent stays.

    session_id: whose.
    provider: id; its first model when `model` is absent.
    model: id of that provider.
    reasoning: a level, `off` for none.
    approval: `auto`, `ask` or `rules`, from the next tool call on; `auto` lets run what is asked about now.

    Example: {"session_id":"8f37d5f6","reasoning":"high"}
    """

    provider: str | None = None
    model: str | None = None
    reasoning: ReasoningLevel | None = None
    approval: Approval | None = None
