"""Who comes to a session later sees what still stands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Frame, types
from zotd.agent.loop import Model
from zotd.base.limits import Limits
from zotd.base.tasks import Independent, Tasks
from zotd.daemon.session import Session
from zotd.protocol.events import ExtNotify, ExtPanelClose, ExtPanelOpen, ExtPanelRender
from zotd.providers.unavailable import Unavailable


class Watcher:
    """A client that keeps what it is shown."""

    full = False

    def __init__(self, *capabilities: str) -> None:
        self.capabilities = frozenset(capabilities)
        self.seen: list[Frame] = []

    def deliver(self, event: dict[str, Any]) -> None:
        self.seen.append(event)

    async def drained(self) -> None:
        """It reads at once."""


def session(tasks: Tasks) -> Session:
    return Session(
        session_id="s",
        cwd=Path("/"),
        provider="none",
        model=Model(Unavailable("nobody answers here"), "none"),
        tools={},
        limits=Limits(),
        max_steps=1,
        tasks=tasks,
    )


def shown(panel_id: str, *lines: str) -> dict[str, Any]:
    return {"extension": "pup", "panel_id": panel_id, "title": "T", "lines": [*lines], "footer": ""}


async def test_notes_and_open_panels_are_shown_to_a_client_that_attaches_later() -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        first, late, plain = Watcher("panels"), Watcher("panels"), Watcher()
        room.attach(first)
        room.publish(ExtNotify(extension="pup", level="info", message="hello"))
        room.publish(ExtPanelOpen(**shown("p1", "one")))
        room.publish(ExtPanelRender(**shown("p1", "two")))
        room.attach(late)
        room.attach(plain)
        assert types(late.seen) == ["ext_notify", "ext_panel_open"]
        assert shown("p1", "two").items() <= late.seen[1].items()
        assert late.seen[1]["seq"] == first.seen[-1]["seq"]
        assert types(plain.seen) == ["ext_notify"]


async def test_a_panel_outlives_the_last_client_that_shows_it() -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        first, late, later = Watcher("panels"), Watcher("panels"), Watcher("panels")
        room.attach(first)
        assert room.can("panels")
        room.publish(ExtPanelOpen(**shown("p1")))
        room.detach(first)
        assert not room.can("panels")
        room.attach(late)
        assert types(late.seen) == ["ext_panel_open"]
        room.publish(ExtPanelClose(extension="pup", panel_id="p1"))
        room.attach(later)
        assert later.seen == []


async def test_a_mistake_of_ours_in_a_session_is_told_to_its_clients_and_stands(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def read_nothing() -> None:
        raise LookupError("nothing is there")

    async with Independent() as tasks:
        room = session(tasks)
        watcher, late = Watcher(), Watcher()
        room.attach(watcher)
        await asyncio.wait([room.tasks.create_task(read_nothing(), name="start of extensions")])
        room.attach(late)
    assert watcher.seen == late.seen
    (told,) = watcher.seen
    told.pop("time")
    assert told == {
        "type": "ext_notify",
        "extension": "zotd",
        "level": "error",
        "message": "start of extensions: ended by a mistake of zotd: LookupError: nothing is there",
        "session_id": "s",
        "seq": 1,
    }
    assert "LookupError: nothing is there" in capfd.readouterr().err
