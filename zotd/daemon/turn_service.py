"""Owns the methods about turns: prompts, their queue, their end."""

from __future__ import annotations

import msgspec

from zotd.agent.loop import Outcome
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.pictures import pictures
from zotd.daemon.turns import Accepted, QueueFull
from zotd.protocol import turn_methods as t
from zotd.providers.unavailable import Unavailable


async def turn_start(caller: Caller, params: t.TurnStartParams) -> Then:
    session = session_of(caller, params)
    if (before := session.turns.known(params.key or "")) is not None:
        return Then(_accepted(before), lambda: None)
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
        accepted = await session.submit(
            params.text,
            images,
            client=caller.name,
            key=params.key or "",
            steer=params.if_busy == "steer",
        )
    except QueueFull as full:
        raise Refused(
            str(full), kind="busy", hint="wait for a `done`, or abort and clear the queue"
        ) from None
    return Then(_accepted(accepted), accepted.begin)


def _accepted(accepted: Accepted) -> t.TurnAccepted:
    return t.TurnAccepted(turn_id=accepted.turn_id, state=accepted.state, position=accepted.position or None)


async def turn_wait(caller: Caller, params: t.TurnWait) -> t.TurnResult:
    outcome: Outcome | None = await session_of(caller, params).wait(params.turn_id)
    if outcome is None:
        raise Refused(
            f"no turn {params.turn_id!r} in this session",
            kind="turn_not_found",
            hint="the last 1,000 turns are kept",
        )
    return t.TurnResult(
        stop=outcome.stop,
        text=outcome.text,
        usage=outcome.usage,
        error=t.TurnError(kind=outcome.kind, message=outcome.error) if outcome.error else None,
    )


async def turn_abort(caller: Caller, params: t.TurnAbort) -> t.TurnAborted:
    session = session_of(caller, params)
    unqueued = session.unqueue() if params.clear_queue else []
    return t.TurnAborted(aborted=session.abort(), unqueued=unqueued)


async def turn_queue(caller: Caller, params: t.TurnQueue) -> t.QueuedTurns:
    return t.QueuedTurns(turns=session_of(caller, params).turns.rows())


async def turn_unqueue(caller: Caller, params: t.TurnUnqueue) -> t.QueuedTurns:
    turns = session_of(caller, params).turns
    if not turns.unqueue(params.turn_id):
        raise Refused(
            f"no turn {params.turn_id!r} waits in this session",
            kind="turn_not_found",
            hint="turn/queue lists those that do; turn/abort stops the one that runs",
        )
    return t.QueuedTurns(turns=turns.rows())


TURN_METHODS: dict[str, Method] = {
    "turn/start": turn_start,
    "turn/wait": turn_wait,
    "turn/abort": turn_abort,
    "turn/queue": turn_queue,
    "turn/unqueue": turn_unqueue,
}
