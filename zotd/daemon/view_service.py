"""Owns the methods through which a client sees a session: its picture, its messages, its events."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from zotd.agent.transcript import shown
from zotd.base.limits import KIB
from zotd.daemon.calls import Caller, Method, Then, session_of, translated
from zotd.protocol import session_methods as s
from zotd.protocol.content import Block, Image, Message, Text, ToolResult
from zotd.protocol.params import SessionRef
from zotd.wire.codec import encode

_AROUND = 4 * KIB  # bytes of an answer that are no messages, with room to spare
_WHERE = "the whole message is larger than an answer, session/export writes it to a file"


async def session_attach(caller: Caller, params: s.SessionAttach) -> Then:
    """Between answer and attachment nothing is lost: without `since`, events start after the picture. Who is
    attached already sees them all the while.
    """
    session = await caller.sessions.saved.by_id(params.session_id, caller.spec)
    attached = s.SessionAttached(session=session.info(), next_seq=session.next_seq)

    def begin() -> None:
        if params.since is not None:
            caller.attach(session, params.since, params.epoch or "")
        elif caller.sees(session):
            caller.attach(session)  # an answer of its own that did not count can be given again
        else:
            caller.attach(session, attached.next_seq - 1)

    return Then(attached, begin)


async def session_detach(caller: Caller, params: s.SessionDetach) -> Then:
    session = session_of(caller, params)
    return Then(None, lambda: caller.detach(session))


async def session_state(caller: Caller, params: SessionRef) -> s.SessionResult:
    return s.SessionResult(session=session_of(caller, params).info())


async def session_messages(caller: Caller, params: s.SessionMessages) -> s.Messages:
    session = session_of(caller, params)
    transcript = session.transcript
    first = max(0, (params.since or 0) + 1 - transcript.first_id)
    last = None if params.limit is None else first + params.limit
    rows = (
        row_of(transcript.first_id + at, message)
        for at, message in enumerate(transcript.messages[first:last], first)
    )
    page = _fitting(rows, session.limits.frame_bytes - _AROUND)
    more = page and page[-1].message_id < transcript.last_id
    return s.Messages(messages=page, next=page[-1].message_id if more else None)


def _fitting(rows: Iterable[s.MessageRow], room: int) -> list[s.MessageRow]:
    """As many as an answer has room for, in bytes; the first one in any case, in words where it must be."""
    page: list[s.MessageRow] = []
    left = room
    for row in rows:
        size = _size(row)
        if page and size > left:
            break
        page.append(fitting := row if size <= room else _in_words(row, room))
        left -= size if fitting is row else _size(fitting)
    return page


def _size(row: s.MessageRow) -> int:
    return len(encode(row)) + len(",")


def _in_words(row: s.MessageRow, room: int) -> s.MessageRow:
    """Without pictures, and where that is too large still, without anything."""
    content: list[Block] = [
        replace(block, content=[*map(_told, block.content)])
        if isinstance(block, ToolResult)
        else _told(block)
        if isinstance(block, Image)
        else block
        for block in row.content
    ]
    told = replace(row, content=content)
    if (size := _size(told)) > room:
        return replace(row, content=[Text(f"[a message of {size} bytes; {_WHERE}]")])
    return told


def _told(block: Text | Image) -> Text | Image:
    return Text(f"[a picture of {len(block.data)} bytes; {_WHERE}]") if isinstance(block, Image) else block


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
