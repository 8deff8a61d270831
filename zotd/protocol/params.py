"""Owns what the params of JSON-RPC methods have in common."""

from __future__ import annotations

from msgspec import Struct


class Params(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parent of all params. Unknown members, `_meta` among them, are ignored."""


class SessionRef(Params, frozen=True, kw_only=True):
    """The parent of all params that name a session.

    session_id: as `session/new` gave it.
    """

    session_id: str
