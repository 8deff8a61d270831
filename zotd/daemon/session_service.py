"""Owns the methods about sessions as a whole."""

from __future__ import annotations

from zotd.agent.ports import ProviderError
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.params_to_spec import spec_from
from zotd.protocol import session_methods as s
from zotd.providers.catalog import BadChoice


async def session_new(caller: Caller, params: s.SessionNew) -> Then:
    try:
        session = caller.sessions.open(spec_from(caller.spec, params), late=True)
    except (BadChoice, ProviderError) as wrong:
        raise Refused(str(wrong), kind="invalid_params") from None

    def begin() -> None:
        caller.attach(session)
        caller.sessions.start(session)

    return Then(s.SessionResult(session=session.info()), begin)


async def session_clear(caller: Caller, params: s.SessionClear) -> Then:
    session = session_of(caller, params)
    if session.busy:
        raise Refused("a turn is running", kind="busy", hint="abort it first, or wait for its `done`")
    return Then(None, session.clear)


SESSION_METHODS: dict[str, Method] = {
    "session/new": session_new,
    "session/clear": session_clear,
}
