"""Owns where the user's daemon is met, as plain texts: who joins it has no time for `pathlib`."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def zot_home(environ: Mapping[str, str]) -> str:
    """The absolute path of `paths.zot_home`. Raises OSError."""
    if (home := environ.get("ZOT_HOME")) and not home.startswith("~"):
        return os.path.join(os.getcwd(), home)  # noqa: PTH109, PTH118 - see the module's first line
    if not home and not environ.get("XDG_STATE_HOME") and environ.get("HOME") and sys.platform == "linux":
        return environ["HOME"] + "/.local/state/zot"
    from zotd.base import paths

    return str(paths.zot_home(environ).absolute())


def run_directory(environ: Mapping[str, str], home: str) -> str:
    """Where the user's daemon is met: `$XDG_RUNTIME_DIR/zotd`, elsewhere under its home. It may not exist."""
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, "zotd")  # noqa: PTH118
    return os.path.join(home, "run")  # noqa: PTH118


def daemon_socket(environ: Mapping[str, str], home: str) -> str:
    """The socket of the user's daemon."""
    return os.path.join(run_directory(environ, home), "zotd.sock")  # noqa: PTH118
