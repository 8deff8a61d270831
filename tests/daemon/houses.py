"""Sessions in this process, without a daemon around them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from zotd.base.limits import Limits
from zotd.base.tasks import Independent
from zotd.daemon.approvals import Approver
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.providers.registry import Providers
from zotd.store.ring import Published

T = TypeVar("T")
LIMITS = Limits(orphan_s=0.05)


class Visitor:
    """A client that looks and says nothing."""

    full = False
    capabilities: frozenset[str] = frozenset()
    approver: Approver | None = None

    def deliver(self, event: Published) -> None:
        """It is shown."""

    async def drained(self) -> None:
        """It reads at once."""


class Slow:
    """What makes the close of a session wait: a start of extensions that takes its time to give up."""

    def __init__(self, session: Session) -> None:
        self.asked = asyncio.Event()
        self.gives_up = asyncio.Event()
        session.loading = session.tasks.create_task(self._run())

    async def _run(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.asked.set()
            await self.gives_up.wait()


class Noted(Independent):
    """Tasks that can be asked for by the beginning of their name."""

    def __init__(self) -> None:
        super().__init__()
        self.named: dict[str, asyncio.Task[Any]] = {}

    def create_task(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        self.named[(name or "").partition(" of ")[0]] = task = super().create_task(coro, name=name)
        return task


@pytest.fixture
def spec(tmp_path: Path) -> SessionSpec:
    cwd = tmp_path / "work"
    cwd.mkdir()
    return SessionSpec(
        cwd=cwd, home=tmp_path / "zot", user_home=tmp_path, environ={"ONLY": "here"}, provider="scripted"
    )


def sessions(tasks: Independent, limits: Limits = LIMITS) -> Sessions:
    return Sessions(limits, tasks, Providers(limits))


async def prompt(session: Session, text: str) -> None:
    accepted = await session.submit(text)
    accepted.begin()
    assert (outcome := await session.wait(accepted.turn_id)) is not None
    assert outcome.stop == "end_turn"
