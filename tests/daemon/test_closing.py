"""The end of a session: it is whole, whoever asked for it, and nothing gets in between."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from weakref import ref

import pytest

from tests.daemon.houses import LIMITS, Noted, Slow, Visitor, prompt, sessions
from zotd.base.tasks import Independent
from zotd.daemon.connection import Connection
from zotd.daemon.refused import Refused
from zotd.daemon.rpc_front import RpcFront
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.store.errors import NoSession
from zotd.store.log import SessionLog


class Nowhere:
    """Where the bytes of a client go that does not read them."""

    full = False
    waiting = 0

    def write(self, data: bytes) -> None:
        """It is gone."""

    def when_roomy(self, call: Callable[[], None]) -> None:
        """It always is."""

    async def drained(self) -> None:
        """Nothing is left."""

    def close(self) -> None:
        """There is nothing to close."""

    async def ended(self) -> None:
        """It has."""


async def opened(house: Sessions, spec: SessionSpec) -> Session:
    """A session that has a file."""
    session = house.open(spec)
    await prompt(session, "hello")
    assert session.path is not None
    assert session.path.exists()
    return session


@pytest.mark.parametrize("how", ["close", "delete"])
async def test_an_end_that_was_begun_is_whole_though_whoever_asked_gave_up(
    spec: SessionSpec, how: str
) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = await opened(house, spec)
        slow = Slow(session)
        asked = asyncio.ensure_future(getattr(house, how)(session))
        await slow.asked.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        wanted = asyncio.ensure_future(house.saved.by_id(session.id, spec))
        slow.gives_up.set()
        if how == "close":
            assert (await wanted).transcript.messages == session.transcript.messages
        else:
            with pytest.raises(NoSession):
                await wanted
            assert [*(spec.home / "sessions").iterdir()] == []
        await house.close_all()


async def test_what_closes_when_all_ends_is_waited_for(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = await opened(house, spec)
        session.attach(visitor := Visitor())
        slow = Slow(session)
        await house.leave(session, visitor, private=False)
        await asyncio.wait_for(slow.asked.wait(), 10)  # nobody came within the time for that
        end = asyncio.ensure_future(house.close_all())
        done, _ = await asyncio.wait([end], timeout=0.02)
        assert not done
        slow.gives_up.set()
        await end
        assert session.path is not None
        log, saved = SessionLog.open(session.path, LIMITS)  # nobody has the lock
        assert len(saved.messages) == 2
        log.close()
        with pytest.raises(Refused, match="ending"):
            await house.saved.by_id(session.id, spec)


async def test_a_session_that_ends_takes_no_more_work_and_its_file_does_not_come_back(
    spec: SessionSpec,
) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = await opened(house, spec)
        slow = Slow(session)
        late = asyncio.ensure_future(session.submit("late"))  # waits for the extensions
        end = asyncio.ensure_future(house.delete(session))
        await slow.asked.wait()
        command = session.built_in("/clear")
        assert command is not None
        for work in (session.commands.compact, partial(session.run_command, command)):
            with pytest.raises(Refused) as refused:
                work()
            assert refused.value.kind == "session_not_found"
        session.transcript.append("user", [])  # a tool that comes too late
        slow.gives_up.set()
        with pytest.raises(Refused):
            await late
        await end
        assert [*(spec.home / "sessions").iterdir()] == []
        await house.close_all()


async def test_who_needs_the_file_waits_for_the_end_and_others_wait_for_him(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = await opened(house, spec)
        store = house.store(spec.home)
        slow = Slow(session)
        end = asyncio.ensure_future(house.close(session))
        await slow.asked.wait()
        asyncio.get_running_loop().call_later(0.02, slow.gives_up.set)
        async with house.saved.found(session.id, spec.home) as found:
            assert end.done()
            assert found == session.path
            wanted = asyncio.ensure_future(house.saved.by_id(session.id, spec))
            done, _ = await asyncio.wait([wanted], timeout=0.1)
            assert not done
            store.rename(found, "new")
        again = await wanted
        assert again.title == "new"
        async with house.saved.found(session.id[:8], spec.home) as found:
            assert found is again
        await house.close_all()


async def test_a_connection_keeps_nothing_of_sessions_that_are_closed(spec: SessionSpec) -> None:
    async with (tasks := Independent()):
        house = sessions(tasks)
        connection = Connection(Nowhere(), LIMITS, cast("Any", None))
        front = RpcFront(connection, house, spec, tasks, "", False, lambda *_: None, cast("Any", None))
        session = await opened(house, spec)
        front.attach(session)
        await prompt(session, "more")
        await house.close(session, "closed")
        gone = ref(session)
        del session
        await house.saved.closed()
        gc.collect()
        assert gone() is None
        assert not front.full
        await house.close_all()
