"""Owns all sessions of one process: opens them from a spec, finds them, closes them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.agent.ports import NotKept, Tool
from zotd.base.limits import Limits
from zotd.base.memory import GiveBack
from zotd.base.tasks import Tasks
from zotd.daemon.answering import answering, model_of
from zotd.daemon.audience import Client, End
from zotd.daemon.beginning import Beginning, begin, continued
from zotd.daemon.briefing import Briefing, extensions_of, skills_of
from zotd.daemon.refused import Refused
from zotd.daemon.reopening import Reopening
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec, chosen
from zotd.daemon.trusting import is_trusted, looked_up
from zotd.extensions.discovery import Discovery
from zotd.extensions.host import ExtensionHost
from zotd.extensions.program import Surroundings
from zotd.project.skills import Skills
from zotd.protocol.events import ExtNotify
from zotd.providers.catalog import BadChoice
from zotd.providers.registry import Providers
from zotd.store.catalog import SessionStore
from zotd.store.errors import OpenAlready
from zotd.store.log import remove_beside, undo_path
from zotd.store.ring import Budget
from zotd.tools import builtin_tools, close_tools
from zotd.tools.changes import Changes
from zotd.tools.skill import SkillTool
from zotd.tools.typed import printable

if TYPE_CHECKING:
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
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._open: dict[str, tuple[Session, SessionSpec, list[Tool]]] = {}
        self._briefings: dict[str, Briefing] = {}
        self._stores: dict[Path, SessionStore] = {}
        self._replay = Budget(limits.replay_bytes_of_all)
        self._memory = GiveBack(limits.give_back_s, self._busy)
        self.saved = Reopening(self, tasks)

    @property
    def limits(self) -> Limits:
        return self._limits

    def store(self, home: Path) -> SessionStore:
        """The saved sessions of a home."""
        if home not in self._stores:
            self._stores[home] = SessionStore(home, self._limits, partial(is_trusted, home))
        return self._stores[home]

    def open(self, spec: SessionSpec, *, late: bool = False) -> Session:
        """A session: a new one, or one that goes on from the file that the spec names. `start` loads its
        extensions; prompts wait for them.

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
        if beginning.session_id in self._open:
            raise OpenAlready(f"session {beginning.session_id} is open already, from another file")
        if beginning.saved is not None:
            spec = continued(spec, beginning.saved)
        choice, provider = answering(spec, self._providers, beginning.saved, late)
        spec, _ = looked_up(spec)
        briefing = Briefing(spec, self._limits)
        kept = undo_path(beginning.path) if beginning.path is not None else None
        changes = Changes(spec.cwd, self._limits, kept)
        builtin = [*builtin_tools(spec.cwd, spec.environ, self._limits, changes), SkillTool(briefing)]
        tools = _selected(builtin, spec.tools)
        beginning.name_model(spec, choice.provider, choice.model)
        session = Session(
            session_id=beginning.session_id,
            cwd=spec.cwd,
            provider=choice.provider,
            model=model_of(choice, provider, spec, briefing.prompt(tools.values(), able=choice.tools)),
            tools={tool.name: tool for tool in briefing.offered(tools.values())},
            limits=self._limits,
            max_steps=spec.max_steps or self._limits.max_steps,
            tasks=self._tasks,
            trusted=spec.trusted,
            beginning=beginning,
            budget=self._replay,
            changes=changes,
        )
        if beginning.saved is not None:
            session.toolbox.activate(beginning.saved.added_tools)
        for prompt in beginning.keyed():
            session.turns.remember_ended(*prompt)
        self._open[session.id] = (session, replace(spec, saved=session.path), builtin)
        self._briefings[session.id] = briefing
        return session

    def start(self, session: Session) -> None:
        """Begin loading the session's extensions, once whoever wants their notes is attached."""
        _, spec, _ = self._open[session.id]
        around = Surroundings(
            spec.home, spec.cwd, spec.environ, session.provider, session.model.id, session.id
        )
        host = ExtensionHost(
            lambda: self._discover(session, spec),
            around,
            surface=session,
            toolbox=session.toolbox,
            limits=self._limits,
            tasks=session.tasks,
            shared=self._sharing,
        )
        session.connect(host)
        for complaint in session.complaints:
            session.publish(ExtNotify(extension="zotd", level="warn", message=printable(complaint)))
        session.loading = session.tasks.create_task(session.load(), name="start of extensions")

    def _sharing(self) -> SharedExtensions:
        """The processes that sessions share, once one asks for such a thing."""
        from zotd.extensions.shared import SharedExtensions

        if self._shared is None:
            self._shared = SharedExtensions(self._limits, self._tasks)
        return self._shared

    async def _discover(self, session: Session, spec: SessionSpec) -> Discovery:
        """What its host is to load; the model is told of the rest of what they and the folder bring."""
        if session.id in self._open:
            spec = self.spec_of(session)
        found = extensions_of(self._trusting(session, spec))
        if (briefing := self._briefings.get(session.id)) is not None:
            # A folder may bring a thousand files: other sessions must not wait for them.
            read = partial(briefing.read, found.found)
            complaints = await asyncio.to_thread(read) if briefing.has_skills(found.found) else read()
            if session.id in self._open:
                self._brief(session, complaints)
        return found

    def _trusting(self, session: Session, spec: SessionSpec) -> SessionSpec:
        """The spec with what is said of its folder now; the session's clients are told when that is new."""
        spec, complaint = looked_up(spec)
        if complaint:
            session.publish(ExtNotify(extension="zotd", level="warn", message=printable(complaint)))
        if session.id in self._open and spec.trusted != session.trusted:
            _, current, builtin = self._open[session.id]
            session.trusted = spec.trusted
            self._open[session.id] = (session, replace(current, trusted=spec.trusted), builtin)
            session.tasks.create_task(self._tell_trust(session), name="news of trust")
        return spec

    async def _tell_trust(self, session: Session) -> None:
        """Once the extensions are there that may run now: the news has them."""
        await session.loaded()
        if session.id in self._open:
            session.changed()

    def ask_trust(self, session: Session) -> None:
        """From its next load of extensions on, those of its folder wait for trust: an editor has it done."""
        _, spec, builtin = self._open[session.id]
        self._open[session.id] = (session, replace(spec, asks_trust=True), builtin)

    def trust_changed(self) -> None:
        """The user has said something of a folder: sessions for which that is news load extensions anew."""
        for session, spec, _ in self._open.values():
            if session.host is not None and looked_up(spec)[0].trusted != session.trusted:
                self._tasks.create_task(self._reload(session, spec), name="reload after news of trust")

    async def _reload(self, session: Session, spec: SessionSpec) -> None:
        """Again, if it was only another's reload, which had read what was said before."""
        for _ in range(2):
            await session.reload()
            if session.id not in self._open or looked_up(spec)[0].trusted == session.trusted:
                return

    def _brief(self, session: Session, complaints: list[str]) -> None:
        """Skills and instructions were read again: from its next call on the model knows them."""
        briefing, (_, spec, builtin) = self._briefings[session.id], self._open[session.id]
        told = complaints[: self._limits.complaints_told]
        if left := len(complaints) - len(told):
            told.append(f"{left} more files of this folder cannot be used; skill/list names them")
        for complaint in told:
            session.publish(ExtNotify(extension="zotd", level="warn", message=complaint))
        tools = _selected(builtin, spec.tools).values()
        offered = briefing.offered(tools)
        for tool in tools:
            if tool.name == SkillTool.name:
                if tool in offered:
                    session.toolbox.add(tool)
                else:
                    session.toolbox.remove(tool.name)
        system = briefing.prompt(tools, able=session.model.tools)
        session.model = replace(session.model, system=system)

    def start_once(self, session: Session) -> None:
        """As `start`, for a session that others may have started, or closed, meanwhile."""
        if self.get(session.id) is session and session.host is None:
            self.start(session)

    def _busy(self) -> bool:
        return any(session.busy for session in self.all())

    def all(self) -> list[Session]:
        """The open sessions."""
        return [session for session, _, _ in self._open.values()]

    def at(self, path: Path) -> Session | None:
        """The open session that is saved in a file, or will be."""
        real = path.resolve()
        logs = ((session, session.log) for session in self.all())
        return next((one for one, log in logs if log is not None and log.path.resolve() == real), None)

    def get(self, session_id: str) -> Session | None:
        entry = self._open.get(session_id)
        return entry[0] if entry is not None else None

    def spec_of(self, session: Session) -> SessionSpec:
        """What an open session was made from."""
        return self._open[session.id][1]

    async def skills(self, session: Session | None, spec: SessionSpec) -> Skills:
        """What the model of an open session can load; without one, what a session of `spec` would have."""
        if session is not None:
            return self._briefings[session.id].skills
        found = extensions_of(spec).found
        return await asyncio.to_thread(skills_of, spec, found, self._limits)

    async def themes(self, spec: SessionSpec) -> Themes:
        """The themes on disk that the user and the extensions of such a session bring."""
        from zotd.project.themes import find_themes

        found = [(located.name, located.directory) for located in extensions_of(spec).found]
        return await asyncio.to_thread(find_themes, spec.home, found, self._limits.theme_bytes)

    def set_model(self, session: Session, model: str, provider: str = "") -> None:
        """Another model, of another provider where one is named, from the next call of a model on.

        model: empty for the provider's first one. The caller tells of it: `changed`. Raises as `open` does.
        """
        _, spec, builtin = self._open[session.id]
        provider, current = provider or session.provider, session.model.provider
        if provider != session.provider:
            spec = replace(spec, given_to=spec.given_to or session.provider)
        spec = replace(spec, provider=provider, model=model, reasoning=session.model.reasoning)
        choice = chosen(spec)
        # A model file is a process of its own; elsewhere one provider serves every model of its API.
        if choice.provider != current.id or choice.weights is not None:
            current = self._providers.open(choice, spec.script if choice.provider == "scripted" else None)
        tools = _selected(builtin, spec.tools).values()
        system = self._briefings[session.id].prompt(tools, able=choice.tools)
        session.provider, session.model = choice.provider, model_of(choice, current, spec, system)
        self._open[session.id] = (session, spec, builtin)
        _write_down_model(session)
        if session.host is not None:
            session.host.use_model(session.provider, session.model.id)

    def set_reasoning(self, session: Session, level: str) -> None:
        """Another level of reasoning, empty for off, from the next call of a model on."""
        session.model = replace(session.model, reasoning=level)
        _write_down_model(session)

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
            _, spec, builtin = self._open.pop(session.id)
            self._stay(session)
            session.refuse()
            closing = self._close(session, spec, builtin, reason)
            self.saved.closing[session] = task = self._tasks.create_task(closing, name="close of a session")
            task.add_done_callback(lambda _: self.saved.closing.pop(session))
        return self.saved.closing.get(session)

    async def _close(
        self, session: Session, spec: SessionSpec, builtin: list[Tool], reason: End | None
    ) -> NotKept | None:
        """Returns what of a deleted session could not be taken away."""
        log = session.log
        saved = log is not None and log.saved
        try:
            await session.close(reason)
        finally:
            del self._briefings[session.id]
            await close_tools(builtin)
            self._memory.soon()
        if log is not None and log.removed:
            try:
                await asyncio.to_thread(remove_beside, log.path)
            except OSError as error:
                return NotKept(undo_path(log.path), error.strerror or str(error))
        elif saved:
            self.saved.remember(session, spec)
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


def _write_down_model(session: Session) -> None:
    """Before anybody is told: whoever was is told the same after a restart."""
    if session.log is not None:
        session.log.use(session.provider, session.model.id, session.model.reasoning)


def _selected(tools: list[Tool], names: tuple[str, ...] | None) -> dict[str, Tool]:
    available = {tool.name: tool for tool in tools}
    if names is None:
        return available
    for at, name in enumerate(names):
        if name not in available:
            raise BadChoice(f"no tool is named {name!r}; there are: {', '.join(available)}", f"tools[{at}]")
    return {name: available[name] for name in names}
