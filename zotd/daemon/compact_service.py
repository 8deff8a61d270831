"""Owns the method that has a conversation summarised."""

from __future__ import annotations

from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.turns import QueueFull
from zotd.protocol import session_methods as s
from zotd.providers.unavailable import Unavailable


async def session_compact(caller: Caller, params: s.SessionCompact) -> Then:
    session = session_of(caller, params)
    if isinstance(session.model.provider, Unavailable):
        raise Refused(session.model.provider.reason, kind="provider_auth")
    try:
        accepted = session.commands.compact(params.instructions, client=caller.name)
    except QueueFull as full:
        hint = "wait for a `done`, or abort and clear the queue"
        raise Refused(str(full), kind="busy", hint=hint) from None
    return Then(s.CompactAccepted(turn_id=accepted.turn_id), accepted.begin)


COMPACT_METHODS: dict[str, Method] = {"session/compact": session_compact}
