"""Owns the methods through which a client sees a session: its picture, its messages, its events."""

from __future__ import annotations

from zotd.agent.transcript import shown
from zotd.daemon.calls import Caller, Method, Then, session_of, translated
from zotd.protocol import session_methods as s
from zotd.protocol.content import Message
from zotd.protocol.params import SessionRef


async def session_attach(caller: Caller, params: s.SessionAttach) -> Then:
    """Between answer and attachment nothing is lost: without `since`, events start after the picture. Who is
    attached already sees them all the while.
    """
    session = await caller.sessions.saved.by_id(params.session_id, caller.spec)
    attached = s.SessionAttached(session=session.info(), next_seq=session.next_seq)

    def begin() -> None:
        if params.since is not None:
            caller.attach(session, params.since, params.epoch or "")
        elif not caller.sees(session):
            caller.attach(session, attached.next_seq - 1)
        caller.sessions.start_once(session)

    return Then(attached, begin)


async def session_detach(caller: Caller, params: s.SessionDetach) -> Then:
    session = session_of(caller, params)
    return Then(None, lambda: caller.detach(session))


async def session_state(caller: Caller, params: SessionRef) -> s.SessionResult:
    return s.SessionResult(session=session_of(caller, params).info())


async def session_messages(caller: Caller, params: s.SessionMessages) -> s.Messages:
    transcript = session_of(caller, params).transcript
    first = max(0, (params.since or 0) + 1 - transcript.first_id)
    last = None if params.limit is None else first + max(0, params.limit)
    page = [
        row_of(transcript.first_id + at, message)
        for at, message in enumerate(transcript.messages[first:last], first)
    ]
    more = page and page[-1].message_id < transcript.last_id
    return s.Messages(messages=page, next=page[-1].message_id if more else None)


def row_of(message_id: int, message: Message) -> s.MessageRow:
    """A message as people may see it."""
    return s.MessageRow(
        message_id=message_id,
        turn_id=message.meta.get("turn_id"),
        role=message.role,
        content=shown(message).content,
        time=message.time,
    )


VIEW_METHODS: dict[str, Method] = {
    "session/attach": translated(session_attach),
    "session/detach": session_detach,
    "session/state": session_state,
    "session/messages": session_messages,
}
