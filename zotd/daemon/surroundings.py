"""Owns the checking of what a client says of where it is: its folder, its paths, its environment.

Light, for a preface is read before anything else is loaded.
"""

from __future__ import annotations

from pathlib import Path

from zotd.daemon.refused import Refused
from zotd.daemon.spec import TOKEN_VARIABLES


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
    try:
        if directory.is_dir():
            return directory
    except OSError as error:  # its name is too long, or a folder on the way is not to be entered
        raise Refused(f"$.cwd: {path!r:.200}: {error.strerror}", kind="invalid_params") from None
    raise Refused(f"$.cwd: {directory} is not a directory", kind="invalid_params")


def absolute_path(path: str, where: str) -> Path:
    """A path of a client, which need not work where the daemon does. `where`: the JSON path of it."""
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:  # ~somebody, who does not exist
        expanded = Path()
    if not expanded.is_absolute():
        raise Refused(f"{where}: expected an absolute path, got {path!r}", kind="invalid_params")
    return expanded
