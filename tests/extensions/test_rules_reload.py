"""The rules of a reload, at the product's own times."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.extensions.conftest import Stage, run
from tests.extensions.play import calls, play, says
from tests.peers import Frame, Peer
from zotd.agent.ports import ToolOutcome
from zotd.base.limits import Limits
from zotd.extensions.discovery import Discovery, LoadError
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.events import ExtState

COMMAND: Frame = {"type": "register_command", "name": "go"}
TOOL: Frame = {"type": "register_tool", "name": "dig"}


class Slow(Peer):
    """Takes its time over a tool call."""

    def __init__(self, seconds: float, *offers: Frame) -> None:
        super().__init__(*offers)
        self.seconds = seconds

    def called(self, frame: Frame) -> None:
        asyncio.get_running_loop().call_later(self.seconds, super().called, frame)


def call(stage: Stage, name: str = "dig", **args: Any) -> asyncio.Future[ToolOutcome]:
    tool = stage.toolbox.get(name)
    assert tool is not None
    return asyncio.ensure_future(tool.run(ToolCall("c1", name, args), lambda text: None))


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.promise("S51")
@pytest.mark.promise("S67")
async def test_a_reload_stops_everything_as_at_the_end_and_starts_it_again(stage: Stage) -> None:
    class Tidies(Peer):
        def dismissed(self) -> None:
            self.say(type="shutdown_ack")
            asyncio.get_running_loop().call_later(1, self.exit, 0)

    first, second = stage.enter("a", Tidies(COMMAND)), stage.enter("b", Peer(TOOL))
    async with stage.running() as host:
        began = now()
        reloaded = await host.reload()
        assert now() - began == pytest.approx(1)
        for peer in (first, second):
            assert [frame["type"] for frame in peer.heard] == ["hello_ack", "shutdown", "hello_ack"]
            assert peer.starts == 2
            assert peer.signals == []
        assert (reloaded.stopped, reloaded.loaded, reloaded.ready) == (["a", "b"], ["a", "b"], ["a", "b"])
        assert reloaded.errors == []
        assert (await run(host, "/go")).text == "done"
        assert stage.toolbox.names() == ["dig"]


@pytest.mark.promise("S67")
async def test_it_waits_for_a_tool_call_that_ends_within_five_seconds(stage: Stage) -> None:
    peer = stage.enter("a", Slow(4, TOOL))
    async with stage.running() as host:
        outcome = call(stage)
        await peer.next("tool_call")
        began = now()
        await host.reload()
        assert (await outcome).content == [Text("done")]
        assert now() - began == pytest.approx(4)


@pytest.mark.promise("S67")
async def test_a_tool_call_that_takes_longer_than_five_seconds_fails_when_they_are_over(
    stage: Stage,
) -> None:
    peer = stage.enter("a", Slow(50, TOOL))
    async with stage.running() as host:
        outcome = call(stage)
        await peer.next("tool_call")
        began = now()
        await host.reload()
        assert now() - began == pytest.approx(5)
        assert Limits().reload_s == 5
        failed = await outcome
        assert failed.is_error
        assert failed.content == [Text("extension a was stopped: extensions are being loaded anew")]


@pytest.mark.promise("S67")
async def test_a_command_that_waits_for_its_answer_fails_by_the_name_of_the_reload(stage: Stage) -> None:
    class Silent(Peer):
        def invoked(self, frame: Frame) -> None:
            pass

    peer = stage.enter("a", Silent(COMMAND))
    async with stage.running() as host:
        running = asyncio.ensure_future(run(host, "/go"))
        await peer.next("command_invoked")
        await host.reload()
        assert (await running).error == "extension a was stopped: extensions are being loaded anew"


async def test_what_ignores_shutdown_is_terminated_and_killed_in_a_reload_too(stage: Stage) -> None:
    class Stubborn(Peer):
        def dismissed(self) -> None:
            pass

        def signalled(self, number: int) -> None:
            pass

    peer = stage.enter("a", Stubborn(COMMAND))
    async with stage.running() as host:
        began = now()
        await host.reload()
        assert now() - began == pytest.approx(3)
        assert len(peer.signals) == 2
        assert (await run(host, "/go")).text == "done"


@pytest.mark.promise("S67")
async def test_manifests_are_read_again_and_the_registry_is_built_anew(stage: Stage) -> None:
    peer = stage.enter("old", Peer(COMMAND, TOOL))
    async with stage.running() as host:
        stage.discovery = Discovery()
        stage.enter("new", Peer({"type": "register_command", "name": "fresh"}, {**TOOL, "name": "delve"}))
        reloaded = await host.reload()
        assert (reloaded.stopped, reloaded.loaded) == (["old"], ["new"])
        assert [info.name for info in host.commands()] == ["fresh"]
        assert stage.toolbox.names() == ["delve"]
        assert peer.starts == 1


@pytest.mark.promise("S67")
async def test_a_tool_that_is_new_is_in_the_next_request(stage: Stage) -> None:
    peer = stage.enter("a", Peer(TOOL))
    async with play(stage, calls("delve"), says("ok")) as scene:
        peer.offers.append({**TOOL, "name": "delve"})
        await scene.host.reload()
        await scene.prompt()
        assert [tool.name for tool in scene.script.requests[0].tools] == ["echo", "dig", "delve"]
        assert scene.results()[0].content == [Text("done")]


@pytest.mark.promise("S69")
async def test_the_answer_has_every_error_in_full(stage: Stage) -> None:
    class Dies(Peer):
        def began(self) -> None:
            if self.starts == 1:
                super().began()
            else:
                self.exit(7)

    stage.enter("dies", Dies())
    async with stage.running() as host:
        manifest = Path("/somewhere/broken/extension.json")
        stage.discovery.errors.append(LoadError(manifest, "name", "is required and missing", "flag"))
        reloaded = await host.reload()
        log = stage.home / "logs" / "ext-dies.log"
        assert [(error.path, error.message) for error in reloaded.errors] == [
            (str(manifest.parent), f"{manifest}: name: is required and missing"),
            (
                str(stage.home / "extensions" / "dies"),
                f"extension dies exited: exit status 7 before hello (log: {log})",
            ),
        ]
        assert (reloaded.loaded, reloaded.ready) == (["dies"], [])


async def test_one_that_is_late_again_joins_again(stage: Stage) -> None:
    class Late(Peer):
        def began(self) -> None:
            asyncio.get_running_loop().call_later(12, super().began)

    peer = stage.enter("late", Late(COMMAND))
    async with stage.running() as host:
        await stage.event(ExtState, extension="late", state="ready")
        began = now()
        reloaded = await host.reload()
        assert now() - began == pytest.approx(3)
        assert reloaded.ready == []
        assert host.find("/go") is None
        await peer.next("hello_ack", 2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (await run(host, "/go")).text == "done"


@pytest.mark.promise("S67")
async def test_the_slash_command_says_what_it_stopped_and_what_is_ready(stage: Stage) -> None:
    peer = stage.enter("a", Peer(COMMAND))
    async with play(stage) as scene:
        await scene.prompt("/reload-ext")
        (shown,) = scene.viewer.of("ext_display")
        assert shown["text"] == "stopped: a; ready: a"
        assert peer.starts == 2


@pytest.mark.promise("S22")
async def test_what_was_activated_stays_active(stage: Stage) -> None:
    class Opens(Peer):
        def called(self, frame: Frame) -> None:
            self.say(type="tool_result", id=frame["id"], activate_tools=["deep"])

    stage.enter("a", Opens(TOOL, {**TOOL, "name": "deep", "deferred": True}))
    async with play(stage, calls("dig"), says("ok"), says("ok")) as scene:
        await scene.prompt()
        await scene.host.reload()
        await scene.prompt()
        assert [tool.name for tool in scene.script.requests[-1].tools] == ["echo", "dig", "deep"]
