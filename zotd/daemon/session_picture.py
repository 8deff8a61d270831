"""Owns the picture of a session as it is, which clients begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zotd.protocol.content import ContextUse
from zotd.protocol.session import SessionInfo

if TYPE_CHECKING:
    from zotd.daemon.session import Session


def picture_of(session: Session, updated: str, standing: SessionInfo | None = None) -> SessionInfo:
    """The session as it is. updated: RFC 3339 UTC. standing: what its events told so far."""
    transcript, turns = session.transcript, session.turns
    used = standing.context.used if standing and transcript.messages else transcript.used
    return SessionInfo(
        session_id=session.id,
        epoch=session.epoch,
        next_seq=standing.next_seq if standing is not None else session.next_seq,
        path=str(session.path) if session.path is not None else None,
        title=session.title or None,
        cwd=str(session.cwd),
        trusted=session.trusted,
        provider=session.provider,
        model=session.model.id,
        reasoning=session.model.reasoning,
        approval=session.approvals.policy,
        ephemeral=session.ephemeral,
        created=session.created,
        updated=updated,
        message_count=len(transcript.messages),
        last_message_id=transcript.last_id,
        busy=turns.active is not None,
        active_turn=turns.active.id if turns.active is not None else None,
        partial_text=standing.partial_text if standing is not None else None,
        queue=turns.rows(),
        usage=transcript.usage,
        context=ContextUse(used, session.model.window),
        notes=standing.notes if standing is not None else [],
        panels=standing.panels if standing is not None else [],
        pending_approvals=standing.pending_approvals if standing is not None else [],
        extensions=session.host.states() if session.host is not None else [],
    )
