"""Owns what is told of a session to those who ask for its state."""

from __future__ import annotations

from typing import Any

from zotd.daemon.session import Session
from zotd.protocol.session import Note, Panel, QueuedTurn, SessionInfo


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
