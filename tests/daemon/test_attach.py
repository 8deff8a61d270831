"""Who comes to a session later sees what still stands."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, Frame, judge_event
from zotd.agent.loop import Model
from zotd.base.limits import Limits
from zotd.base.tasks import Independent, Tasks
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.protocol.events import ExtNotify, ExtPanelClose, ExtPanelOpen, ExtPanelRender, TextDelta
from zotd.providers.registry import Providers
from zotd.providers.unavailable import Unavailable
from zotd.store.ring import Published
from zotd.wire.codec import decode

MIB = 1 << 20


class Watcher:
    """A client that keeps what it is shown."""

    full = False
    approver = None

    def __init__(self, *capabilities: str) -> None:
        self.capabilities = frozenset(capabilities)
        self.seen: list[Frame] = []

    def deliver(self, event: Published) -> None:
        self.seen.append({"type": event.type, **decode(event.body)})
        judge_event(self.seen[-1])

    async def drained(self) -> None:
        """It reads at once."""


def session(tasks: Tasks, **limits: Any) -> Session:
    return Session(
        session_id="s",
        cwd=Path("/"),
        provider="none",
        model=Model(Unavailable("nobody answers here"), "none"),
        tools={},
        limits=Limits(**limits),
        max_steps=1,
        tasks=tasks,
    )


def shown(panel_id: str, *lines: str) -> dict[str, Any]:
    return {"extension": "pup", "panel_id": panel_id, "title": "T", "lines": [*lines], "footer": ""}


async def test_notes_and_open_panels_are_in_the_picture_that_a_later_client_gets() -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        room.publish(ExtNotify(extension="pup", level="info", message="hello"))
        room.publish(ExtPanelOpen(**shown("p1", "one")))
        room.publish(ExtPanelRender(**shown("p1", "two")))
        late = Watcher("panels")
        picture = room.info()
        room.attach(late, since=picture.next_seq - 1)
        assert [note.text for note in picture.notes] == ["hello"]
        assert [panel.lines for panel in picture.panels] == [["two"]]
        assert late.seen == []


async def test_a_panel_outlives_the_last_client_that_shows_it() -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        first = Watcher("panels")
        room.attach(first)
        assert room.can("panels")
        room.publish(ExtPanelOpen(**shown("p1")))
        room.detach(first)
        assert not room.can("panels")
        assert [panel.panel_id for panel in room.info().panels] == ["p1"]
        room.publish(ExtPanelClose(extension="pup", panel_id="p1"))
        assert room.info().panels == []


async def test_who_comes_back_gets_what_it_missed_and_nothing_twice() -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        client = Watcher()
        room.attach(client)
        room.publish(ExtNotify(extension="pup", level="info", message="1"))
        room.detach(client)
        room.publish(ExtNotify(extension="pup", level="info", message="2"))
        room.attach(client, since=1, epoch=room.epoch)
        room.publish(ExtNotify(extension="pup", level="info", message="3"))
        assert [event["message"] for event in client.seen] == ["1", "2", "3"]


@pytest.mark.parametrize(("since", "epoch"), [(0, "another"), (7, ""), (-1, ""), (0, "")])
async def test_what_cannot_be_replayed_is_stood_in_for_by_one_picture(since: int, epoch: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks, replay_events=1)
        for number in range(3):
            room.publish(ExtNotify(extension="pup", level="info", message=str(number)))
        client = Watcher()
        room.attach(client, since=since, epoch=epoch)
        (resync,) = client.seen
        assert resync["type"] == "resync"
        assert resync["seq"] == 3
        assert [note["text"] for note in resync["session"]["notes"]] == ["0", "1", "2"]
        room.publish(ExtNotify(extension="pup", level="info", message="live"))
        assert client.seen[-1]["seq"] == 4


async def test_a_mistake_of_ours_in_a_session_is_told_to_its_clients_and_stands(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def read_nothing() -> None:
        raise LookupError("nothing is there")

    async with Independent() as tasks:
        room = session(tasks)
        watcher = Watcher()
        room.attach(watcher)
        await asyncio.wait([room.tasks.create_task(read_nothing(), name="start of extensions")])
        assert [note.level for note in room.info().notes] == ["error"]
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


async def test_a_session_waits_for_its_only_client_and_for_none_of_several() -> None:
    class Behind(Watcher):
        full = True

        async def drained(self) -> None:
            await caught_up.wait()

    caught_up = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        room.attach(Behind())
        full = [room.full]
        waiting = asyncio.ensure_future(room.drained())
        await asyncio.sleep(0)
        assert not waiting.done()
        room.attach(Behind())
        full.append(room.full)
        assert full == [True, False]
        await asyncio.wait_for(room.drained(), LONG)
        caught_up.set()
        await waiting


async def test_who_is_attached_and_asks_for_what_it_missed_gets_nothing_twice() -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        for number in range(1, 7):
            if number == 4:
                room.attach(client := Watcher())
            room.publish(ExtNotify(extension="pup", level="info", message=str(number)))
        for since in (5, 2, 1, 3):
            room.attach(client, since)
        assert [event["seq"] for event in client.seen] == [4, 5, 6, 3, 2]
        room.attach(client, since=2, epoch="of another daemon")
        assert client.seen[-1]["type"] == "resync"
        room.detach(client)
        room.attach(client, since=4)
        assert [event["seq"] for event in client.seen[-2:]] == [5, 6]


async def test_all_sessions_together_keep_only_so_much_for_those_who_come_back(tmp_path: Path) -> None:
    spec = SessionSpec(
        cwd=tmp_path, home=tmp_path, user_home=tmp_path, environ={}, provider="scripted", ephemeral=True
    )
    limits = Limits(replay_bytes_of_all=4_000)
    async with Independent() as tasks:
        house = Sessions(limits, tasks, Providers(limits))
        one, two = house.open(spec), house.open(spec)
        one.publish(ExtNotify(extension="pup", level="info", message="x" * 2_000))
        two.publish(ExtNotify(extension="pup", level="info", message="y" * 2_000))
        first, second = Watcher(), Watcher()
        one.attach(first, since=0)
        two.attach(second, since=0)
        assert [event["type"] for event in first.seen + second.seen] == ["ext_notify", "resync"]
        await house.close(one)
        two.publish(ExtNotify(extension="pup", level="info", message="z" * 2_000))
        two.attach(second, since=1)
        assert second.seen[-1]["message"] == "z" * 2_000
        await house.close_all()


async def test_what_is_kept_takes_the_memory_that_is_counted() -> None:
    async with asyncio.TaskGroup() as tasks:
        room = session(tasks)
        gc.collect()
        before = resident()
        for _ in range(20_000):
            room.publish(TextDelta(delta="word "))
        gc.collect()
        assert resident() - before < 16 * MIB
        client = Watcher()
        room.attach(client, since=0)
        assert len(client.seen) == 20_000


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
