"""Owns what the JSON-RPC methods about skills and themes do."""

from __future__ import annotations

import asyncio

from zotd.base.files import MAKE_ROOM, BadFile
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.configured import with_configuration
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec
from zotd.daemon.surroundings import absolute_path, directory
from zotd.daemon.trusting import looked_up
from zotd.project.trust import trust
from zotd.protocol import project_methods as m
from zotd.protocol.params import SessionRef
from zotd.tools.typed import printable


async def skill_list(caller: Caller, params: m.SkillList) -> m.SkillsFound:
    session, spec = await _meant(caller, params.session_id)
    skills = await caller.sessions.skills(session, spec)
    rows = [
        m.SkillInfo(name=skill.name, description=skill.description, path=printable(str(skill.path)))
        for skill in skills.found
    ]
    return m.SkillsFound(skills=rows, errors=_errors(skills.complaints))


async def theme_list(caller: Caller, params: m.ThemeList) -> m.ThemesFound:
    _, spec = await _meant(caller, params.session_id)
    themes = await caller.sessions.themes(spec)
    rows = [
        m.ThemeInfo(
            name=printable(row.name),
            source="extension" if row.extension else "user",
            extension=row.extension or None,
            path=printable(str(row.path)),
            theme=row.theme,
        )
        for row in themes.found
    ]
    return m.ThemesFound(themes=rows, errors=_errors(themes.complaints))


async def workspace_trust(caller: Caller, params: m.WorkspaceTrust) -> Then:
    if "\0" in params.cwd:
        raise Refused("$.cwd: expected a path without NUL characters", kind="invalid_params")
    # What is trusted has to be there; what no longer is may be gone.
    folder = directory(params.cwd) if params.trusted else absolute_path(params.cwd, "$.cwd")
    try:
        await asyncio.to_thread(trust, caller.spec.home, folder, params.trusted)
    except BadFile as bad:
        hint = "mend the file or remove it; until then no folder is trusted"
        raise Refused(printable(str(bad)), kind="storage", hint=hint) from None
    except OSError as error:
        why = f"it was not remembered: {error.filename}: {error.strerror}"
        raise Refused(printable(why), kind="storage", hint=MAKE_ROOM) from None
    return Then(None, caller.sessions.trust_changed)


async def _meant(caller: Caller, session_id: str | None) -> tuple[Session | None, SessionSpec]:
    """A session, once its extensions were looked for, or what a new one would be made from."""
    if session_id is None:
        return None, looked_up(with_configuration(caller.spec))[0]
    named = SessionRef(session_id=session_id)
    if (loading := session_of(caller, named).loading) is not None:
        await asyncio.wait([loading])
    session = session_of(caller, named)  # it may have been closed meanwhile
    return session, caller.sessions.spec_of(session)


def _errors(complaints: list[BadFile]) -> list[m.BadFileInfo]:
    return [
        m.BadFileInfo(path=printable(str(bad.path)), message=printable(bad.message)) for bad in complaints
    ]


PROJECT_METHODS: dict[str, Method] = {
    "skill/list": skill_list,
    "theme/list": theme_list,
    "workspace/trust": workspace_trust,
}
"""Methods by name; `service` serves them with the rest."""
