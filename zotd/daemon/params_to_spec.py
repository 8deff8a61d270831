"""Owns the reading of `session/new`: its params over what the connection came with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from zotd.base.reasoning import SAME
from zotd.base.secret import Secret
from zotd.daemon.calls import Refused
from zotd.daemon.spec import TOKEN_VARIABLES, SessionSpec
from zotd.protocol import session_methods as s


def spec_from(base: SessionSpec, params: s.SessionNew) -> SessionSpec:
    given: dict[str, Any] = {"ephemeral": params.ephemeral, "saved": None}
    for name in ("provider", "model", "base_url", "system_prompt", "discover_extensions", "max_steps"):
        if (value := getattr(params, name)) is not None:
            given[name] = value
    if params.max_steps is not None and params.max_steps < 1:
        raise Refused("$.max_steps must be at least 1", kind="invalid_params")
    if params.cwd is not None:
        given["cwd"] = directory(params.cwd)
    if params.env is not None:
        given["environ"] = environment(params.env, base.home)
    if params.api_key is not None:
        given["api_key"] = Secret(params.api_key)
    if params.reasoning is not None:
        given["reasoning"] = SAME.get(params.reasoning, params.reasoning)
    if params.append_system_prompt is not None:
        given["append_system_prompt"] = tuple(params.append_system_prompt)
    if params.tools is not None:
        given["tools"] = tuple(params.tools)
    if params.skills is not None:
        all_or_none = None if params.skills else ()
        given["skills"] = tuple(params.skills) if isinstance(params.skills, list) else all_or_none
    if params.extensions is not None:
        given["extensions"] = tuple(
            absolute_path(path, f"$.extensions[{index}]") for index, path in enumerate(params.extensions)
        )
    return replace(base, **given)


def environment(environ: dict[str, str], home: Path) -> dict[str, str]:
    """What children get of a client's environment. Refuses what no program could be started with."""
    for name, value in environ.items():
        if not name or "=" in name or "\0" in name:
            raise Refused(f"$.env: {name!r} is no name of a variable", kind="invalid_params")
        if "\0" in value:
            raise Refused(f"$.env.{name}: expected a text without NUL characters", kind="invalid_params")
    # A zot that a child starts has the same home as the daemon, and no token of it.
    return {name: value for name, value in environ.items() if name not in TOKEN_VARIABLES} | {
        "ZOT_HOME": str(home)
    }


def directory(path: str) -> Path:
    directory = absolute_path(path, "$.cwd")
    if not directory.is_dir():
        raise Refused(f"$.cwd: {directory} is not a directory", kind="invalid_params")
    return directory


def absolute_path(path: str, where: str) -> Path:
    """A path of a client, which need not work where the daemon does. `where`: the JSON path of it."""
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:  # ~somebody, who does not exist
        expanded = Path()
    if not expanded.is_absolute():
        raise Refused(f"{where}: expected an absolute path, got {path!r}", kind="invalid_params")
    return expanded
