"""Writes the unit files beside this one from `zotd.cli.units`, for packagers and to be read.

`python systemd/write.py` writes them, `--check` exits 1 when one is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from zotd.cli import units

HERE = Path(__file__).resolve().parent
PROGRAM = ("/usr/bin/env", "zotd")
"""It has to be on the manager's PATH; `zotd service install` writes the absolute path that it has itself."""


def files() -> dict[Path, str]:
    """Every file that is written, with its text."""
    agent = units.launch_agent(PROGRAM, {}, "/tmp/zotd.log")
    return {
        HERE / units.SOCKET: units.socket_unit(),
        HERE / units.SERVICE: units.service_unit(PROGRAM, {}),
        HERE / f"{units.AGENT}.plist": agent,
    }


def main() -> int:
    stale = [path for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            sys.stderr.write(f"{path} is stale: make docs\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(files()[path], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
