"""Extensions that are started and stopped again and again cost nothing in the end."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from tests.children import children, ends
from tests.extensions.conftest import World
from zotd.process.kept import KEEPER

PAGE = os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def resident(pid: int | str) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


async def live(world: World, times: int) -> None:
    for _ in range(times):
        world.events.clear()
        async with world.running() as host:
            assert [row.state for row in host.states()] == ["ready"]
    gc.collect()


async def cycle(world: World, times: int, growth: int) -> None:
    """Fail if `times` lives of an extension leave a descriptor, a process or more than `growth` bytes."""
    world.add("good")
    await live(world, 5)
    before = descriptors(), resident("self"), resident(KEEPER.pid)
    await live(world, times)
    assert descriptors() == before[0]
    assert resident("self") - before[1] < growth
    assert resident(KEEPER.pid) - before[2] < growth
    assert set(children(os.getpid())) == {KEEPER.pid}
    assert all(ends(pid) for pid in children(KEEPER.pid))
    async with asyncio.timeout(5):
        while children(KEEPER.pid):  # noqa: ASYNC110 - they are nobody's children of ours
            await asyncio.sleep(0)


async def test_thirty_lives_leave_no_descriptor_no_process_and_no_memory(world: World) -> None:
    await cycle(world, 30, 2 << 20)


@pytest.mark.long
async def test_a_thousand_lives_leave_no_descriptor_no_process_and_no_memory(world: World) -> None:
    await cycle(world, 1000, 4 << 20)
