"""Owns the methods about turns: prompts and compactions, their queue, their end."""

from __future__ import annotations

import asyncio
from functools import partial

from zotd.agent.loop import Outcome
from zotd.agent.ports import ToolFailed
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.prompt import attached, checked_dirty, checked_key, needs_disk
from zotd.daemon.session import Session
from zotd.daemon.turns import Accepted, QueueFull
from zotd.protocol import session_methods as s
from zotd.protocol import turn_methods as t
from zotd.protocol.content import ToolCall, ToolResult
from zotd.providers.unavailable import Unavailable
from zotd.tools.changes import ChangedSince, TurnNotKept
from zotd.tools.typed import printable


async def turn_start(caller: Caller, params: t.TurnStartParams) -> Then:
    session = session_of(caller, params)
    if (before := session.turns.known(checked_key(params.key or "", session.limits))) is not None:
        return Then(_accepted(before), lambda: None)
    _check_provider(session)
    dirty = checked_dirty(params.dirty_files)
    if not params.text.strip() and not params.images:
        raise Refused("$.text: it is empty, and there is no picture", kind="invalid_params")
    # A disk that is slow for one client's prompt holds up no other client.
    async with session.arrivals.setdefault(caller, asyncio.Lock()):
        gather = partial(attached, params.text, params.context, params.images, session.cwd, session.limits)
        if needs_disk(params.context, params.images):
            context, images = await asyncio.to_thread(gather)
        else:
            context, images = gather()
        await session.loaded()
        command = not images and session.commands.find(params.text) is not None
        if params.if_busy == "reject" and session.busy and not command:
            raise Refused("a turn is running", kind="busy", hint="wait for its `done`, or queue")
        try:
            accepted = await session.submit(
                params.text,
                images,
                context=context,
                client=caller.name,
                key=params.key or "",
                steer=params.if_busy == "steer",
                dirty_files=dirty,
                started=lambda: session.changes.also_dirty(dirty),
            )
        except QueueFull as full:
            raise _busy(full) from None
    return Then(_accepted(accepted), accepted.begin)


async def session_compact(caller: Caller, params: s.SessionCompact) -> Then:
    session = session_of(caller, params)
    _check_provider(session)
    try:
        accepted = session.commands.compact(params.instructions, client=caller.name)
    except QueueFull as full:
        raise _busy(full) from None
    return Then(s.CompactAccepted(turn_id=accepted.turn_id), accepted.begin)


def _check_provider(session: Session) -> None:
    """Raises Refused where the model cannot be asked anything."""
    if isinstance(session.model.provider, Unavailable):
        raise Refused(session.model.provider.reason, kind="provider_auth")


def _busy(full: QueueFull) -> Refused:
    return Refused(str(full), kind="busy", hint="wait for a `done`, or abort and clear the queue")


def _accepted(accepted: Accepted) -> t.TurnAccepted:
    return t.TurnAccepted(turn_id=accepted.turn_id, state=accepted.state, position=accepted.position or None)


async def turn_wait(caller: Caller, params: t.TurnWait) -> t.TurnResult:
    outcome: Outcome | None = await session_of(caller, params).wait(params.turn_id)
    if outcome is None:
        raise _no_turn(params.turn_id)
    return t.TurnResult(
        stop=outcome.stop,
        text=outcome.text,
        usage=outcome.usage,
        error=t.TurnError(kind=outcome.kind, message=outcome.error, hint=outcome.hint or None)
        if outcome.error
        else None,
    )


async def turn_abort(caller: Caller, params: t.TurnAbort) -> t.TurnAborted:
    session = session_of(caller, params)
    unqueued = session.unqueue() if params.clear_queue else []
    aborted = session.abort() if params.turn_id is None else _stopped(session, params.turn_id)
    return t.TurnAborted(aborted=aborted, unqueued=unqueued)


def _stopped(session: Session, turn_id: str) -> bool:
    """Stop that turn or command and no other. Whether there was one."""
    turns = session.turns
    if turns.active is not None and turns.active.id == turn_id:
        return turns.abort()
    return bool(turns.unqueue(turn_id)) or session.commands.cancel(turn_id)


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


async def turn_revert(caller: Caller, params: t.TurnRevert) -> t.TurnReverted:
    session = session_of(caller, params)
    if session.busy:
        raise Refused("a turn is running", kind="busy", hint="wait for its `done`, or abort it")
    turn = params.turn_id
    try:
        reverted = await asyncio.to_thread(session.changes.revert, turn)
    except ChangedSince as changed:
        names = [printable(str(path)) for path in changed.paths]
        raise Refused(
            f"nothing was restored, since these were changed after the turn: {', '.join(names)}",
            kind="changed_since",
            hint="revert later turns that touched them first, or restore them by hand",
            paths=names,
        ) from None
    except TurnNotKept:
        raise _not_kept(turn) from None
    except (ToolFailed, OSError) as error:
        raise Refused(printable(str(error)), kind="storage") from None
    if reverted is not None:
        return t.TurnReverted(
            restored=[printable(str(path)) for path in reverted.restored],
            removed=[printable(str(path)) for path in reverted.removed],
        )
    match _files_touched(session, turn):
        case None:
            hint = (
                "those whose messages the conversation has are known, and the last 1,000 since it was opened"
            )
            raise _no_turn(turn, hint)
        case True:
            raise _not_kept(turn)
    return t.TurnReverted(restored=[], removed=[])


def _files_touched(session: Session, turn: str) -> bool | None:
    """Whether a turn changed files, as the conversation tells; None when there is no such turn."""
    known = session.turns.outcome(turn) is not None
    current, calls, done = "", set[str](), False
    for message in session.transcript.messages:
        current = message.meta.get("turn_id", "" if message.role == "user" else current)
        if current != turn:
            continue
        known = True
        for block in message.content:
            if isinstance(block, ToolCall) and block.name in ("write", "edit"):
                calls.add(block.id)
            elif isinstance(block, ToolResult) and block.call_id in calls and not block.is_error:
                done = True
    return done if known else None


def _no_turn(turn: str, hint: str = "the last 1,000 since the session was opened are known") -> Refused:
    return Refused(f"no turn {turn!r} in this session", kind="turn_not_found", hint=hint)


def _not_kept(turn: str) -> Refused:
    return Refused(
        f"what the files of turn {turn!r} held before is not kept any more",
        kind="not_kept",
        hint="the oldest turns go when there is too much to keep",
    )


TURN_METHODS: dict[str, Method] = {
    "turn/start": turn_start,
    "session/compact": session_compact,
    "turn/wait": turn_wait,
    "turn/revert": turn_revert,
    "turn/abort": turn_abort,
    "turn/queue": turn_queue,
    "turn/unqueue": turn_unqueue,
}
