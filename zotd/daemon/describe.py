"""Owns what is told of a session to those who ask for its state."""

from __future__ import annotations

from zotd.daemon.session import Session
from zotd.protocol.session import SessionInfo


def describe(session: Session) -> SessionInfo:
    """A session's live state."""
    return session.info()
