"""Owns the methods about what a folder, its user and its extensions bring, and about models."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from zotd.protocol.params import Params
from zotd.protocol.theme import Theme


class BadFileInfo(Struct, frozen=True, kw_only=True):
    """A file that was left out.

    path: which, absolute.
    message: the key that is wrong and what was expected.

    Example: {"path":"/home/user/.local/state/zot/themes/dusk.json","message":"fg: expected a colour: a whole number from 0 to 255"}
    """  # noqa: E501

    path: str
    message: str


class SkillList(Params, frozen=True, kw_only=True):
    """Asks for the skills of a session, or those that a new one in the connection's directory would have.

    session_id: as `session/new` gave it.

    Example: {"session_id":"8f37d5f6"}
    """

    session_id: str | None = None


class SkillInfo(Struct, frozen=True, kw_only=True):
    """A skill that the model can load.

    name: what the model calls it; of an extension, `<extension>:<name>`.
    description: one line: when to use it.
    path: its `SKILL.md`, absolute.

    Example: {"name":"release-notes","description":"Write release notes.","path":"/home/user/project/.zot/skills/release-notes/SKILL.md"}
    """  # noqa: E501

    name: str
    description: str
    path: str


class SkillsFound(Struct, frozen=True, kw_only=True):
    """Answers `skill/list`.

    skills: in the order the model sees them.
    errors: files that look like skills and cannot be used.

    Example: {"skills":[{"name":"release-notes","description":"Write release notes.","path":"/home/user/project/.zot/skills/release-notes/SKILL.md"}],"errors":[]}
    """  # noqa: E501

    skills: list[SkillInfo]
    errors: list[BadFileInfo]


class ThemeList(Params, frozen=True, kw_only=True):
    """Asks for the themes of the user and of the extensions of a session.

    session_id: as `session/new` gave it; those of a new one in the connection's directory when absent.

    Example: {}
    """

    session_id: str | None = None


class ThemeInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A theme that front ends can use.

    name: what people choose it by.
    source: who brings it.
    extension: which one, when an extension does.
    path: its file, absolute.
    theme: what it says, checked; unknown keys are left out.

    Example: {"name":"dusk","source":"user","path":"/home/user/.local/state/zot/themes/dusk.json","theme":{"fg":252}}
    """  # noqa: E501

    name: str
    source: Literal["user", "extension"]
    extension: str | None = None
    path: str
    theme: Theme


class ThemesFound(Struct, frozen=True, kw_only=True):
    """Answers `theme/list`.

    themes: the user's by file name, then those of extensions in load order; names are unique.
    errors: theme files that cannot be used.

    Example: {"themes":[{"name":"dusk","source":"user","path":"/home/user/.local/state/zot/themes/dusk.json","theme":{"fg":252}}],"errors":[]}
    """  # noqa: E501

    themes: list[ThemeInfo]
    errors: list[BadFileInfo]


class WorkspaceTrust(Params, frozen=True, kw_only=True):
    """Says whether the extensions that a folder brings may run, in it and in folders below it. Remembered.

    Open sessions for which that changes something load their extensions anew; `session_changed` tells their
    clients when it is done.

    cwd: absolute path of the folder.
    trusted: whether the user trusts it.

    Example: {"cwd":"/home/user/project","trusted":true}
    """

    cwd: str
    trusted: bool


class ModelList(Params, frozen=True, kw_only=True):
    """Asks for the models that can be named.

    session_id: as `session/new` gave it: its environment and key decide; the connection's when absent.

    Example: {}
    """

    session_id: str | None = None


class ModelInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model.

    provider: id of its provider.
    id: what `model` takes.
    name: as people know it.
    context_window: tokens it can hold, 0 when unknown.
    max_output: tokens of one answer, 0 when unknown.
    reasoning: whether it takes a level.
    images: whether it sees pictures.
    tools: whether it can call tools.
    available: whether it can be used as things are: credentials are there, weights are installed.

    Example: {"provider":"scripted","id":"scripted","name":"Scripted answers","context_window":0,"max_output":0,"reasoning":false,"images":true,"tools":true,"available":true}
    """  # noqa: E501

    provider: str
    id: str
    name: str
    context_window: int
    max_output: int
    reasoning: bool
    images: bool
    tools: bool
    available: bool


class Models(Struct, frozen=True, kw_only=True):
    """Answers `model/list`.

    models: grouped by provider.

    Example: {"models":[]}
    """

    models: list[ModelInfo]


class ProviderList(Params, frozen=True, kw_only=True):
    """Asks for the providers of models.

    session_id: as `session/new` gave it: its environment and key decide; the connection's when absent.

    Example: {}
    """

    session_id: str | None = None


class ProviderInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who serves models.

    id: what `provider` takes.
    name: as people know it.
    authenticated: whether it can be asked: a key is there, or none is needed.
    source: where the key came from, such as `OPENAI_API_KEY`; never the key.

    Example: {"id":"scripted","name":"Scripted answers","authenticated":true}
    """

    id: str
    name: str
    authenticated: bool
    source: str | None = None


class ProvidersFound(Struct, frozen=True, kw_only=True):
    """Answers `provider/list`.

    providers: all that this version knows.

    Example: {"providers":[{"id":"scripted","name":"Scripted answers","authenticated":true}]}
    """

    providers: list[ProviderInfo]
