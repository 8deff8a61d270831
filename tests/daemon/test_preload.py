"""A daemon whose files are replaced runs on with those that it was started with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import zotd

PROGRAM = """
import asyncio, shutil, sys
from pathlib import Path
from zotd.base.limits import Limits
from zotd.daemon.installation import Installation
from zotd.daemon.preload import modules, preload

installation = Installation(0.0)
assert "zotd.daemon.outbox" not in sys.modules
asyncio.run(preload(installation, 0.0))
room = Path(sys.argv[1])
print(installation.changed())
late = room / "daemon" / "outbox.py"
late.write_text(late.read_text() + "# of the next version")
print(installation.changed())
names = list(modules())
shutil.rmtree(room)
for name in names:
    __import__(name)
from zotd.daemon.outbox import Outbox
print(len(Outbox(1, set())))
"""


def test_what_is_imported_late_is_loaded_ahead_and_looked_at_too(tmp_path: Path) -> None:
    room = tmp_path / "zotd"
    shutil.copytree(Path(zotd.__file__).parent, room, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-P", "-B", "-c", PROGRAM, str(room)],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout.split(), done.stderr) == (["False", "True", "0"], "")
