"""Owns what a session is made from. Light on purpose: flags are read into it before anything heavy loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zotd.base.secret import Secret
from zotd.providers.catalog import Choice, choose

TOKEN_VARIABLES = ("ZOTCORE_RPC_TOKEN", "ZOTD_TOKEN")
"""Our RPC tokens: taken from the environment at start-up, never handed to a child."""


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """Flags, or the params of `session/new`. Empty means the default of RPC clients and flags alike.

    home: `$ZOT_HOME`, and user_home: `$HOME`, both the daemon's own whatever the session's `environ` says.
    environ: what children and providers see.
    tools: names of built-in tools to offer, None for all.
    skills: names of skills to have, None for all that are found.
    extensions: directories given for this session, ahead of discovered ones.
    trusted: whether the project's own extensions may run.
    asks_trust: whether `trusted` is what the user has said of `cwd`, looked up when extensions are loaded.
    max_steps: model calls in one turn, 0 for the default limit.
    approval: `auto`, `ask` or `rules`; "" for what suits whoever opens it.
    approves: whether its client asks its user, so that `ask` suits it.
    headless: whether its own client can never be asked: what would be asked is denied at once.
    alone: whether no other client can come: the process has one.
    given_to: provider that `base_url` and `api_key` are for, where another one was chosen since.
    ephemeral: whether it is never saved.
    saved: the file to go on with, or to make where there is none; None for a new one in its usual place.
    """

    cwd: Path
    home: Path
    user_home: Path
    environ: Mapping[str, str] = field(repr=False)
    provider: str = ""
    model: str = ""
    base_url: str = ""
    api_key: Secret | None = None
    reasoning: str = ""
    script: Path | None = None
    tools: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    system_prompt: str = ""
    append_system_prompt: tuple[str, ...] = ()
    extensions: tuple[Path, ...] = ()
    discover_extensions: bool = True
    trusted: bool = True
    asks_trust: bool = False
    max_steps: int = 0
    approval: str = ""
    approves: bool = False
    headless: bool = False
    alone: bool = False
    given_to: str = ""
    ephemeral: bool = False
    saved: Path | None = None


def chosen(spec: SessionSpec) -> Choice:
    """The model that a spec names. Raises NoCredentials and BadChoice."""
    base_url, api_key = access(spec, spec.provider)
    return choose(
        provider=spec.provider,
        model=spec.model,
        base_url=base_url,
        api_key=api_key,
        environ=spec.environ,
        home=spec.home,
        cwd=spec.cwd,
    )


def access(spec: SessionSpec, provider: str) -> tuple[str, Secret | None]:
    """The base URL and key that were given for a provider, if they were for that one."""
    return (spec.base_url, spec.api_key) if spec.given_to in ("", provider) else ("", None)
