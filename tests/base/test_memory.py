"""Memory that was freed goes back, a while after it was."""

from __future__ import annotations

import asyncio
import gc
import weakref

from zotd.base.memory import GiveBack


class Ring:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.self = self


async def test_what_only_refers_to_itself_is_freed_soon() -> None:
    freed = asyncio.Event()
    gc.disable()
    try:
        watched = weakref.ref(Ring(), lambda _: freed.set())
        memory = GiveBack(0.01, 10, busy=lambda: False)
        for _ in range(3):
            memory.soon()
        assert watched() is not None
        await asyncio.wait_for(freed.wait(), 10)
        again = weakref.ref(Ring())
        memory.soon()
        memory.cancel()
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.1)
        assert again() is not None
    finally:
        gc.enable()


async def test_nothing_is_held_up_by_it_while_a_turn_runs() -> None:
    asked = [True, True, False]
    freed = asyncio.Event()
    gc.disable()
    try:
        weakref.finalize(Ring(), freed.set)
        GiveBack(0.001, 10, busy=lambda: asked.pop(0)).soon()
        await asyncio.wait_for(freed.wait(), 10)
        assert asked == []
    finally:
        gc.enable()


async def test_it_does_not_wait_for_ever_where_a_turn_always_runs() -> None:
    freed = asyncio.Event()
    gc.disable()
    try:
        weakref.finalize(Ring(), freed.set)
        GiveBack(0.001, 0.01, busy=lambda: True).soon()
        await asyncio.wait_for(freed.wait(), 10)
    finally:
        gc.enable()
