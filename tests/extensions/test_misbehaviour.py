"""What an extension can do to a session, with real processes: nothing is lost, and nobody else notices."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.extensions.conftest import World, run
from zotd.agent.ports import Allowed
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.events import ExtNotify, ExtState


@pytest.mark.promise("S14")
async def test_a_flood_of_notes_arrives_whole_and_in_order(world: World) -> None:
    world.add("floods")
    world.add("good", "other", name="other")
    async with world.running(command_s=20.0) as host:
        assert (await run(host, "/poke")).text == "ouch"
    assert [int(note.message) for note in world.seen(ExtNotify)] == [*range(100_000)]


async def test_a_line_of_20_mib_is_dropped_and_the_next_one_is_read(world: World) -> None:
    world.add("long_line")
    async with world.running(command_s=20.0) as host:
        assert (await run(host, "/poke")).text == "ouch"
    assert [note.message for note in world.seen(ExtNotify)] == ["still in step"]
    (remark,) = [line for line in world.log("long_line").splitlines() if "skipped" in line]
    assert "larger than 16777216 bytes" in remark
    assert len(remark) < 400


async def test_an_answer_of_20_mib_fails_the_request_at_once(world: World) -> None:
    world.add("long_line")
    async with world.running(command_s=3600.0) as host:
        answer = await run(host, "/poke answer")
        assert answer.error is not None
        assert "larger than 16777216 bytes" in answer.error
        assert (await run(host, "/poke")).text == "ouch"


@pytest.mark.promise("S15")
async def test_who_leaves_without_an_acknowledgement_has_left_all_the_same(world: World) -> None:
    world.add("never_acks")
    async with world.running(shutdown_s=3600.0):
        pass
    assert world.log("never_acks").splitlines()[-1] == "[zotd] exited: exit status 5"
    last = world.seen(ExtState)[-1]
    assert (last.extension, last.state, last.error) == ("never_acks", "stopped", None)


async def test_a_hello_after_twelve_seconds_is_as_good_as_one_at_once(world: World) -> None:
    """However late it is, within its time: here the test decides when, and nobody waits for it."""
    gate = world.add("hello_late") / "gate"
    os.mkfifo(gate)
    world.add("banner")
    async with world.running(ready_together_s=0.1) as host:
        await world.event(ExtState, extension="banner", state="ready")
        assert {row.name: row.state for row in host.states()} == {"banner": "ready", "hello_late": "starting"}
        assert (await run(host, "/poke")).extension == "banner"
        gate.write_bytes(b"go")
        await world.event(ExtState, extension="hello_late", state="ready")
    assert "command /poke is shadowed: extension banner has it" in world.log("hello_late")


@pytest.mark.promise("S31")
async def test_who_is_silent_in_an_intercept_has_agreed_and_stays_of_use(world: World) -> None:
    world.add("silent_in_intercept")
    async with world.running(intercept_s=0.05) as host:
        hooks = host.interception
        assert hooks.withholding() == ["silent_in_intercept"]
        assert await hooks.turn_start(1) == Allowed()
        assert await hooks.tool_call(ToolCall("c1", "bash", {"command": "ls"})) == Allowed(
            args={"command": "ls"}
        )
        assert await hooks.assistant_message("hello") == Allowed(text="hello")
        assert [note.level for note in world.seen(ExtNotify)] == ["warn", "warn", "warn"]
        assert (await run(host, "/poke")).text == "ouch"


@pytest.mark.promise("S46")
async def test_a_command_of_its_own_runs_inside_its_own_tool_call(world: World) -> None:
    world.add("slash_inside_call")
    async with world.running() as host:
        tool = world.toolbox.get("ask")
        assert tool is not None
        call = asyncio.ensure_future(tool.run(ToolCall("c1", "ask", {}), lambda text: None))
        invocation = await world.ran()
        assert (invocation.name, invocation.args) == ("poke", "from inside")
        assert (await host.invoke(invocation)).text == "ouch"
        outcome = await call
        assert (outcome.content, outcome.is_error) == ([Text("from inside")], False)


async def test_a_daemon_that_left_its_session_is_gone_with_its_extension(world: World) -> None:
    directory = world.add("daemonizes")
    async with world.running() as host:
        assert (await run(host, "/poke")).text == "ouch"
        pid = int((directory / "daemon.pid").read_text())
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


async def test_a_log_that_is_a_pipe_holds_nobody_up(world: World) -> None:
    for name in ("a", "b"):
        world.add("plays", name)
    (world.home / "logs").mkdir()
    os.mkfifo(world.home / "logs" / "ext-a.log")
    reader = os.open(world.home / "logs" / "ext-a.log", os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with world.running() as host:
            rows = {row.name: row for row in host.states()}
            assert rows["b"].state == "ready"
            assert rows["a"].state == "failed"
            assert "did not start: " in (rows["a"].error or "")
            assert "expected a regular file" in (rows["a"].error or "")
    finally:
        os.close(reader)
