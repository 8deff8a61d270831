"""Owns the shape of `extension.json`, the file that says how an extension is started."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Seconds = Annotated[float, Meta(gt=0)]


class Manifest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of an `extension.json`. Unknown keys are ignored.

    name: how the host knows the extension: 1 to 100 characters, no slashes or control characters among
      them, no dot at the beginning, and not `zotd`.
    version: shown to people.
    exec: the program: absolute, relative to the file's directory, or a bare name to find on `PATH`.
      It may be missing where the directory brings only a theme or skills.
    args: arguments for it.
    language: for information.
    description: one line for lists.
    enabled: false keeps it installed and not started.
    skills: paths inside the directory, each a `SKILL.md` or a folder of them.
    instances: `session` for a process per session, `workspace` for one per project directory.
    hello_timeout: seconds to wait for its first frame; the host's own limit when absent.
    tool_timeout: seconds a tool of it may take; the host's own limit when absent.

    Example: {"name":"weather","version":"1.0.0","exec":"./weather","args":["--mode","daemon"]}
    """

    name: Annotated[str, Meta(min_length=1)]
    version: str = ""
    exec: str = ""
    args: list[str] = field(default_factory=list)
    language: str = ""
    description: str = ""
    enabled: bool = True
    skills: list[str] = field(default_factory=list)
    instances: Literal["session", "workspace"] = "session"
    hello_timeout: Seconds | None = None
    tool_timeout: Seconds | None = None
