"""Owns the way back into saved sessions: by one opening per file, with what they were made from before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from zotd.agent.ports import NotKept, ProviderError
from zotd.base.files import is_there
from zotd.base.tasks import Tasks
from zotd.daemon.beginning import begin
from zotd.daemon.refused import Refused
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec
from zotd.providers.catalog import BadChoice, NoCredentials
from zotd.store.errors import Ambiguous, BadSessionFile, NoSession, StoreError
from zotd.store.log import real_path

if TYPE_CHECKING:
    from zotd.daemon.sessions import Sessions


class Reopening:
    """Loads sessions that are saved and not open. Flags and environment of those that were closed are kept in
    memory, and nowhere else: who comes back finds a session as it was.
    """

    def __init__(self, sessions: Sessions, tasks: Tasks) -> None:
        self._sessions = sessions
        self._tasks = tasks
        self._files: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self.closing: dict[Session, asyncio.Task[NotKept | None]] = {}
        """Sessions that are being closed: who wants them again waits for that."""
        self._closed: dict[str, SessionSpec] = {}

    async def by_id(self, session_id: str, spec: SessionSpec) -> Session:
        """The session of that id, or with an id that begins so: as it is open, or else from its file.

        spec: for one that this process has not had open before. Raises as `load` does.
        """
        if (session := self._sessions.get(session_id)) is not None:
            return session
        await self.closed(lambda one: one.id.startswith(session_id))
        beginning = self._beginning(session_id)
        path = None
        try:
            path = await asyncio.to_thread(self._sessions.store(spec.home).find, session_id)
        except NoSession:
            if not beginning:
                raise
        others = (
            beginning if path is None else [one for one in beginning if one is not self._sessions.at(path)]
        )
        if path is None and len(others) == 1:
            return others[0]
        if path is None or others:
            names = ", ".join(sorted(session.id for session in others))
            raise Ambiguous(f"several sessions begin with {session_id!r}; of the open ones: {names}")
        return await self.load(replace(spec, saved=path, ephemeral=False))

    def _beginning(self, session_id: str) -> list[Session]:
        """The open sessions whose ids begin so."""
        if len(session_id) < self._sessions.limits.session_prefix_chars:
            return []
        return [session for session in self._sessions.all() if session.id.startswith(session_id)]

    async def load(self, spec: SessionSpec) -> Session:
        """The session of the file that a spec names: the one that is open, or one that goes on from it.

        Without a client it is closed after a while.
        Raises StoreError, and BadChoice for an unknown tool.
        """
        return await self._reached(spec, as_said=False)

    async def open(self, spec: SessionSpec) -> Session:
        """As `load`, for a client whose own flags count, and whose file may be still to come.

        Raises NoCredentials and what else `Sessions.open` does, too.
        """
        return await self._reached(spec, as_said=True)

    async def _reached(self, spec: SessionSpec, *, as_said: bool) -> Session:
        assert spec.saved is not None
        key = await asyncio.to_thread(real_path, spec.saved)
        opening = self._tasks.create_task(self._load(spec, key, as_said), name="load of a session")
        # Whoever gives up waiting leaves it to the others.
        loaded = await asyncio.shield(opening)
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    @asynccontextmanager
    async def found(self, session_id: str, home: Path) -> AsyncIterator[Session | Path]:
        """The session of an id, or with an id that begins so: as it is open, or else its file, which nobody
        here opens before the block ends. Raises NoSession, Ambiguous.
        """
        await self.closed(lambda one: one.id.startswith(session_id))
        if (session := self._sessions.get(session_id)) is not None:
            yield session
            return
        path = await asyncio.to_thread(self._sessions.store(home).find, session_id)
        key = await asyncio.to_thread(real_path, path)
        async with self._alone(key):
            await self.closed(lambda one: is_in(one, key))
            yield self._sessions.at(key) or path

    async def closed(self, concerns: Callable[[Session], bool] = lambda session: True) -> None:
        """Until none of the sessions that it concerns is being closed."""
        while pending := [task for session, task in self.closing.items() if concerns(session)]:
            await asyncio.wait(pending)

    def remember(self, session: Session, spec: SessionSpec) -> None:
        """What a session that was closed was made from, in case somebody wants it again."""
        model = session.model
        spec = replace(spec, provider=session.provider, model=model.id, reasoning=model.reasoning)
        self._closed[session.id] = spec
        while len(self._closed) > self._sessions.limits.closed_kept:
            del self._closed[next(iter(self._closed))]

    def _alone(self, key: Path) -> asyncio.Lock:
        """Held by who has to do with the file of a session that is not open."""
        return self._files.setdefault(key, asyncio.Lock())

    async def _load(self, spec: SessionSpec, key: Path, as_said: bool) -> Session | Exception:
        """The error comes back as it is: a task that fails is a mistake of ours, which this is not."""
        try:
            async with self._alone(key):
                return await self._opened(spec, key, as_said)
        except (StoreError, BadChoice, NoCredentials, ProviderError, Refused) as wrong:
            return wrong
        except OSError as wrong:
            return BadSessionFile(key, 0, f"cannot be read: {wrong.strerror or wrong}")

    async def _opened(self, spec: SessionSpec, key: Path, as_said: bool) -> Session:
        await self.closed(lambda one: is_in(one, key))
        if (open_already := self._sessions.at(key)) is not None:
            if as_said:
                _refuse_looser(open_already, spec)
            return open_already
        if not as_said and not is_there(key):
            raise NoSession(f"there is no session file {key}")
        beginning = await asyncio.to_thread(begin, spec, self._sessions.limits)
        await self.closed(lambda one: one.id == beginning.session_id)  # from a copy of the file
        before = self._closed.pop(beginning.session_id, None)
        if before is not None and not as_said:
            # What an editor brings back waits for trust, whoever had it open before; whether calls are asked
            # about is up to who brings it back.
            asks = before.asks_trust or spec.asks_trust
            before = replace(before, approval=spec.approval, approves=spec.approves)
            before = replace(before, headless=spec.headless, alone=spec.alone)
            spec = replace(before, saved=spec.saved, asks_trust=asks)
        session = self._sessions.make(spec, beginning, late=not as_said)
        self._sessions.expire_later(session)
        return session


def _refuse_looser(session: Session, spec: SessionSpec) -> None:
    """Raises Refused where a session that is open lets more run than the flags of who wants to join it."""
    policy = session.approvals.policy
    if spec.approval and _LOOSEST_FIRST.index(policy) < _LOOSEST_FIRST.index(spec.approval):
        raise Refused(
            f"session {session.id} is open with --approval {policy}: "
            f"more runs there than --approval {spec.approval} would let run",
            kind="configuration",
            hint=f"close it where it is open, or join it with --approval {policy}",
        )


_LOOSEST_FIRST = ("auto", "rules", "ask")


def is_in(session: Session, file: Path) -> bool:
    """Whether a session is saved in a file, or will be. file: its real path."""
    return session.path is not None and session.path.resolve() == file
