"""The units, installed and run by a real systemd."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import ROOT, ZOTD


@pytest.mark.long
def test_a_real_systemd_starts_watches_and_stops_the_daemon(tmp_path: Path) -> None:
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    inside = Path(__file__).with_name("under_systemd.py")
    done = subprocess.run(
        ["unshare", *as_root, "-m", "-p", "-f", "--mount-proc", sys.executable, inside, ZOTD, tmp_path],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
