"""The rules about those who decided before a reload and are late, or not back, after it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.extensions.conftest import Stage
from tests.extensions.play import Play, calls, play, says
from tests.extensions.test_rules_interception import Judge
from tests.peers import Frame
from zotd.extensions.discovery import LoadError
from zotd.protocol.content import Text

pytestmark = pytest.mark.promise("S67")


class Returns(Judge):
    """A guard whose second process is another one: it takes its time, or ends at once."""

    late_s = 0.0
    crashes = False

    def began(self) -> None:
        if self.starts == 1:
            super().began()
        elif self.crashes:
            self.exit(3)
        else:
            asyncio.get_running_loop().call_later(self.late_s, super().began)


class Steals(Returns):
    """Blocks whatever it is asked."""

    def __init__(self, *events: str, late_s: float = 0.0, crashes: bool = False) -> None:
        super().__init__(*events, block=True, reason="no")
        self.late_s = late_s
        self.crashes = crashes


@contextmanager
def taking(seconds: float) -> Iterator[None]:
    """All that happens in it takes this long."""
    began = asyncio.get_running_loop().time()
    yield
    assert asyncio.get_running_loop().time() - began == pytest.approx(seconds)


def warnings(scene: Play) -> list[str]:
    return [note["message"] for note in scene.viewer.of("ext_notify") if note["level"] == "warn"]


def gone(event: str) -> str:
    return f"extension guard has not come back from a reload: the {event} was allowed"


async def test_a_decision_waits_for_a_guard_that_is_slow_to_come_back(stage: Stage) -> None:
    stage.enter("guard", Steals("tool_call", late_s=7.5))
    async with play(stage, calls("echo"), says("ok")) as scene:
        with taking(3):
            await scene.host.reload()
        with taking(4.5):
            await scene.prompt()
        assert scene.results()[0].content == [Text("no")]
        assert warnings(scene) == []


async def test_a_guard_that_is_not_back_in_time_is_told_of_once_for_each_kind_of_event(stage: Stage) -> None:
    stage.enter("guard", Steals("tool_call", "turn_start", late_s=59))
    steps = [calls("echo"), calls("echo"), says("ok")]
    async with play(stage, *steps) as scene:
        await scene.host.reload()
        with taking(25):  # five decisions
            outcome = await scene.prompt()
        assert outcome.text == "ok"
        assert warnings(scene) == [gone("turn_start"), gone("tool_call")]


async def test_it_is_asked_once_it_is_back_and_told_of_anew_after_another_reload(stage: Stage) -> None:
    guard = stage.enter("guard", Steals("tool_call", late_s=10))
    steps = [calls("echo"), says("ok"), calls("echo"), says("ok"), calls("echo"), says("ok")]
    async with play(stage, *steps) as scene:
        await scene.host.reload()
        await scene.prompt()
        await scene.viewer.sees("ext_registered", 2)
        await scene.prompt()
        assert len(guard.of("event_intercept")) == 1
        await scene.host.reload()
        await scene.prompt()
        assert warnings(scene) == [gone("tool_call")] * 2


@pytest.mark.parametrize("event", ["tool_call", "turn_start", "assistant_message"])
async def test_nobody_waits_for_a_guard_that_failed_but_people_are_told(stage: Stage, event: str) -> None:
    stage.enter("guard", Steals(event, crashes=True))
    async with play(stage, calls("echo", text="hello"), says("ok")) as scene:
        await scene.host.reload()
        with taking(0):
            outcome = await scene.prompt()
        assert outcome.text == "ok"
        assert warnings(scene) == [gone(event)]


async def test_nobody_waits_for_a_guard_whose_manifest_is_broken_but_people_are_told(stage: Stage) -> None:
    stage.enter("guard", Steals("tool_call"))
    async with play(stage, calls("echo"), says("ok")) as scene:
        (located,) = stage.discovery.found
        stage.discovery.found.clear()
        manifest = located.directory / "extension.json"
        stage.discovery.errors.append(LoadError(manifest, "", "expected JSON", "global"))
        await scene.host.reload()
        with taking(0):
            await scene.prompt()
        assert warnings(scene) == [gone("tool_call")]


@pytest.mark.parametrize("how", ["removed", "disabled"])
async def test_a_guard_that_the_user_took_away_is_not_missed(stage: Stage, how: str) -> None:
    stage.enter("guard", Steals("tool_call"))
    async with play(stage, calls("echo"), says("ok")) as scene:
        if how == "disabled":
            stage.discovery.disabled.extend(stage.discovery.found)
        stage.discovery.found.clear()
        await scene.host.reload()
        with taking(0):
            await scene.prompt()
        assert scene.results()[0].content == [Text("{}")]
        assert warnings(scene) == []


async def test_a_guard_that_had_died_is_awaited_when_a_reload_starts_it_again(stage: Stage) -> None:
    guard = stage.enter("guard", Steals("tool_call", late_s=4))
    async with play(stage, calls("echo"), says("ok")) as scene:
        guard.exit(1)
        await scene.viewer.sees("ext_state")
        await scene.host.reload()
        with taking(1):
            await scene.prompt()
        assert scene.results()[0].content == [Text("no")]


async def test_text_stays_withheld_while_who_approved_it_before_is_on_its_way_back(stage: Stage) -> None:
    stage.enter("guard", Steals("assistant_message", late_s=4))
    async with play(stage, says("secret")) as scene:
        await scene.host.reload()
        with taking(1):
            await scene.prompt()
        assert scene.viewer.of("assistant_start")[0]["withheld_by"] == ["guard"]
        assert scene.viewer.of("text_delta") == []


async def test_text_is_withheld_once_for_who_failed_to_come_back_and_streams_from_then_on(
    stage: Stage,
) -> None:
    stage.enter("guard", Steals("assistant_message", crashes=True))
    async with play(stage, says("one"), says("two")) as scene:
        await scene.host.reload()
        for _ in range(2):
            await scene.prompt()
        withheld = [start.get("withheld_by") for start in scene.viewer.of("assistant_start")]
        assert withheld == [["guard"], None]
        assert warnings(scene) == [gone("assistant_message")]
        assert [delta["delta"] for delta in scene.viewer.of("text_delta")] == ["one", "two"]


async def test_nobody_is_warned_of_a_question_that_a_reload_ended_and_that_is_asked_again(
    stage: Stage,
) -> None:
    class Slow(Judge):
        """Answers so late that the reload does not wait for whoever is asked next."""

        def asked(self, frame: Frame) -> None:
            asyncio.get_running_loop().call_later(4, super().asked, frame)

    class Silent(Steals):
        """Answers only in its second life."""

        def asked(self, frame: Frame) -> None:
            if self.starts > 1:
                super().asked(frame)

    slow, guard = stage.enter("a", Slow("tool_call")), stage.enter("guard", Silent("tool_call"))
    async with play(stage, calls("echo"), says("ok")) as scene:
        turn = await scene.send("go")
        await slow.next("event_intercept")
        with taking(5):
            await scene.host.reload()
        await scene.session.wait(turn)
        assert scene.results()[0].content == [Text("no")]
        assert len(guard.of("event_intercept")) == 2
        assert warnings(scene) == []
