"""Owns the methods that find sessions, share them, copy them, name them and end them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec.structs import replace as with_fields

from zotd.daemon.approvals import policy_of
from zotd.daemon.beginning import Beginning
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of, translated
from zotd.daemon.configured import with_configuration
from zotd.daemon.export_service import saved_of
from zotd.daemon.session import Session
from zotd.daemon.session_list import listed, live
from zotd.daemon.spec import SessionSpec
from zotd.daemon.surroundings import absolute_path, directory
from zotd.protocol import session_methods as s
from zotd.protocol.content import ContextUse
from zotd.protocol.session import Approval, SessionInfo
from zotd.store.catalog import SessionStore, is_cursor
from zotd.store.errors import NoMessage, NoSession
from zotd.store.saved import Saved


async def session_load(caller: Caller, params: s.SessionLoad) -> Then:
    if sum((params.session_id is not None, params.path is not None, params.latest)) != 1:
        raise Refused("$: expected one of session_id, path and latest", kind="invalid_params")
    if params.session_id is not None:
        return joined(caller, await caller.sessions.saved.by_id(params.session_id, caller.spec))
    if params.path is not None:
        return joined(caller, await _load(caller, absolute_path(params.path, "$.path")))
    cwd = directory(params.cwd) if params.cwd is not None else caller.spec.cwd
    while (path := await asyncio.to_thread(_store(caller).latest, cwd)) is not None:
        with suppress(NoSession):  # it was deleted in between: another one is the latest
            return joined(caller, await _load(caller, path))
    raise Refused(f"no session of {cwd} is saved", kind="session_not_found", hint="session/new makes one")


def joined(caller: Caller, session: Session) -> Then:
    """The answer that has a session, and the caller attached to it.

    The caller sees what follows the picture in the answer, also what comes before it was sent.
    """
    picture = session.info()

    def begin() -> None:
        if not caller.sees(session):
            caller.attach(session, picture.next_seq - 1)

    return Then(s.SessionResult(session=picture), begin)


async def session_close(caller: Caller, params: s.SessionClose) -> None:
    await caller.sessions.close(session_of(caller, params), "closed")


async def session_delete(caller: Caller, params: s.SessionDelete) -> None:
    async with caller.sessions.saved.found(params.session_id, caller.spec.home) as found:
        if isinstance(found, Session):
            await caller.sessions.delete(found)
        else:
            await asyncio.to_thread(_store(caller).delete, found)


async def session_rename(caller: Caller, params: s.SessionRename) -> s.SessionResult:
    title = " ".join(params.title.split())
    if len(title) > (most := caller.sessions.limits.title_chars):
        raise Refused(f"$.title: expected at most {most} characters, got {len(title)}", kind="invalid_params")
    async with caller.sessions.saved.found(params.session_id, caller.spec.home) as found:
        if not isinstance(found, Session):
            return s.SessionResult(session=await asyncio.to_thread(_rename, caller, found, title))
        if found.log is not None:
            found.log.rename(title)
        found.title = title
        found.changed()
        return s.SessionResult(session=found.info())


def _rename(caller: Caller, path: Path, title: str) -> SessionInfo:
    store = _store(caller)
    store.rename(path, title)
    return _closed(store.read(path), store.row(path), _policy(caller.spec))


def _policy(spec: SessionSpec) -> Approval:
    """What a saved session would be opened with. A folder's own file has no say in it."""
    return policy_of(with_configuration(spec))


def _closed(saved: Saved, row: s.SessionRow, approval: Approval) -> SessionInfo:
    """The picture of a session that is not open: nothing is live in it."""
    return SessionInfo(
        session_id=row.session_id,
        epoch="",
        next_seq=1,
        path=row.path,
        title=row.title,
        cwd=row.cwd,
        trusted=row.trusted,
        provider=row.provider,
        model=row.model,
        reasoning=saved.reasoning,
        approval=approval,
        ephemeral=False,
        created=row.created,
        updated=row.updated,
        message_count=row.message_count,
        last_message_id=saved.last_id,
        busy=False,
        queue=[],
        usage=saved.usage,
        context=ContextUse(),
        notes=[],
        panels=[],
        pending_approvals=[],
        extensions=[],
    )


async def session_list(caller: Caller, params: s.SessionList) -> s.SessionRows:
    limits = caller.sessions.limits
    limit = limits.sessions_listed if params.limit is None else params.limit
    if params.cursor and not is_cursor(params.cursor):
        raise Refused(
            f"$.cursor: expected `next_cursor` of a page, got {params.cursor!r}", kind="invalid_params"
        )
    cwd = absolute_path(params.cwd, "$.cwd") if params.cwd is not None else None
    most = min(limit, limits.sessions_page)
    of_open = [live(session) for session in caller.sessions.all()]
    page = partial(listed, _store(caller), of_open, cwd, params.cursor or "", most)
    (rows, cursor), policy = await asyncio.gather(
        asyncio.to_thread(page), asyncio.to_thread(_policy, caller.spec)
    )
    rows = [row if row.open else with_fields(row, approval=policy) for row in rows]
    return s.SessionRows(sessions=rows, next_cursor=cursor)


async def session_fork(caller: Caller, params: s.SessionFork) -> Then:
    async with caller.sessions.saved.found(params.session_id, caller.spec.home) as found:
        if isinstance(found, Session):
            # What an editor makes waits for trust, whoever had opened what it is made from.
            spec = replace(caller.sessions.spec_of(found), asks_trust=True)
            spec = replace(spec, approves=caller.spec.approves, headless=False, alone=caller.spec.alone)
            if found.log is None or not found.log.saved:
                return joined(caller, _fork_unsaved(caller, found, spec, params.message_id))
            found.log.flush()
            found.log.check_place()
            path = found.log.path
        else:
            spec, path = caller.spec, found
        fork = await asyncio.to_thread(_store(caller).fork, path, params.message_id)
    return joined(caller, await caller.sessions.saved.load(replace(spec, saved=fork, ephemeral=False)))


def _fork_unsaved(caller: Caller, session: Session, spec: SessionSpec, message_id: int) -> Session:
    """A fork of a session without a file has none either."""
    saved = saved_of(session)
    saved.messages = session.transcript.messages[: max(0, message_id + 1 - saved.first_id)]
    if not saved.first_id <= message_id <= session.transcript.last_id:
        raise NoMessage(f"session {session.id} has no message {message_id}")
    return caller.sessions.make(replace(spec, saved=None), Beginning.ephemeral(saved), late=True)


async def session_import(caller: Caller, params: s.SessionImport) -> Then:
    if (params.path is None) == (params.content is None):
        raise Refused("$: expected one of path and content", kind="invalid_params")
    cwd = directory(params.cwd) if params.cwd is not None else caller.spec.cwd
    source: Path | bytes
    if params.path is not None:
        source = absolute_path(params.path, "$.path")
    else:
        source = (params.content or "").encode("utf-8", "replace")
    try:
        path = await asyncio.to_thread(_store(caller).import_file, source, cwd)
    except NoSession as missing:
        raise Refused(str(missing), kind="bad_session_file") from None
    return joined(caller, await _load(caller, path))


def _store(caller: Caller) -> SessionStore:
    return caller.sessions.store(caller.spec.home)


async def _load(caller: Caller, path: Path) -> Session:
    return await caller.sessions.saved.load(replace(caller.spec, saved=path, ephemeral=False))


_METHODS: dict[str, Method] = {
    "session/load": session_load,
    "session/close": session_close,
    "session/delete": session_delete,
    "session/rename": session_rename,
    "session/list": session_list,
    "session/fork": session_fork,
    "session/import": session_import,
}

SAVED_METHODS = {name: translated(method) for name, method in _METHODS.items()}
