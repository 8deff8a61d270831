"""Owns what an open session was made from, and how that changes while it is open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from zotd.agent.loop import Model
from zotd.agent.ports import Tool
from zotd.base.limits import Limits
from zotd.daemon.answering import model_of
from zotd.daemon.briefing import Briefing, extensions_of
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec, chosen
from zotd.daemon.trusting import looked_up
from zotd.extensions.discovery import Discovery
from zotd.protocol.events import ExtNotify
from zotd.providers.catalog import BadChoice
from zotd.providers.registry import Providers
from zotd.tools.skill import SkillTool
from zotd.tools.typed import printable


@dataclass(eq=False, slots=True)
class Opened:
    """A session with its spec, as it is now, its built-in tools, and what its model is told beforehand."""

    session: Session
    spec: SessionSpec
    builtin: list[Tool]
    briefing: Briefing
    limits: Limits

    # What its extensions are loaded from

    async def discover(self) -> Discovery:
        """What its host is to load; the model is told of the rest of what they and the folder bring."""
        self._look_up_trust()
        found = extensions_of(self.spec)
        # A folder may bring a thousand files: other sessions must not wait for them.
        if self.briefing.has_skills(found.found):
            complaints = await asyncio.to_thread(self.briefing.read, found.found)
        else:
            complaints = self.briefing.read(found.found)
        if not self.session.closing:
            self._brief(complaints)
        return found

    def ask_trust(self) -> None:
        """From its next load of extensions on, those of its folder wait for trust: an editor has it done."""
        self.spec = replace(self.spec, asks_trust=True)

    def trust_is_news(self) -> bool:
        """Whether what the user says of its folder is not what its extensions were loaded by."""
        return self.session.host is not None and looked_up(self.spec)[0].trusted != self.session.trusted

    async def reload(self) -> None:
        """Again, if it was only another's reload, which had read what was said before."""
        for _ in range(2):
            await self.session.reload()
            if self.session.closing or not self.trust_is_news():
                return

    def _look_up_trust(self) -> None:
        """Go by what is said of its folder now; the session's clients are told when that is new."""
        self.spec, complaint = looked_up(self.spec)
        if complaint:
            self._complain(complaint)
        if self.spec.trusted != self.session.trusted:
            self.session.trusted = self.spec.trusted
            self.session.tasks.create_task(self._tell_trust(), name="news of trust")

    async def _tell_trust(self) -> None:
        """Once the extensions are there that may run now: the news has them."""
        await self.session.loaded()
        if not self.session.closing:
            self.session.changed()

    # What its model is and knows

    def set_model(
        self, providers: Providers, model: str, provider: str, reasoning: str | None = None
    ) -> None:
        """Another model, of another provider where one is named, from the next call of a model on.

        reasoning: another level of it too, None for the same one. Raises NotKept, and then nothing changes.
        """
        session, spec = self.session, self.spec
        provider, current = provider or session.provider, session.model.provider
        if provider != session.provider:
            spec = replace(spec, given_to=spec.given_to or session.provider)
        if reasoning is None:
            reasoning = session.model.reasoning
        spec = replace(spec, provider=provider, model=model, reasoning=reasoning)
        choice = chosen(spec)
        # A model file is a process of its own; elsewhere one provider serves every model of its API.
        if choice.provider != current.id or choice.weights is not None:
            current = providers.open(choice, spec.script if choice.provider == "scripted" else None)
        system = self.briefing.prompt(self._tools(), able=choice.tools)
        chosen_model = model_of(choice, current, spec, system)
        self._write_down(choice.provider, chosen_model)
        session.provider, session.model, self.spec = choice.provider, chosen_model, spec
        if session.host is not None:
            session.host.use_model(session.provider, session.model.id)

    def set_reasoning(self, level: str) -> None:
        """Another level of reasoning, empty for off, from the next call of a model on. Raises NotKept."""
        model = replace(self.session.model, reasoning=level)
        self._write_down(self.session.provider, model)
        self.session.model = model

    def _write_down(self, provider: str, model: Model) -> None:
        """Before anybody is told: whoever was is told the same after a restart. Raises NotKept."""
        if self.session.log is not None:
            self.session.log.use(provider, model.id, model.reasoning)

    def _brief(self, complaints: list[str]) -> None:
        """Skills and instructions were read again: from its next call on the model knows them."""
        told = complaints[: self.limits.complaints_told]
        if left := len(complaints) - len(told):
            told.append(f"{left} more files of this folder cannot be used; skill/list names them")
        for complaint in told:
            self._complain(complaint)
        session, tools = self.session, self._tools()
        for tool in tools:
            if tool.name == SkillTool.name:
                if tool in self.briefing.offered(tools):
                    session.toolbox.add(tool)
                else:
                    session.toolbox.remove(tool.name)
        system = self.briefing.prompt(tools, able=session.model.tools)
        session.model = replace(session.model, system=system)

    def _tools(self) -> list[Tool]:
        return selected(self.builtin, self.spec.tools)

    def _complain(self, complaint: str) -> None:
        self.session.publish(ExtNotify(extension="zotd", level="warn", message=printable(complaint)))


def selected(tools: list[Tool], names: tuple[str, ...] | None) -> list[Tool]:
    """The tools of these names, all for None. Raises BadChoice for a name that none has."""
    if names is None:
        return tools
    available = {tool.name: tool for tool in tools}
    for at, name in enumerate(names):
        if name not in available:
            raise BadChoice(f"no tool is named {name!r}; there are: {', '.join(available)}", f"tools[{at}]")
    return [available[name] for name in names]
