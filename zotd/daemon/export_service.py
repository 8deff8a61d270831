"""Owns the method that writes a session down for readers and for other programs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from msgspec.structs import replace

from zotd import __version__
from zotd.agent.transcript import shown
from zotd.base.files import MAKE_ROOM
from zotd.base.limits import KIB, Limits
from zotd.daemon.calls import Caller, Method, Refused
from zotd.daemon.session import Session
from zotd.protocol import session_methods as s
from zotd.protocol.content import Message
from zotd.store.saved import Saved

_AROUND = 4 * KIB  # bytes of an answer that are not the text itself, with room to spare


async def session_export(caller: Caller, params: s.SessionExport) -> s.SessionExported:
    if params.path is not None and (not params.path.startswith("/") or "\0" in params.path):
        raise Refused("$.path: expected an absolute path", kind="invalid_params")
    session = caller.sessions.get(params.session_id)
    at_hand = saved_of(session) if session is not None else None
    # Seconds of work where a session is large: nobody else is to wait for them.
    return await asyncio.to_thread(_export, caller, params, at_hand)


def saved_of(session: Session) -> Saved:
    """An open session as a file of it would be read, with what people may see."""
    info = session.info()
    meta = {
        "id": info.session_id,
        "cwd": info.cwd,
        "model": info.model,
        "provider": info.provider,
        "started": info.created,
        "version": __version__,
    }
    return Saved(
        path=session.path,
        meta=meta,
        messages=[for_people(message) for message in session.transcript.messages],
        first_id=session.transcript.first_id,
        usage=info.usage,
        title=info.title or "",
        provider=info.provider,
        model=info.model,
        reasoning=info.reasoning,
    )


def for_people(message: Message) -> Message:
    """What was shown of it, without the key by which its sender would know it again."""
    seen = shown(message)
    if "key" not in seen.meta:
        return seen
    return replace(seen, meta={name: value for name, value in seen.meta.items() if name != "key"})


def _export(caller: Caller, params: s.SessionExport, at_hand: Saved | None) -> s.SessionExported:
    from zotd.store.export import export

    limits = caller.sessions.limits
    session = at_hand or _read(caller.spec.home, params.session_id, limits)
    text = export(session, params.format, str(caller.spec.user_home), limits)
    if params.path is not None:
        write_new(Path(params.path), text.encode())
        return s.SessionExported(path=params.path)
    from zotd.wire.codec import encode

    if (size := len(encode(text))) > limits.frame_bytes - _AROUND:
        raise Refused(
            f"the session is {size} bytes of {params.format}, and an answer has at most {limits.frame_bytes}",
            kind="storage",
            hint="pass `path`, the file to write it to",
        )
    return s.SessionExported(content=text)


def _read(home: Path, session_id: str, limits: Limits) -> Saved:
    from zotd.store.catalog import SessionStore
    from zotd.store.errors import StoreError

    store = SessionStore(home, limits)
    try:
        saved = store.read(store.find(session_id))
    except StoreError as wrong:
        raise Refused(str(wrong), kind=wrong.kind, hint=wrong.hint) from None
    saved.messages = [for_people(message) for message in saved.messages]
    return saved


def write_new(path: Path, data: bytes) -> None:
    """Make a file that only its owner reads. Raises Refused: there is one, or it cannot be written."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = f"name a file that does not exist, in a directory that does, or {MAKE_ROOM}"
        raise Refused(f"{path} cannot be made: {error.strerror}", kind="storage", hint=hint) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        path.unlink(missing_ok=True)
        why = f"{path} cannot be written: {error.strerror}"
        raise Refused(why, kind="storage", hint=MAKE_ROOM) from None


EXPORT_METHODS: dict[str, Method] = {"session/export": session_export}
"""Methods by name; `service` serves them with the rest."""
