"""Owns the methods about sessions as a whole."""

from __future__ import annotations

from zotd.agent.ports import ProviderError
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of, translated
from zotd.daemon.params_to_spec import spec_from
from zotd.daemon.saved_service import joined
from zotd.daemon.session import Session
from zotd.protocol import session_methods as s
from zotd.providers.catalog import BadChoice, NoCredentials
from zotd.store.errors import StoreError


async def session_new(caller: Caller, params: s.SessionNew) -> Then:
    if caller.spec.headless:
        return joined(caller, await _of_command_line(caller))
    try:
        session = caller.sessions.open(spec_from(caller.spec, params), late=True)
    except (BadChoice, ProviderError) as wrong:
        named = [name for name in ("model", "provider") if getattr(params, name) is not None]
        member = wrong.member if isinstance(wrong, BadChoice) else "".join(named[:1])
        place = f"$.{member}: " if member else ""
        raise Refused(f"{place}{wrong}", kind="invalid_params") from None

    return joined(caller, session)


async def _of_command_line(caller: Caller) -> Session:
    """The session that a run of the command line means: who names one that is open joins it.

    It goes on as the same run would in a process of its own, so that it fails where that would.
    """
    try:
        if caller.spec.saved is None:
            return caller.sessions.open(caller.spec)
        return await caller.sessions.saved.open(caller.spec)
    except NoCredentials as missing:
        raise Refused(str(missing), kind="provider_auth") from None
    except (BadChoice, ProviderError) as wrong:
        raise Refused(str(wrong), kind="configuration") from None
    except StoreError as wrong:
        raise Refused(str(wrong), kind=wrong.kind, hint=wrong.in_shell) from None


async def session_clear(caller: Caller, params: s.SessionClear) -> Then:
    return Then(None, session_of(caller, params).clear())


SESSION_METHODS: dict[str, Method] = {
    "session/new": session_new,
    "session/clear": translated(session_clear),
}
