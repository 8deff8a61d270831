"""What changes often is told at once and then seldom."""

from __future__ import annotations

import asyncio

from zotd.base.soon import Seldom


async def turn() -> None:
    """Until the event loop has come round."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_soon(passed.set)
    await passed.wait()


async def test_many_changes_in_one_turn_of_the_loop_are_told_first_and_last() -> None:
    log: list[str] = []
    changed = Seldom(lambda: log.append("told"))
    for number in range(3):
        log.append(f"change {number}")
        changed()
    await turn()
    assert log == ["change 0", "told", "change 1", "change 2", "told"]
    await turn()
    changed()
    await turn()
    assert log[5:] == ["told"]
