"""Owns the way back into saved sessions: by one opening per file, with what they were made from before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.base.tasks import Tasks
from zotd.daemon.beginning import begin
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec
from zotd.providers.catalog import BadChoice
from zotd.store.errors import NoSession, StoreError

if TYPE_CHECKING:
    from zotd.daemon.sessions import Sessions


class Reopening:
    """Loads sessions that are saved and not open. Flags and environment of those that were closed are kept in
    memory, and nowhere else: who comes back finds a session as it was.
    """

    def __init__(self, sessions: Sessions, tasks: Tasks) -> None:
        self._sessions = sessions
        self._tasks = tasks
        self._loading: dict[Path, asyncio.Task[Session | Exception]] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._closed: dict[str, SessionSpec] = {}

    async def by_id(self, session_id: str, spec: SessionSpec) -> Session:
        """The session of that id, or with an id that begins so: as it is open, or else from its file.

        spec: for one that this process has not had open before. Raises as `load` does.
        """
        if (session := self._sessions.get(session_id)) is not None:
            return session
        await self._closed_whole()
        path = await asyncio.to_thread(self._sessions.store(spec.home).find, session_id)
        return await self.load(replace(spec, saved=path, ephemeral=False))

    async def load(self, spec: SessionSpec) -> Session:
        """The session of the file that a spec names: the one that is open, or one that goes on from it.

        Its extensions do not run before it is started. Without a client it is closed after a while.
        Raises StoreError, and BadChoice for an unknown tool.
        """
        assert spec.saved is not None
        key = await asyncio.to_thread(spec.saved.resolve)
        loading = self._loading.get(key)
        if loading is None:
            loading = self._tasks.create_task(self._load(spec, key), name="load of a session")
            self._loading[key] = loading
        # Whoever gives up waiting leaves it to the others.
        loaded = await asyncio.shield(loading)
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    @contextmanager
    def closing(self, session: Session, spec: SessionSpec) -> Iterator[None]:
        """While a session closes: who wants it again waits for that. spec: what it was made from."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing.add(done)
        saved = session.log is not None and session.log.saved
        try:
            yield
        finally:
            self._closing.discard(done)
            done.set_result(None)
        if saved:
            model = session.model
            spec = replace(spec, provider=session.provider, model=model.id, reasoning=model.reasoning)
            self._closed[session.id] = spec
            while len(self._closed) > self._sessions.limits.closed_kept:
                del self._closed[next(iter(self._closed))]

    async def _closed_whole(self) -> None:
        while self._closing:
            await asyncio.wait(tuple(self._closing))

    async def _load(self, spec: SessionSpec, key: Path) -> Session | Exception:
        """The error comes back as it is: a task that fails is a mistake of ours, which this is not."""
        try:
            await self._closed_whole()
            if (open_already := self._sessions.at(key)) is not None:
                return open_already
            if not key.exists():
                return NoSession(f"there is no session file {key}")
            beginning = await asyncio.to_thread(begin, spec, self._sessions.limits)
            before = self._closed.pop(beginning.session_id, None)
            if before is not None:
                # What an editor brings back waits for trust, whoever had it open before.
                asks = before.asks_trust or spec.asks_trust
                spec = replace(before, saved=spec.saved, asks_trust=asks)
            session = self._sessions.make(spec, beginning, late=True)
            self._sessions.expire_later(session)
            return session
        except (StoreError, BadChoice, OSError) as wrong:
            return wrong
        finally:
            del self._loading[key]
