"""Where a daemon is met: what it does when somebody has removed that, and whose files it takes away."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clients import LONG
from zotd.base.limits import Limits
from zotd.base.tasks import Independent
from zotd.daemon.life import Life
from zotd.daemon.place import Place
from zotd.daemon.supervisor import Supervisor


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="zp-"))  # a socket's path has to be short
    yield made
    shutil.rmtree(made)


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("drains", [True, False])
def test_who_was_robbed_of_its_place_leaves_that_of_its_successor_alone(folder: Path, drains: bool) -> None:
    path = folder / "run" / "zotd.sock"
    path.parent.mkdir()
    first = Place(path, 1, pid_file=True)
    assert not first.lost()
    shutil.rmtree(path.parent)
    assert first.lost()
    path.parent.mkdir()
    second = Place(path, 1, pid_file=True)
    assert first.lost()
    before = files(path.parent)
    path.with_suffix(".pid").write_text("1\n")  # it runs in another process
    first.leave(drains=drains)
    first.leave()
    assert files(path.parent) == before == ["zotd.lock", "zotd.pid", "zotd.sock"]
    assert not second.lost()
    first.socket.close()
    second.socket.close()
    second.leave()
    assert files(path.parent) == ["zotd.pid"]


class NoWork:
    """What a daemon has to do that has nothing to do."""

    busy = False
    drained = False

    def drain(self) -> None:
        self.drained = True

    async def settled(self) -> None:
        """It is."""


async def test_a_daemon_that_nobody_can_come_to_any_more_drains(folder: Path) -> None:
    path, work = folder / "zotd.sock", NoWork()
    place = Place(path, 1, pid_file=True)
    async with Independent() as tasks:
        life = Life(work, replace(Limits(), place_s=0.01), tasks, folder, Supervisor({}))
        life.serving(0, lambda: False, place.lost)
        assert not life.draining
        path.unlink()
        await asyncio.wait_for(life.stopping.wait(), LONG)
    assert (life.draining, work.drained, life.code) == (True, True, 0)
    place.socket.close()
    place.leave()


async def test_what_only_watches_does_not_hold_up_the_end(folder: Path) -> None:
    async with Independent() as tasks:
        life = Life(NoWork(), Limits(), tasks, folder, Supervisor({}))
        life.serving(1_000, lambda: False, lambda: False)
        await asyncio.sleep(0)
        life.stop()
        await asyncio.wait_for(tasks.end(2 * LONG), LONG)
