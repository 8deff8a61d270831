"""Clients that leave while they are answered: what they asked for is done, and they keep nothing open."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.daemon.houses import Slow, Visitor
from zotd.base.limits import Limits
from zotd.base.tasks import Independent
from zotd.cli.agents import Agents
from zotd.cli.desk import Desk
from zotd.cli.flags import Flags
from zotd.cli.serve import Server
from zotd.daemon.connection import Connection
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.daemon.streams import FileOutlet
from zotd.daemon.supervisor import Supervisor

T = TypeVar("T")
LIMITS = Limits(orphan_s=0.01)


class Noted(Independent):
    """Tasks that can be waited for by the beginning of their name."""

    def __init__(self) -> None:
        super().__init__()
        self.named: dict[str, asyncio.Task[Any]] = {}
        self._another = asyncio.Event()

    def create_task(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        self.named[(name or "").partition(" of ")[0]] = task = super().create_task(coro, name=name)
        self._another.set()
        return task

    async def begun(self, name: str) -> asyncio.Task[Any]:
        """A task of that name, once there is one."""
        async with asyncio.timeout(10):
            while name not in self.named:
                self._another.clear()
                await self._another.wait()
        return self.named[name]

    async def ended(self, name: str) -> None:
        """Until a task of that name was begun, and has ended."""
        await asyncio.wait([await self.begun(name)], timeout=10)


class House:
    """A daemon without sockets."""

    def __init__(self, tasks: Noted, spec: SessionSpec) -> None:
        agents = Agents(Flags(), LIMITS, tasks)
        self.tasks = tasks
        self.spec = spec
        self.server = Server(agents, spec, LIMITS, "", tasks, Supervisor({}), private=False)
        self.sessions: Sessions = agents.sessions

    @contextmanager
    def client(self) -> Iterator[Connection]:
        """A connection whose client reads nothing."""
        with Path(os.devnull).open("wb") as nothing:
            yield Connection(FileOutlet(nothing.fileno(), lambda: None), LIMITS, Desk(self.server))

    async def saved(self) -> str:
        """A session that was closed."""
        session = self.sessions.open(self.spec)
        accepted = await session.submit("hello")
        accepted.begin()
        await session.wait(accepted.turn_id)
        await self.sessions.close(session)
        return session.id

    async def nothing_stays(self) -> bool:
        """Whether no session is open, once those that nobody sees had their time."""
        while not (expiry := await self.tasks.begun("expiry")).done():
            await asyncio.wait([expiry], timeout=10)
        return self.sessions.all() == []


@pytest.fixture
def spec(tmp_path: Path) -> SessionSpec:
    return SessionSpec(
        cwd=tmp_path, home=tmp_path / "zot", user_home=tmp_path, environ={}, provider="scripted"
    )


def say(client: Connection, *values: Any) -> None:
    client.receive("".join(json.dumps(value) + "\n" for value in values).encode())


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": f"{method} {params}", "method": method, "params": params}


HELLO = request("initialize", protocol_version=1)

GUARD = """
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name="guard", version="1")
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="subscribe", intercept=["turn_start"])
        send(type="ready")
    elif frame["type"] == "event_intercept":
        send(type="event_intercept_response", id=frame["id"], block=True, reason="closed at night")
    elif frame["type"] == "shutdown":
        break
"""


@pytest.fixture
def guarded(spec: SessionSpec, tmp_path: Path) -> SessionSpec:
    """A spec whose sessions have an extension that lets no prompt pass."""
    folder = tmp_path / "guard"
    folder.mkdir()
    (folder / "main.py").write_text(GUARD)
    manifest = {"name": "guard", "version": "1", "exec": sys.executable, "args": ["main.py"]}
    (folder / "extension.json").write_text(json.dumps(manifest))
    return replace(spec, extensions=(folder,))


async def is_guarded(session: Session) -> bool:
    """Whether a prompt of whoever does not wait for anything meets the guard."""
    assert session.host is not None
    accepted = await session.submit("let me pass")
    accepted.begin()
    outcome = await session.wait(accepted.turn_id)
    return outcome is not None and outcome.error == "closed at night"


@pytest.mark.parametrize("how", ["leaves", "cancels"])
async def test_a_session_whose_opener_gave_up_has_its_extensions(
    spec: SessionSpec, guarded: SessionSpec, how: str
) -> None:
    async with (tasks := Noted()):
        session_id = await House(tasks, spec).saved()
        house = House(tasks, guarded)
        with house.client() as client:
            say(client, HELLO, load := request("session/load", session_id=session_id))
            await tasks.begun("load")
            if how == "cancels":
                say(client, {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": load["id"]}})
            else:
                assert client.front is not None
                await client.front.closed()
            await tasks.ended("load")
            session = house.sessions.get(session_id)
            assert session is not None
            assert not session.clients
            session.attach(Visitor())  # as somebody would who is asked nothing
            assert await is_guarded(session)
        await house.sessions.close_all()


async def test_a_file_that_a_zot_client_names_is_read_beside_the_event_loop(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        session_id = await House(tasks, spec).saved()
        (path,) = (spec.home / "sessions").rglob("*.jsonl")
        named = House(tasks, replace(spec, saved=path))
        with named.client() as client:
            say(client, {"type": "hello"})
            assert named.sessions.all() == []
            await tasks.ended("load")
            await tasks.ended("zot dialect commands")
            (session,) = named.sessions.all()
            assert session.id == session_id
            assert len(session.clients) == 1
            assert client.front is not None
            await client.front.closed()
        await named.sessions.close_all()


async def test_a_zot_client_waits_for_the_end_of_what_is_being_closed(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        path = spec.cwd / "talk.jsonl"
        house = House(tasks, replace(spec, saved=path))
        await house.saved()
        session = await house.sessions.saved.load(house.spec)
        await session.loaded()
        slow = Slow(session)
        closing = asyncio.ensure_future(house.sessions.close(session, "closed"))
        await slow.asked.wait()
        with house.client() as client:
            say(client, {"type": "get_state"})
            asyncio.get_running_loop().call_later(0.02, slow.gives_up.set)
            await closing
            await tasks.ended("zot dialect commands")
            (again,) = house.sessions.all()
            assert (again.id, again is session) == (session.id, False)
            assert len(again.clients) == 1
            assert client.front is not None
            await client.front.closed()
        await house.sessions.close_all()


async def test_what_was_opened_has_its_extensions_before_it_is_told_of(guarded: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = House(tasks, guarded)
        assert await is_guarded(house.sessions.open(replace(guarded, ephemeral=True)))
        await house.sessions.close_all()


@pytest.mark.parametrize("dialect", ["jsonrpc", "zot"])
async def test_who_leaves_while_it_is_attached_keeps_no_session_open(spec: SessionSpec, dialect: str) -> None:
    async with (tasks := Noted()):
        house = House(tasks, spec)
        session_id = await house.saved()
        for later in (None, *range(8)):  # from before there is a session to after it is attached
            tasks.named.clear()
            with house.client() as client:
                if dialect == "zot":
                    say(client, {"type": "attach", "session_id": session_id})
                else:
                    say(client, HELLO, request("session/attach", session_id=session_id))
                loading = await tasks.begun("load")
                if later is not None:
                    await asyncio.wait([loading])
                for _ in range(later or 0):
                    await asyncio.sleep(0)
                assert client.front is not None
                await client.front.closed()
                assert await house.nothing_stays(), later
        await house.sessions.close_all()


async def test_a_batch_that_is_never_answered_keeps_no_session_open(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = House(tasks, spec)
        with house.client() as client, house.client() as other:
            say(other, HELLO, request("session/new", ephemeral=True))
            await tasks.ended("request session/new")
            (shared,) = house.sessions.all()
            turn = shared.turns.make([], "other").id  # it never runs
            wait = request("turn/wait", session_id=shared.id, turn_id=turn)
            tasks.named.clear()
            attach = request("session/attach", session_id=shared.id)
            say(client, HELLO, [request("session/new", ephemeral=True), attach, wait])
            await tasks.ended("request session/new")
            await tasks.ended("request session/attach")
            assert len(house.sessions.all()) == 2
            assert len(shared.clients) == 2
            assert client.front is not None
            await client.front.closed()
            await tasks.ended("expiry")
            assert house.sessions.all() == [shared]
            assert len(shared.clients) == 1
        await house.sessions.close_all()


async def test_the_time_of_a_session_that_was_closed_does_not_count_for_the_next_one(
    spec: SessionSpec,
) -> None:
    async with (tasks := Noted()):
        house = House(tasks, replace(spec, saved=spec.cwd / "talk.jsonl"))
        session_id = await house.saved()
        first = await house.sessions.saved.load(house.spec)
        over = tasks.named["expiry"]
        await house.sessions.close(first)
        second = house.sessions.open(house.spec)
        await asyncio.wait([over])
        assert over.cancelled()
        assert house.sessions.get(session_id) is second
        await house.sessions.close_all()
