"""Owns what the user's trust in a folder means for the sessions that work there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from zotd.base.files import BadFile
from zotd.daemon.spec import SessionSpec


def looked_up(spec: SessionSpec) -> tuple[SessionSpec, str]:
    """The spec with what the user has said of its folder until now, and what is wrong with the record of it.

    One that does not depend on it comes back as it is.
    """
    if not spec.asks_trust:
        return spec, ""
    from zotd.project.trust import is_trusted

    try:
        return replace(spec, trusted=is_trusted(spec.home, spec.cwd)), ""
    except BadFile as bad:
        return replace(spec, trusted=False), f"{bad}; until it is mended, no folder is trusted"


def is_trusted(home: Path, folder: Path) -> bool:
    """Whether the user trusts a folder; none is while the record of it is broken."""
    from zotd.project import trust

    try:
        return trust.is_trusted(home, folder)
    except BadFile:
        return False
