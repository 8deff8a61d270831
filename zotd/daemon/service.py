"""Owns what each JSON-RPC method does: one function per method, params in, result out."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from zotd import __version__
from zotd.agent.loop import Outcome
from zotd.agent.ports import ProviderError
from zotd.agent.transcript import shown
from zotd.base.reasoning import SAME
from zotd.base.secret import Secret
from zotd.daemon.pictures import pictures
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions, working_directory
from zotd.daemon.spec import SessionSpec
from zotd.protocol import methods as m
from zotd.protocol.rpc_errors import ERROR_KINDS
from zotd.protocol.session import Note, QueuedTurn, SessionInfo
from zotd.providers.catalog import BadChoice
from zotd.providers.unavailable import Unavailable


class Refused(Exception):
    """An error answer. `kind` is a stable word that has a code, `hint` says what to do.

    then: what happens once the answer is on its way.
    """

    def __init__(
        self, message: str, *, kind: str, hint: str = "", then: Callable[[], None] | None = None
    ) -> None:
        super().__init__(message)
        self.code = ERROR_KINDS[kind].code
        self.kind = kind
        self.hint = hint
        self.then = then


class Caller(Protocol):
    """The connection a request came over."""

    sessions: Sessions
    spec: SessionSpec
    token: str
    initialized: bool
    name: str

    def attach(self, session: Session) -> None: ...
    def hang_up(self) -> None: ...


class Then(NamedTuple):
    """A result, and what happens once the answer is on its way."""

    result: Any
    action: Callable[[], None]


async def ping(caller: Caller, params: m.Params) -> None:
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


async def session_state(caller: Caller, params: m.SessionRef) -> m.SessionResult:
    return m.SessionResult(session=describe(_session(caller, params)))


async def session_messages(caller: Caller, params: m.SessionMessages) -> m.Messages:
    messages = _session(caller, params).transcript.messages
    first = max(0, params.since or 0)
    last = len(messages) if params.limit is None else first + max(0, params.limit)
    page = [
        m.MessageRow(message_id=number, role=message.role, content=shown(message).content, time=message.time)
        for number, message in enumerate(messages[first:last], first + 1)
    ]
    return m.Messages(messages=page, next=last if last < len(messages) else None)


async def turn_start(caller: Caller, params: m.TurnStartParams) -> Then:
    session = _session(caller, params)
    provider = session.model.provider
    if isinstance(provider, Unavailable):
        raise Refused(provider.reason, kind="provider_auth")
    try:
        images = pictures(msgspec.to_builtins(params.images))
    except ValueError as wrong:
        raise Refused(f"$.{wrong}", kind="invalid_params") from None
    if not params.text.strip() and not images:
        raise Refused("text is empty", kind="invalid_params")
    if params.if_busy == "reject" and session.busy:
        raise Refused("a turn is running", kind="busy", hint="wait for its `done`, or queue")
    accepted = await session.submit(params.text, images, client=caller.name)
    result = m.TurnAccepted(
        turn_id=accepted.turn_id, state=accepted.state, position=accepted.position or None
    )
    return Then(result, accepted.begin)


async def turn_wait(caller: Caller, params: m.TurnWait) -> m.TurnResult:
    outcome: Outcome | None = await _session(caller, params).wait(params.turn_id)
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
    session = _session(caller, params)
    unqueued = session.unqueue() if params.clear_queue else []
    return m.TurnAborted(aborted=session.abort(), unqueued=unqueued)


Method = Callable[[Any, Any], Awaitable[Any]]

METHODS: dict[str, Method] = {
    "initialize": initialize,
    "ping": ping,
    "session/new": session_new,
    "session/state": session_state,
    "session/messages": session_messages,
    "turn/start": turn_start,
    "turn/wait": turn_wait,
    "turn/abort": turn_abort,
}

LATER: dict[str, dict[str, object]] = {
    "session/new": {"approval": "auto", "ephemeral": True, "max_cost_usd": None, "skills": None},
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
        notes=[_note(event) for event in session.notes],
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


def _session(caller: Caller, params: m.SessionRef) -> Session:
    session = caller.sessions.get(params.session_id)
    if session is None:
        raise Refused(
            f"no session {params.session_id!r} is open",
            kind="session_not_found",
            hint="session/new makes one",
        )
    return session


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
        given["environ"] = params.env
    if params.api_key is not None:
        given["api_key"] = Secret(params.api_key)
    if params.reasoning is not None:
        given["reasoning"] = SAME.get(params.reasoning, params.reasoning)
    if params.append_system_prompt is not None:
        given["append_system_prompt"] = tuple(params.append_system_prompt)
    if params.tools is not None:
        given["tools"] = tuple(params.tools)
    if params.extensions is not None:
        given["extensions"] = tuple(Path(path).expanduser().absolute() for path in params.extensions)
    return replace(base, **given)


def _directory(path: str) -> Path:
    try:
        return working_directory(path)
    except NotADirectoryError as wrong:
        raise Refused(f"$.cwd: {wrong}", kind="invalid_params") from None
