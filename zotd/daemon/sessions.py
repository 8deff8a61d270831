"""Owns all sessions of one process: opens them from a spec, finds them, closes them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.agent.ports import NotKept
from zotd.base.limits import Limits
from zotd.base.memory import GiveBack
from zotd.base.tasks import Tasks
from zotd.daemon.answering import answering, model_of
from zotd.daemon.approvals import policy_of
from zotd.daemon.audience import Client, End
from zotd.daemon.beginning import Beginning, begin, continued
from zotd.daemon.briefing import Briefing, extensions_of, skills_of
from zotd.daemon.configured import configured
from zotd.daemon.gate import Gate
from zotd.daemon.opened import Opened, selected
from zotd.daemon.refused import Refused, draining
from zotd.daemon.reopening import Reopening, is_in
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec
from zotd.daemon.trusting import is_trusted, looked_up
from zotd.extensions.host import ExtensionHost
from zotd.extensions.program import Surroundings
from zotd.project.skills import Skills
from zotd.protocol.session import Approval
from zotd.providers.registry import Providers
from zotd.store.catalog import SessionStore
from zotd.store.errors import OpenAlready
from zotd.store.log import remove_beside, undo_path
from zotd.store.ring import Budget
from zotd.tools import builtin_tools, close_tools
from zotd.tools.changes import Changes
from zotd.tools.skill import SkillTool

if TYPE_CHECKING:
    from zotd.daemon.permission_file import PermissionFile
    from zotd.extensions.shared import SharedExtensions
    from zotd.project.themes import Themes


class Sessions:
    """Open sessions by id. `tasks` owns whatever runs in the background."""

    def __init__(self, limits: Limits, tasks: Tasks, providers: Providers) -> None:
        self._limits = limits
        self._tasks = tasks
        self._providers = providers
        self._shared: SharedExtensions | None = None
        self._over = False
        self._draining = False
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._open: dict[str, Opened] = {}
        self._stores: dict[Path, SessionStore] = {}
        self._permissions: dict[Path, PermissionFile] = {}
        self._replay = Budget(limits.replay_bytes_of_all)
        self._memory = GiveBack(limits.give_back_s, limits.give_back_at_most_s, lambda: self.busy)
        self.saved = Reopening(self, tasks)

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def replay_bytes(self) -> int:
        """Of events that are kept for clients that come back, in all sessions."""
        return self._replay.held

    def store(self, home: Path) -> SessionStore:
        """The saved sessions of a home."""
        if home not in self._stores:
            self._stores[home] = SessionStore(home, self._limits, partial(is_trusted, home))
        return self._stores[home]

    def open(self, spec: SessionSpec, *, late: bool = False) -> Session:
        """A session: a new one, or one that goes on from the file that the spec names.

        Its extensions start as soon as this turn of the event loop is over: who attaches to it before that
        sees all that they say. Prompts wait for them, whoever sends one.

        late: missing credentials, and a saved session's provider that cannot be used, fail the first turn,
        not this call, so that a client can still mend it.

        Raises NoCredentials, BadChoice or ScriptError when the spec names no usable model, BadChoice for an
        unknown tool, and StoreError for a file that cannot be gone on with.
        """
        return self.make(spec, begin(spec, self._limits), late=late)

    def make(self, spec: SessionSpec, beginning: Beginning, *, late: bool = False) -> Session:
        """As `open`, from a beginning that is at hand."""
        try:
            return self._make(spec, beginning, late)
        except BaseException:
            beginning.give_up()
            raise

    def _make(self, spec: SessionSpec, beginning: Beginning, late: bool) -> Session:
        if self._over:
            raise Refused("zotd is ending", kind="session_not_found", hint="start it again")
        if self._draining:
            raise draining()
        if beginning.session_id in self._open:
            raise OpenAlready(f"session {beginning.session_id} is open already, from another file")
        if beginning.saved is not None:
            spec = continued(spec, beginning.saved)
        spec, complaints = configured(spec)
        beginning.complaints += complaints
        choice, provider = answering(spec, self._providers, beginning.saved, late)
        spec, _ = looked_up(spec)
        briefing = Briefing(spec, self._limits)
        kept = undo_path(beginning.path) if beginning.path is not None else None
        changes = Changes(spec.cwd, self._limits, kept)
        builtin = [*builtin_tools(spec.cwd, spec.environ, self._limits, changes), SkillTool(briefing)]
        tools = selected(builtin, spec.tools)
        beginning.name_model(spec, choice.provider, choice.model)
        session = Session(
            session_id=beginning.session_id,
            cwd=spec.cwd,
            provider=choice.provider,
            model=model_of(choice, provider, spec, briefing.prompt(tools, able=choice.tools)),
            tools={tool.name: tool for tool in briefing.offered(tools)},
            limits=self._limits,
            max_steps=spec.max_steps or self._limits.max_steps,
            tasks=self._tasks,
            trusted=spec.trusted,
            beginning=beginning,
            budget=self._replay,
            changes=changes,
            approval=policy_of(spec),
            headless=spec.headless,
            alone=spec.alone,
        )
        if beginning.saved is not None:
            session.toolbox.activate(beginning.saved.added_tools)
        for prompt in beginning.keyed():
            session.turns.remember_ended(*prompt)
        spec = replace(spec, saved=session.path)
        self._open[session.id] = opened = Opened(session, spec, builtin, briefing, self._limits)
        self._start(session, opened)
        return session

    def _start(self, session: Session, opened: Opened) -> None:
        """Give the session its extensions, and have them loaded."""
        spec = opened.spec
        around = Surroundings(
            spec.home, spec.cwd, spec.environ, session.provider, session.model.id, session.id
        )
        host = ExtensionHost(
            opened.discover,
            around,
            surface=session,
            toolbox=session.toolbox,
            limits=self._limits,
            tasks=session.tasks,
            shared=self._sharing,
        )
        gate = Gate(
            host.hooks,
            session,
            home=spec.environ.get("HOME", ""),
            user_home=str(spec.user_home),
            permissions=partial(self._permissions_of, spec.home),
        )
        session.connect(host, gate)
        session.loading = session.tasks.create_task(session.load(), name="start of extensions")

    def _permissions_of(self, home: Path) -> PermissionFile:
        """The user's rules, which all sessions of a home share."""
        from zotd.daemon.permission_file import PermissionFile

        return self._permissions.setdefault(home, PermissionFile(home, self._limits))

    def _sharing(self) -> SharedExtensions:
        """The processes that sessions share, once one asks for such a thing."""
        from zotd.extensions.shared import SharedExtensions

        if self._shared is None:
            self._shared = SharedExtensions(self._limits, self._tasks)
        return self._shared

    def ask_trust(self, session: Session) -> None:
        """From its next load of extensions on, those of its folder wait for trust: an editor has it done."""
        self._open[session.id].ask_trust()

    def trust_changed(self) -> None:
        """The user has said something of a folder: sessions for which that is news load extensions anew."""
        for opened in self._open.values():
            if opened.trust_is_news():
                self._tasks.create_task(opened.reload(), name="reload after news of trust")

    @property
    def busy(self) -> bool:
        """Whether a turn or a command runs, or was accepted and will."""
        return any(session.busy or session.commands.running for session in self.all())

    def drain(self) -> None:
        """Take no new turns and open no session any more; what was accepted goes on."""
        self._draining = True
        for session in self.all():
            session.turns.draining = True

    async def settled(self) -> None:
        """Until no turn, queue or command is left in any session."""
        while self.busy:
            for session in self.all():
                await session.settled()
            await asyncio.sleep(0)

    def all(self) -> list[Session]:
        """The open sessions."""
        return [opened.session for opened in self._open.values()]

    def at(self, path: Path) -> Session | None:
        """The open session that is saved in a file, or will be."""
        real = path.resolve()
        return next((session for session in self.all() if is_in(session, real)), None)

    def get(self, session_id: str) -> Session | None:
        opened = self._open.get(session_id)
        return opened.session if opened is not None else None

    def speaking(self, session_id: str) -> Session | None:
        """An open session, or one that is being closed: it has events until that is done."""
        closing = (session for session in self.saved.closing if session.id == session_id)
        return self.get(session_id) or next(closing, None)

    def spec_of(self, session: Session) -> SessionSpec:
        """What an open session was made from."""
        return self._open[session.id].spec

    async def skills(self, session: Session | None, spec: SessionSpec) -> Skills:
        """What the model of an open session can load; without one, what a session of `spec` would have."""
        if session is not None:
            return self._open[session.id].briefing.skills
        found = extensions_of(spec).found
        return await asyncio.to_thread(skills_of, spec, found, self._limits)

    async def themes(self, spec: SessionSpec) -> Themes:
        """The themes on disk that the user and the extensions of such a session bring."""
        from zotd.project.themes import find_themes

        found = [(located.name, located.directory) for located in extensions_of(spec).found]
        return await asyncio.to_thread(find_themes, spec.home, found, self._limits.theme_bytes)

    def set_model(
        self, session: Session, model: str, provider: str = "", reasoning: str | None = None
    ) -> None:
        """Another model, of another provider where one is named, from the next call of a model on.

        model: empty for the provider's first one. reasoning: None for the same level. The caller tells of it:
        `changed`. Raises as `open` does, and NotKept.
        """
        self._open[session.id].set_model(self._providers, model, provider, reasoning)

    def set_approval(self, session: Session, policy: Approval) -> None:
        """Another policy, from the next call of a tool on. The caller tells of it: `changed`."""
        session.approvals.policy = policy
        opened = self._open[session.id]
        opened.spec = replace(opened.spec, approval=policy)

    def set_reasoning(self, session: Session, level: str) -> None:
        """Another level of reasoning, empty for off, from the next call of a model on. Raises NotKept."""
        self._open[session.id].set_reasoning(level)

    async def leave(self, session: Session, client: Client, *, private: bool) -> None:
        """A client has gone. A private session ends with it, and tells it how; another one goes on."""
        if private:
            await self.close(session)
            session.detach(client)
            return
        session.detach(client)
        self.expire_later(session)

    def expire_later(self, session: Session) -> None:
        """Close a session that nobody sees, unless somebody comes meanwhile."""
        if not session.clients and self.get(session.id) is session:
            self._stay(session)
            task = self._tasks.create_task(self._expire(session), name=f"expiry of {session.id}")
            self._leaving[session.id] = task

    def _stay(self, session: Session) -> None:
        """Its end by lapse of time is off, unless that is what ends it just now."""
        task = self._leaving.get(session.id)
        if task is not None and task is not asyncio.current_task():
            del self._leaving[session.id]
            task.cancel()

    async def _expire(self, session: Session) -> None:
        try:
            while not session.clients and self.get(session.id) is session:
                await session.settled()
                await asyncio.sleep(self._limits.orphan_s)
                if not session.clients and not session.busy:
                    await self.close(session)
        finally:
            if self._leaving.get(session.id) is asyncio.current_task():
                del self._leaving[session.id]

    async def close(self, session: Session, reason: End | None = None) -> None:
        """Abort its turn, stop its extensions, end what its shell commands left behind.

        Once begun it goes on to its end, whoever gives up waiting for that. What the session was made from
        stays in memory: a saved one can be opened again as it was.
        reason: why somebody ends it for everyone who sees it.
        """
        if (closing := self._close_of(session, reason)) is not None:
            await asyncio.shield(closing)

    async def delete(self, session: Session) -> None:
        """Take its file away, and close it. Raises NotKept, and where the file stays the session does too."""
        if session.log is not None:
            session.log.remove()
        if (closing := self._close_of(session, "deleted")) and (left := await asyncio.shield(closing)):
            raise left

    def _close_of(self, session: Session, reason: End | None = None) -> asyncio.Task[NotKept | None] | None:
        """What closes a session: begun here and now, or by somebody else before."""
        if self.get(session.id) is session:
            opened = self._open.pop(session.id)
            self._stay(session)
            session.refuse()
            closing = self._close(opened, reason)
            self.saved.closing[session] = task = self._tasks.create_task(closing, name="close of a session")
            task.add_done_callback(lambda _: self.saved.closing.pop(session))
        return self.saved.closing.get(session)

    async def _close(self, opened: Opened, reason: End | None) -> NotKept | None:
        """Returns what of a deleted session could not be taken away."""
        session, log = opened.session, opened.session.log
        saved = log is not None and log.saved
        try:
            await session.close(reason)
        finally:
            await close_tools(opened.builtin)
            self._memory.soon()
        if log is not None and log.removed:
            try:
                await asyncio.to_thread(remove_beside, log.path)
            except OSError as error:
                return NotKept(undo_path(log.path), error.strerror or str(error))
        elif saved:
            self.saved.remember(session, opened.spec)
        return None

    async def close_all(self) -> None:
        """The end: no session is opened after it."""
        self._over = True
        for task in self._leaving.values():
            task.cancel()
        for session in self.all():
            self._close_of(session)
        await self.saved.closed()
        self._memory.cancel()
        await self._providers.close()
