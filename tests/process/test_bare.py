"""Programs without a keeper: what serves macOS, and Linux without /proc."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from zotd.process.bare import Bare


def start(bare: Bare, script: str) -> tuple[int, asyncio.Future[int]]:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        return bare.spawn(["bash", "-c", script], Path("/"), dict(os.environ), (null, null, null))
    finally:
        os.close(null)


async def test_the_exit_is_seen_with_its_code_or_signal() -> None:
    bare = Bare()
    assert await start(bare, "exit 3")[1] == 3
    assert await start(bare, "kill -9 $$")[1] == -signal.SIGKILL


async def test_the_exit_is_seen_where_there_are_no_process_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert await asyncio.wait_for(start(Bare(), "exit 4")[1], 5.0) == 4


async def test_close_ends_every_group() -> None:
    bare = Bare()
    exits = [start(bare, "sleep 60 & wait")[1] for _ in range(3)]
    await bare.close(5.0)
    assert [exited.result() for exited in exits] == [-signal.SIGKILL] * 3


async def test_a_group_that_has_ended_is_not_signalled() -> None:
    bare = Bare()
    pid, exited = start(bare, "exit 0")
    await exited
    bare.signal(pid, signal.SIGKILL)
    bare.signal(1, signal.SIGKILL)
    assert exited.result() == 0
