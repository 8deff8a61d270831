"""Owns the methods about sessions as a whole."""

from __future__ import annotations

from zotd.agent.ports import ProviderError
from zotd.agent.transcript import shown
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.describe import describe
from zotd.daemon.params_to_spec import spec_from
from zotd.protocol import session_methods as s
from zotd.protocol.params import SessionRef
from zotd.providers.catalog import BadChoice


async def session_new(caller: Caller, params: s.SessionNew) -> Then:
    try:
        session = caller.sessions.open(spec_from(caller.spec, params), late=True)
    except (BadChoice, ProviderError) as wrong:
        raise Refused(str(wrong), kind="invalid_params") from None

    def begin() -> None:
        caller.attach(session)
        caller.sessions.start(session)

    return Then(s.SessionResult(session=describe(session)), begin)


async def session_state(caller: Caller, params: SessionRef) -> s.SessionResult:
    return s.SessionResult(session=describe(session_of(caller, params)))


async def session_messages(caller: Caller, params: s.SessionMessages) -> s.Messages:
    messages = session_of(caller, params).transcript.messages
    first = max(0, params.since or 0)
    last = len(messages) if params.limit is None else first + max(0, params.limit)
    page = [
        s.MessageRow(message_id=number, role=message.role, content=shown(message).content, time=message.time)
        for number, message in enumerate(messages[first:last], first + 1)
    ]
    return s.Messages(messages=page, next=last if last < len(messages) else None)


async def session_clear(caller: Caller, params: s.SessionClear) -> Then:
    session = session_of(caller, params)
    if session.busy:
        raise Refused("a turn is running", kind="busy", hint="abort it first, or wait for its `done`")
    return Then(None, session.clear)


SESSION_METHODS: dict[str, Method] = {
    "session/new": session_new,
    "session/state": session_state,
    "session/messages": session_messages,
    "session/clear": session_clear,
}
