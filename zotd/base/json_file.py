"""Owns JSON files that both the user and zotd write: read in bounds, and replaced whole.

By `json`: unlike orjson it takes, and writes, names of folders that are no UTF-8.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zotd.base.files import BadFile, read_bytes, stage


def read_json(path: Path, most: int) -> Any:
    """The value in a file of at most so many bytes; an empty object where there is none. Raises BadFile."""
    import json

    data = read_bytes(path, most)
    if data is None:
        return {}
    try:
        return json.loads(data, object_pairs_hook=_each_once)
    except ValueError as error:
        raise BadFile(path, f"expected JSON: {error}") from None
    except RecursionError:
        raise BadFile(path, "expected JSON: it is nested too deeply") from None


def write_json(path: Path, content: dict[str, Any], most: int, mend: str) -> None:
    """Replace the content of a file, through a link where that is one; it is on the disk then.

    mend: what to do about more than `most` bytes. Raises BadFile for that, and OSError.
    """
    import json

    try:
        data = (json.dumps(content, indent=2) + "\n").encode()
    except RecursionError:
        raise BadFile(path, "cannot be written: it is nested too deeply") from None
    if len(data) > most:
        raise BadFile(path, f"would have more than {most} bytes: {mend}")
    stage(Path(os.path.realpath(path)), data, synced=True).commit()


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Of two equal keys one would count, and hide what the other says."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found
