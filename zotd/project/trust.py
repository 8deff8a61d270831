"""Owns which folders the user trusts: the extensions that those bring may run for any client.

Kept in `$ZOT_HOME/trusted.json` as `{"folders": {"/home/user/project": true}}`. What was said of a folder
holds for those below it of which nothing was said. Where nothing was said, nothing is trusted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zotd.base.files import BadFile, alone, make_private, read_bytes, stage
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
        _write(zot_home / TRUSTED, content)
    return real


def _read(path: Path) -> dict[str, Any]:
    """The file's content, checked; unknown keys are part of it."""
    import json  # unlike orjson it takes, and writes, names of folders that are no UTF-8

    data = read_bytes(path, TRUST_BYTES)
    if data is None:
        return {}
    try:
        content = json.loads(data)
    except ValueError as error:
        raise BadFile(path, f"expected JSON: {error}") from None
    except RecursionError:
        raise BadFile(path, "expected JSON: it is nested too deeply") from None
    if not isinstance(content, dict):
        raise BadFile(path, "expected a JSON object")
    said = content.get(FOLDERS, {})
    if not isinstance(said, dict):
        raise BadFile(path, f"{FOLDERS}: expected an object")
    for folder, trusted in said.items():
        if not isinstance(trusted, bool):
            raise BadFile(path, f"{FOLDERS}[{json.dumps(folder)}]: expected true or false")
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    import json

    try:
        data = (json.dumps(content, indent=2) + "\n").encode()
    except RecursionError:
        raise BadFile(path, "cannot be written: it is nested too deeply") from None
    if len(data) > TRUST_BYTES:
        raise BadFile(path, f"would have more than {TRUST_BYTES} bytes: remove folders that are gone")
    stage(Path(os.path.realpath(path)), data, synced=True).commit()
