"""Owns what of a parsed command line goes into a preface: the flags of a session, by their long names."""

from __future__ import annotations

import os
from typing import Any

from zotd.base.paths import absolute
from zotd.cli.connect import Call
from zotd.cli.flags import Flags


class Unsendable(Exception):
    """A flag that no shared daemon can be told of. The message names it and says what to do."""


def call_of(flags: Flags) -> Call:
    """Whom a command line wants to reach, and what is said of its sessions. Raises Unsendable, OSError."""
    cwd = absolute(flags.cwd or ".", "--cwd")
    if not cwd.is_dir():
        raise NotADirectoryError(f"--cwd {flags.cwd}: {cwd} is not a directory")
    own = (
        ("--temperature", flags.temperature is not None),
        ("--insecure", flags.insecure),
        ("--log-level", bool(flags.log_level)),
    )
    for name, given in own:
        if given:
            raise Unsendable(f"{name} does not go with --connect: a shared daemon has its own; leave one out")
    said: dict[str, Any] = {
        "provider": flags.provider,
        "model": flags.model,
        "api_key": flags.api_key,
        "base_url": flags.base_url,
        "reasoning": flags.reasoning,
        "script": str(absolute(flags.script, "--script")) if flags.script else "",
        "tools": list(flags.tools or ()),
        "no_tools": flags.tools == (),
        "skills": list(flags.skills or ()),
        "no_skill": flags.skills == (),
        "system_prompt": flags.system_prompt,
        "append_system_prompt": list(flags.append_system_prompt),
        "ext": [str(absolute(path, "--ext")) for path in flags.extensions],
        "no_ext": not flags.discover_extensions,
        "session": _session(flags.session),
        "continue": flags.latest,
        "no_session": flags.no_session,
        "max_steps": flags.max_steps,
        "approval": flags.approval,
    }
    return Call(flags.connect, str(cwd), {name: value for name, value in said.items() if value})


def _session(word: str) -> str:
    """A file by its absolute path; an id as it is."""
    if not word:
        return ""
    from zotd.store.catalog import names_a_file

    return os.fspath(absolute(word, "--session")) if names_a_file(word) else word
