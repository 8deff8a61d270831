"""Owns the reading of `session/new`: its params over what the connection came with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zotd.base.reasoning import named
from zotd.base.secret import Secret
from zotd.daemon.spec import SessionSpec
from zotd.daemon.surroundings import absolute_path, directory, environment
from zotd.protocol import session_methods as s


def spec_from(base: SessionSpec, params: s.SessionNew) -> SessionSpec:
    given: dict[str, Any] = {"ephemeral": params.ephemeral, "saved": None}
    for name in ("provider", "model", "base_url"):
        if value := getattr(params, name):  # forms that are left empty send nothing for them
            given[name] = value
    for name in ("system_prompt", "discover_extensions", "max_steps", "approval"):
        if (value := getattr(params, name)) is not None:
            given[name] = value
    if params.cwd is not None:
        given["cwd"] = directory(params.cwd)
    if params.env is not None:
        given["environ"] = environment(params.env, base.home)
    if params.api_key:
        given["api_key"] = Secret(params.api_key)
    if params.reasoning is not None:
        given["reasoning"] = named(params.reasoning)
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
