"""Panels between a host and real extensions, where something goes wrong."""

from __future__ import annotations

import pytest

from tests.extensions.conftest import World, run
from zotd.extensions.asking import NotReading
from zotd.extensions.panels import NoPanel
from zotd.protocol.events import ExtNotify, ExtPanelClose, ExtPanelOpen
from zotd.protocol.frames import PanelSpec


@pytest.mark.promise("S36")
async def test_an_answer_keeps_its_panel_only_where_nobody_could_open_it(world: World) -> None:
    world.add("panel")
    world.capabilities.add("panels")
    async with world.running() as host:
        answer = await run(host, "/poke")
        assert (answer.action, answer.text, answer.panel) == ("open_panel", "one\ntwo", None)
        assert world.seen(ExtPanelOpen) == [
            ExtPanelOpen(extension="panel", panel_id="p1", title="T", lines=["one", "two"], footer="f")
        ]


@pytest.mark.promise("S50")
async def test_a_panel_of_an_extension_that_reads_nothing_can_still_be_closed(world: World) -> None:
    world.add("not_reading")
    world.capabilities.add("panels")
    async with world.running(outgoing_frames=1) as host:
        (stuck,) = host.extensions.values()
        host.panels.open(stuck, PanelSpec(id="p1", title="T", lines=[]))
        with pytest.raises(NotReading):
            for _ in range(100_000):
                host.panels.key("not_reading", "p1", "rune", "x" * 100)
        host.panels.dismissal("not_reading", "p1")()
        assert world.seen(ExtPanelClose) == [ExtPanelClose(extension="not_reading", panel_id="p1")]
    assert "was not told that its panel is closed" in world.log("not_reading")


@pytest.mark.promise("S50")
async def test_of_two_that_close_a_panel_the_second_closes_nothing(world: World) -> None:
    world.add("panel")
    world.capabilities.add("panels")
    async with world.running() as host:
        await run(host, "/poke")
        first, second = (host.panels.dismissal("panel", "p1") for _ in range(2))
        first()
        second()
        await world.event(ExtNotify, message="closed p1")
        assert len(world.seen(ExtPanelClose)) == 1
        with pytest.raises(NoPanel):
            host.panels.key("panel", "p1", "up")


async def test_a_dismissal_of_an_earlier_panel_spares_the_next(world: World) -> None:
    world.add("panel")
    world.capabilities.add("panels")
    async with world.running() as host:
        await run(host, "/poke")
        (owner,) = host.extensions.values()
        late = host.panels.dismissal("panel", "p1")
        host.panels.open(owner, PanelSpec(id="p2", title="T", lines=[]))
        late()
        assert [event.panel_id for event in world.seen(ExtPanelClose)] == ["p1"]


async def test_the_end_of_an_extension_closes_its_panel_and_no_other(world: World) -> None:
    world.add("panel")
    world.add("panel", "other")
    world.capabilities.add("panels")
    async with world.running() as host:
        for owner in host.extensions.values():
            host.panels.open(owner, PanelSpec(id="p1", title="T", lines=[]))
        await host.extensions["other"].stop()
        assert world.seen(ExtPanelClose) == [ExtPanelClose(extension="other", panel_id="p1")]
