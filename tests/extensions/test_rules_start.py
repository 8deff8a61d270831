"""The rules of what an extension asks for while its set is still being loaded: it waits, in order."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.extensions.conftest import Stage
from tests.extensions.play import play, says
from tests.peers import Frame, Peer

REGISTER: Frame = {"type": "register_command", "name": "mine"}
RUN: Frame = {"type": "submit_slash", "text": "/mine x"}
READY: Frame = {"type": "ready"}


class Eager(Peer):
    """Sends what it has as soon as it is greeted."""

    def greeted(self) -> None:
        for frame in self.offers:
            self.say(**frame)


class Slow(Peer):
    """Takes a second to say `hello`."""

    def began(self) -> None:
        asyncio.get_running_loop().call_later(1.0, super().began)


@pytest.mark.promise("S12")
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("order", [*itertools.permutations([REGISTER, RUN, READY])])
async def test_a_command_of_its_own_that_it_runs_at_the_start_runs_once_names_are_given_out(
    stage: Stage, order: tuple[Frame, ...], alone: bool
) -> None:
    stage.enter("a", Eager(*order))
    if not alone:
        stage.enter("b", Slow())
    async with play(stage) as scene:
        assert (await scene.viewer.sees("ext_display"))["text"] == "done"
        assert scene.viewer.types().index("ext_registered") < scene.viewer.types().index("ext_display")


async def test_what_runs_at_the_start_can_be_a_command_of_one_that_loads_later(stage: Stage) -> None:
    stage.enter("a", Peer({"type": "submit_slash", "text": "/theirs"}))
    other = stage.enter("b", Peer({"type": "register_command", "name": "theirs"}))
    async with play(stage, capabilities=("submit",)):
        assert (await other.next("command_invoked"))["name"] == "theirs"


async def test_a_prompt_at_the_start_waits_for_a_client_that_takes_it(stage: Stage) -> None:
    stage.enter("a", Peer({"type": "submit", "text": "from the start"}))
    stage.enter("b", Slow())
    async with play(stage, says("ok"), attached=False, loaded=False) as scene:
        viewer = scene.attach("submit")
        assert (await viewer.sees("user_message"))["origin"] == "extension:a"


async def test_a_panel_at_the_start_waits_for_a_client_that_shows_it_and_is_drawn_in_order(
    stage: Stage,
) -> None:
    stage.enter(
        "a",
        Peer(
            {"type": "open_panel", "panel": {"id": "p", "title": "T", "lines": ["old"]}},
            {"type": "panel_render", "panel_id": "p", "lines": ["new"]},
        ),
    )
    stage.enter("b", Slow())
    async with play(stage, attached=False, loaded=False) as scene:
        viewer = scene.attach("panels")
        assert (await viewer.sees("ext_panel_render"))["lines"] == ["new"]
        assert viewer.of("ext_panel_close") == []


async def test_what_one_wanted_that_is_gone_before_all_are_there_is_forgotten(stage: Stage) -> None:
    peer = stage.enter("a", Peer(REGISTER, RUN, {"type": "open_panel", "panel": {"id": "p", "title": "T"}}))
    stage.enter("b", Slow())
    async with play(stage, capabilities=("panels",), loaded=False) as scene:
        await scene.viewer.sees("ext_state", 3)
        peer.exit(3)
        await scene.session.loaded()
        assert scene.viewer.of("ext_display", "ext_panel_open", "command_result") == []
