"""The clock that tests of time limits run by."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.virtual import NothingLeftToHappen, VirtualLoop


def test_an_hour_takes_no_time_and_shows_on_the_clock() -> None:
    async def hour() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await loop.create_future()
        return loop.time()

    began = time.monotonic()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(hour()) == pytest.approx(3600)
    assert time.monotonic() - began < 5


def test_timers_fire_in_order_and_at_their_time() -> None:
    async def timers() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[float, str]] = []
        last = loop.create_future()

        def fire(name: str) -> None:
            fired.append((loop.time(), name))

        for delay, name in ((3.0, "c"), (0.25, "a"), (2.0, "b")):
            loop.call_later(delay, fire, name)
        loop.call_later(3.0, last.set_result, None)
        await last
        return fired

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(timers()) == [(0.25, "a"), (2.0, "b"), (3.0, "c")]


def test_waiting_for_what_cannot_come_is_an_error_and_not_a_test_that_hangs() -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualLoop()
    task = loop.create_task(never())
    with pytest.raises(NothingLeftToHappen):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
