"""Every asynchronous test of this room runs on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.children import nothing_but_the_keeper_is_left, start_keeper
from zotd.base.limits import Limits
from zotd.process.spawn import Scope


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def _what_stays_is_there() -> None:
    """uvloop's library keeps two for the life of the process; they are no leak. Nor is the keeper."""
    uvloop.new_event_loop().close()
    start_keeper()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before
    nothing_but_the_keeper_is_left()


@pytest.fixture
async def scope() -> AsyncIterator[Scope]:
    made = Scope(Limits())
    yield made
    await made.close()
