"""Owns what every event has in common: how it is told apart, and what is added when it is published."""

from __future__ import annotations

from msgspec import Struct


class EventBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The parent of every event: frozen, named by `type`, defaults stay off the wire."""


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a published event carries besides its own fields. The session adds it, whoever made the event.

    session_id: whose event it is.
    seq: its number, growing by 1 inside an epoch, which is a session's life in one daemon. Clients of the zot
        dialect are not sent every number.
    time: when it happened, RFC 3339 UTC.
    first_seq: set when several events were merged into this one: the number of the first.
    turn_id: set on the events of a turn.

    Example: {"session_id":"8f37d5f6","seq":12,"time":"2026-11-30T03:43:15.576Z","turn_id":"turn_1"}
    """

    session_id: str
    seq: int
    time: str
    first_seq: int | None = None
    turn_id: str | None = None
