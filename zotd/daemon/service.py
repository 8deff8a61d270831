"""Owns what each JSON-RPC method does: one function per method, params in, result out."""

from __future__ import annotations

import hmac
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from zotd import __version__
from zotd.agent.loop import Outcome
from zotd.agent.ports import ProviderError
from zotd.agent.transcript import shown
from zotd.base.reasoning import SAME
from zotd.base.secret import Secret
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.capabilities import declared
from zotd.daemon.extension_service import EXTENSION_METHODS
from zotd.daemon.pictures import pictures
from zotd.daemon.project_service import PROJECT_METHODS
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec
from zotd.daemon.turns import QueueFull
from zotd.protocol import methods as m
from zotd.protocol.params import Params, SessionRef
from zotd.protocol.session import Note, Panel, QueuedTurn, SessionInfo
from zotd.providers.catalog import BadChoice
from zotd.providers.unavailable import Unavailable


async def ping(caller: Caller, params: Params) -> None:
    return


async def initialize(caller: Caller, params: m.Initialize) -> m.Initialized:
    if caller.token and not hmac.compare_digest(params.token.encode(), caller.token.encode()):
        hint = "pass the daemon's token as initialize.token"
        raise Refused("invalid token", kind="auth", hint=hint, then=caller.hang_up)
    if params.protocol_version != m.PROTOCOL_VERSION:
        raise Refused(
            f"this daemon speaks protocol {m.PROTOCOL_VERSION}, the client {params.protocol_version}",
            kind="protocol_version",
            hint="update the older of the two: pip install --upgrade zotd, or the editor's plugin",
        )
    if params.cwd is not None:
        caller.spec = replace(caller.spec, cwd=_directory(params.cwd))
    caller.initialized = True
    caller.name = params.client.name
    caller.capabilities = declared(msgspec.to_builtins(params.capabilities))
    return m.Initialized(
        protocol_version=m.PROTOCOL_VERSION,
        server=m.ClientInfo(name="zotd", version=__version__),
        capabilities={"methods": sorted(METHODS)},
    )


async def session_new(caller: Caller, params: m.SessionNew) -> Then:
    try:
        session = caller.sessions.open(_spec(caller.spec, params), late=True)
    except (BadChoice, ProviderError) as wrong:
        raise Refused(str(wrong), kind="invalid_params") from None

    def begin() -> None:
        caller.attach(session)
        caller.sessions.start(session)

    return Then(m.SessionResult(session=describe(session)), begin)


async def session_state(caller: Caller, params: SessionRef) -> m.SessionResult:
    return m.SessionResult(session=describe(session_of(caller, params)))


async def session_messages(caller: Caller, params: m.SessionMessages) -> m.Messages:
    messages = session_of(caller, params).transcript.messages
    first = max(0, params.since or 0)
    last = len(messages) if params.limit is None else first + max(0, params.limit)
    page = [
        m.MessageRow(message_id=number, role=message.role, content=shown(message).content, time=message.time)
        for number, message in enumerate(messages[first:last], first + 1)
    ]
    return m.Messages(messages=page, next=last if last < len(messages) else None)


async def turn_start(caller: Caller, params: m.TurnStartParams) -> Then:
    session = session_of(caller, params)
    provider = session.model.provider
    if isinstance(provider, Unavailable):
        raise Refused(provider.reason, kind="provider_auth")
    try:
        images = pictures(msgspec.to_builtins(params.images))
    except ValueError as wrong:
        raise Refused(f"$.{wrong}", kind="invalid_params") from None
    if not params.text.strip() and not images:
        raise Refused("text is empty", kind="invalid_params")
    await session.loaded()
    command = not images and session.commands.find(params.text) is not None
    if params.if_busy == "reject" and session.busy and not command:
        raise Refused("a turn is running", kind="busy", hint="wait for its `done`, or queue")
    try:
        accepted = await session.submit(params.text, images, client=caller.name)
    except QueueFull as full:
        raise Refused(
            str(full), kind="busy", hint="wait for a `done`, or abort and clear the queue"
        ) from None
    result = m.TurnAccepted(
        turn_id=accepted.turn_id, state=accepted.state, position=accepted.position or None
    )
    return Then(result, accepted.begin)


async def turn_wait(caller: Caller, params: m.TurnWait) -> m.TurnResult:
    outcome: Outcome | None = await session_of(caller, params).wait(params.turn_id)
    if outcome is None:
        raise Refused(
            f"no turn {params.turn_id!r} in this session",
            kind="turn_not_found",
            hint="the last 1,000 turns are kept",
        )
    return m.TurnResult(
        stop=outcome.stop,
        text=outcome.text,
        usage=outcome.usage,
        error=m.TurnError(kind=outcome.kind, message=outcome.error) if outcome.error else None,
    )


async def turn_abort(caller: Caller, params: m.TurnAbort) -> m.TurnAborted:
    session = session_of(caller, params)
    unqueued = session.unqueue() if params.clear_queue else []
    return m.TurnAborted(aborted=session.abort(), unqueued=unqueued)


async def session_clear(caller: Caller, params: m.SessionClear) -> Then:
    session = session_of(caller, params)
    if session.busy:
        raise Refused("a turn is running", kind="busy", hint="abort it first, or wait for its `done`")
    return Then(None, session.clear)


async def notes_clear(caller: Caller, params: m.NotesClear) -> Then:
    return Then(None, session_of(caller, params).notes.clear)


METHODS: dict[str, Method] = {
    "initialize": initialize,
    "ping": ping,
    "session/new": session_new,
    "session/state": session_state,
    "session/messages": session_messages,
    "turn/start": turn_start,
    "turn/wait": turn_wait,
    "turn/abort": turn_abort,
    "session/clear": session_clear,
    "notes/clear": notes_clear,
    **EXTENSION_METHODS,
    **PROJECT_METHODS,
}

LATER: dict[str, dict[str, object]] = {
    "session/new": {"approval": "auto", "ephemeral": True, "max_cost_usd": None},
    "turn/start": {"context": [], "dirty_files": [], "key": None},
}
"""Members of later versions, each with the one value that is true today. Others are refused."""

BEFORE_INITIALIZE = frozenset({"initialize", "ping"})


def describe(session: Session) -> SessionInfo:
    """A session's live state."""
    return SessionInfo(
        session_id=session.id,
        epoch=session.epoch,
        next_seq=session.next_seq,
        cwd=str(session.cwd),
        trusted=session.trusted,
        provider=session.provider,
        model=session.model.id,
        reasoning=session.model.reasoning,
        approval="auto",
        ephemeral=True,
        created=session.created,
        updated=session.updated,
        message_count=len(session.transcript.messages),
        busy=session.busy,
        active_turn=session.active.id if session.active is not None else None,
        partial_text=session.partial_text or None,
        queue=[QueuedTurn(turn_id=turn.id, text=turn.text, client=turn.client) for turn in session.queue],
        usage=session.transcript.usage,
        context=session.context,
        notes=[_note(event) for event in session.notes.rows],
        panels=[_panel(event) for event in session.panels.values()],
        extensions=session.host.states() if session.host is not None else [],
    )


def _note(event: dict[str, Any]) -> Note:
    """The note that an ext_notify or ext_display made."""
    return Note(
        extension=event["extension"],
        text=event.get("message", event.get("text", "")),
        level=event.get("level"),
        command=event.get("command"),
    )


def _panel(event: dict[str, Any]) -> Panel:
    """The panel as an event last drew it."""
    return Panel(**{name: event[name] for name in Panel.__struct_fields__})


def _spec(base: SessionSpec, params: m.SessionNew) -> SessionSpec:
    given: dict[str, Any] = {"trusted": False}  # nobody can say yet that the folder is
    for name in ("provider", "model", "base_url", "system_prompt", "discover_extensions", "max_steps"):
        if (value := getattr(params, name)) is not None:
            given[name] = value
    if params.max_steps is not None and params.max_steps < 1:
        raise Refused("$.max_steps must be at least 1", kind="invalid_params")
    if params.cwd is not None:
        given["cwd"] = _directory(params.cwd)
    if params.env is not None:
        _check(params.env)
        # A zot that a child starts has the same home as the daemon.
        given["environ"] = {**params.env, "ZOT_HOME": str(base.home)}
    if params.api_key is not None:
        given["api_key"] = Secret(params.api_key)
    if params.reasoning is not None:
        given["reasoning"] = SAME.get(params.reasoning, params.reasoning)
    if params.append_system_prompt is not None:
        given["append_system_prompt"] = tuple(params.append_system_prompt)
    if params.tools is not None:
        given["tools"] = tuple(params.tools)
    if params.skills is not None:
        all_or_none = None if params.skills else ()
        given["skills"] = tuple(params.skills) if isinstance(params.skills, list) else all_or_none
    if params.extensions is not None:
        given["extensions"] = tuple(
            _absolute(path, f"$.extensions[{index}]") for index, path in enumerate(params.extensions)
        )
    return replace(base, **given)


def _check(environ: dict[str, str]) -> None:
    """Refuse what no program could be started with."""
    for name, value in environ.items():
        if not name or "=" in name or "\0" in name:
            raise Refused(f"$.env: {name!r} is no name of a variable", kind="invalid_params")
        if "\0" in value:
            raise Refused(f"$.env.{name}: expected a text without NUL characters", kind="invalid_params")


def _directory(path: str) -> Path:
    directory = _absolute(path, "$.cwd")
    if not directory.is_dir():
        raise Refused(f"$.cwd: {directory} is not a directory", kind="invalid_params")
    return directory


def _absolute(path: str, where: str) -> Path:
    """A path of a client, which need not work where the daemon does. `where`: the JSON path of it."""
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:  # ~somebody, who does not exist
        expanded = Path()
    if not expanded.is_absolute():
        raise Refused(f"{where}: expected an absolute path, got {path!r}", kind="invalid_params")
    return expanded
