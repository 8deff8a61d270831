"""A run that was told of no network uses none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = """
import os, sys

def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        os.write(2, f"{event}{args[1:]}".encode())
        os._exit(99)

sys.addaudithook(watch)
import zotd.cli.main
sys.exit(zotd.cli.main.main())
"""


def watched(tmp_path: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run zotd so that the first attempt to reach anything ends it with 99."""
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", WATCHED, *argv]
    return subprocess.run(
        command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


@pytest.mark.promise("S3")
def test_a_fresh_home_runs_no_extension_and_opens_no_connection(tmp_path: Path) -> None:
    done = watched(tmp_path, "--provider", "scripted", "--json", "-p", "hello")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert events[-1]["text"] == "You said: hello"
    assert [event for event in events if event["type"].startswith("ext_")] == []
    assert not (tmp_path / ".local" / "state" / "zot" / "extensions").exists()


@pytest.mark.promise("S3")
def test_the_watch_would_notice(tmp_path: Path) -> None:
    done = watched(
        tmp_path,
        "--provider",
        "openai-compatible",
        "--model",
        "m",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "-p",
        "x",
    )
    assert done.returncode == 99
