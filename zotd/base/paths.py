"""Owns where files live: `$ZOT_HOME` and what is under it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from zotd.base import places


def user_home(environ: Mapping[str, str]) -> Path:
    """`$HOME`, else what the system knows of the user: `/` for one it does not know, as containers have."""
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:
        return Path("/")


def zot_home(environ: Mapping[str, str] | None = None) -> Path:
    """The directory that holds extensions, logs, models and sessions; it may not exist yet.

    `ZOT_HOME` wins, then `$XDG_STATE_HOME/zot` on any platform, then the platform's own place: the
    protocol document's section on discovery gives them. Raises OSError.
    """
    environ = os.environ if environ is None else environ
    if home := environ.get("ZOT_HOME"):
        return absolute(home, "ZOT_HOME")
    if state := environ.get("XDG_STATE_HOME"):
        return Path(state) / "zot"
    platform: str = sys.platform
    if platform == "linux":
        return user_home(environ) / ".local" / "state" / "zot"
    from platformdirs import user_data_dir, user_state_dir

    if platform == "win32":
        return Path(user_data_dir("zot", appauthor=False))
    return Path(user_state_dir("zot"))


def run_directory(environ: Mapping[str, str], home: Path) -> Path:
    """Where the user's daemon is met: `$XDG_RUNTIME_DIR/zotd`, elsewhere under its home. It may not exist."""
    return Path(places.run_directory(environ, str(home)))


def daemon_socket(environ: Mapping[str, str], home: Path) -> Path:
    """The socket of the user's daemon."""
    return Path(places.daemon_socket(environ, str(home)))


def daemon_log(home: Path) -> Path:
    """What a daemon that was started in the background writes."""
    return home / "logs" / "zotd.log"


def absolute(path: str, name: str) -> Path:
    """A path that a person gave under `name`, `~` taken for a home. Raises OSError naming both."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise FileNotFoundError(f"{name} {path}: there is no such user's home") from None


def extension_log(home: Path, name: str) -> Path:
    """The log of extension `name`, of no other; characters that no file name should have are `%` and hex."""
    safe = "".join(f"%{ord(c):02X}" if c in "/\\%" or ord(c) < 32 or ord(c) == 127 else c for c in name)
    return home / "logs" / f"ext-{safe}.log"
