"""Owns which folders the user trusts: the extensions that those bring may run for any client.

Kept in `$ZOT_HOME/trusted.json` as `{"folders": {"/home/user/project": true}}`. What was said of a folder
holds for those below it of which nothing was said. Where nothing was said, nothing is trusted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zotd.base.files import BadFile, alone, make_private
from zotd.base.json_file import read_json, write_json
from zotd.base.limits import Limits

TRUSTED = "trusted.json"
FOLDERS = "folders"
TRUST_BYTES = Limits().trust_bytes


def is_trusted(zot_home: Path, folder: Path) -> bool:
    """Whether the user trusts a folder, symbolic links in its path resolved. Raises BadFile."""
    said = decisions(zot_home)
    try:
        real = Path(os.path.realpath(folder))
    except ValueError:  # NUL, from a session file that somebody wrote: there is no such folder
        return False
    return next((said[place] for place in (real, *real.parents) if place in said), False)


def decisions(zot_home: Path) -> dict[Path, bool]:
    """What was said, by folder: whether it is trusted. Raises BadFile."""
    said = _read(zot_home / TRUSTED).get(FOLDERS, {})
    return {Path(folder): trusted for folder, trusted in said.items()}


def trust(zot_home: Path, folder: Path, trusted: bool) -> Path:
    """Remember whether the user trusts a folder; returns it with symbolic links resolved.

    Whoever reads sees the old file or the new one. Raises BadFile, and leaves the file alone, when it is
    broken; OSError when it cannot be written.
    """
    real = Path(os.path.realpath(folder))
    make_private(zot_home)
    with alone(zot_home / f"{TRUSTED}.lock", Limits().permissions_lock_s):
        content = _read(zot_home / TRUSTED)
        content[FOLDERS] = {**content.get(FOLDERS, {}), str(real): trusted}
        write_json(zot_home / TRUSTED, content, TRUST_BYTES, "remove folders that are gone")
    return real


def _read(path: Path) -> dict[str, Any]:
    """The file's content, checked; unknown keys are part of it."""
    content = read_json(path, TRUST_BYTES)
    if not isinstance(content, dict):
        raise BadFile(path, "expected a JSON object")
    said = content.get(FOLDERS, {})
    if not isinstance(said, dict):
        raise BadFile(path, f"{FOLDERS}: expected an object")
    for folder, trusted in said.items():
        if not isinstance(trusted, bool):
            import json

            raise BadFile(path, f"{FOLDERS}[{json.dumps(folder)}]: expected true or false")
    return content
