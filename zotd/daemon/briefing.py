"""Owns what the model of one session is told beforehand: by the folder, by the user, by extensions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from zotd.agent.ports import Tool
from zotd.agent.system_prompt import system_prompt
from zotd.base.files import BadFile
from zotd.base.limits import Limits
from zotd.daemon.spec import SessionSpec
from zotd.extensions.discovery import Discovery, Located, discover
from zotd.project.instructions import Instructions, find_instructions, read_system
from zotd.project.skills import Skills, body_of, find_skills, places
from zotd.tools.typed import printable

SKILL_TOOL = "skill"


class Briefing:
    """Read from disk by `read`, at the session's start and at each reload; empty before that."""

    def __init__(self, spec: SessionSpec, limits: Limits) -> None:
        self._spec = spec
        self._limits = limits
        self._system = ""
        self._instructions = Instructions()
        self.skills = Skills()

    def has_skills(self, extensions: Iterable[Located]) -> bool:
        """Whether `read` may have much to read."""
        spec = self._spec
        if spec.skills == ():
            return False
        return any(located.manifest.skills for located in extensions) or any(
            os.path.lexists(place) for place in places(spec.cwd, spec.home, spec.user_home)
        )

    def read(self, extensions: Iterable[Located]) -> list[str]:
        """Read all of it again. Returns what is wrong with some of it, a sentence each.

        extensions: those that are to be loaded.
        """
        spec, limits = self._spec, self._limits
        complaints: list[BadFile] = []
        try:
            self._system = "" if spec.system_prompt else read_system(spec.home, limits.instructions_bytes)
        except BadFile as bad:
            self._system = ""
            complaints.append(bad)
        self._instructions = find_instructions(spec.cwd, spec.user_home, limits.instructions_bytes)
        self.skills = skills_of(spec, extensions, limits)
        complaints += [*self._instructions.complaints, *self.skills.complaints]
        names = self.names()
        missing = [name for name in spec.skills or () if name not in names]
        said = [printable(str(bad)) for bad in complaints]
        return said + [f"no skill is named {name!r}" for name in missing]

    def offered(self, tools: Iterable[Tool]) -> list[Tool]:
        """Those of `tools` that make sense: `skill` only where there is one."""
        return [tool for tool in tools if tool.name != SKILL_TOOL or self.skills.found]

    def prompt(self, tools: Iterable[Tool], *, able: bool = True) -> str:
        """The system prompt of a session with these tools.

        able: whether the model can call any. One that cannot is small, and gets no instructions either.
        """
        spec = self._spec
        offered = self.offered(tools) if able else []
        loads = any(tool.name == SKILL_TOOL for tool in offered)
        prompt = system_prompt(
            spec.cwd,
            offered,
            spec.system_prompt or self._system,
            spec.append_system_prompt,
            instructions=self._instructions.texts if able else None,
            skills=self.skills.listing() if loads else "",
        )
        return printable(prompt)

    # What the skill tool asks

    def names(self) -> list[str]:
        return [skill.name for skill in self.skills.found]

    def load(self, name: str) -> tuple[Path, str]:
        """The skill's directory and its instructions. Raises ValueError saying why it cannot be read."""
        path = next(skill.path for skill in self.skills.found if skill.name == name)
        try:
            return path.parent, body_of(path, self._limits)
        except BadFile as bad:
            raise ValueError(str(bad)) from bad


def extensions_of(spec: SessionSpec) -> Discovery:
    """The extensions that a session of `spec` has."""
    return discover(spec.cwd, spec.home, spec.extensions, spec.discover_extensions, spec.trusted)


def skills_of(spec: SessionSpec, extensions: Iterable[Located], limits: Limits) -> Skills:
    """The skills that a session of `spec` has, with these extensions."""
    if spec.skills == ():
        return Skills()
    return find_skills(spec.cwd, spec.home, spec.user_home, _paths(extensions), limits, spec.skills)


def _paths(extensions: Iterable[Located]) -> Sequence[tuple[str, Sequence[Path]]]:
    return [
        (located.name, [located.directory / path for path in located.manifest.skills])
        for located in extensions
        if located.manifest.skills
    ]
