"""Every asynchronous test of this room runs on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def _uvloop_has_its_descriptors() -> None:
    """uvloop's library keeps two for the life of the process; they are no leak."""
    uvloop.new_event_loop().close()
