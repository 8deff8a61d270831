"""Loading the extensions of a session anew, with real processes: what stops, what comes up, what must not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.extensions.conftest import SHORT, World, run
from zotd.agent.ports import Refused
from zotd.base.tasks import Independent
from zotd.extensions.discovery import Discovery, discover
from zotd.extensions.host import ExtensionHost, Reloaded
from zotd.extensions.program import Surroundings
from zotd.extensions.shared import SharedExtensions
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.events import ExtNotify, ExtPanelClose, ExtRegistered, ExtState


def rewrite(directory: Path, **manifest: Any) -> None:
    """Change a manifest as an editor would: keys that are `...` go away."""
    path = directory / "extension.json"
    full = json.loads(path.read_text()) | manifest
    path.write_text(json.dumps({key: value for key, value in full.items() if value is not ...}))


def tool(name: str) -> dict[str, Any]:
    return {"type": "register_tool", "name": name, "description": name}


def command(name: str) -> dict[str, Any]:
    return {"type": "register_command", "name": name}


async def heard(host: ExtensionHost, name: str) -> dict[str, Any]:
    """What an extension of the mode `plays` heard so far, and its process."""
    return dict(json.loads((await run(host, f"/heard-{name}")).text))


async def call(world: World, name: str, **args: Any) -> str:
    """What a tool of the session answers."""
    found = world.toolbox.get(name)
    assert found is not None, f"nothing is named {name}"
    outcome = await found.run(ToolCall("t1", name, args), lambda text: None)
    return "".join(block.text for block in outcome.content if isinstance(block, Text))


@pytest.mark.promise("S67")
@pytest.mark.promise("S51")
async def test_a_reload_reads_the_manifests_again_and_starts_new_processes(world: World) -> None:
    old = world.add("plays", "old", frames=[tool("one"), command("first")])
    world.add("plays", "gone")
    world.add("stays_until_eof")
    async with world.running() as host:
        before = await heard(host, "old")
        rewrite(old, frames=[tool("two"), command("second")])
        (world.home / "extensions" / "gone" / "extension.json").unlink()
        world.add("plays", "new")
        assert await host.reload() == Reloaded(
            stopped=["gone", "old", "stays_until_eof"],
            loaded=["new", "old", "stays_until_eof"],
            ready=["new", "old", "stays_until_eof"],
        )
        assert [info.name for info in host.commands()] == ["heard-new", "heard-old", "second", "poke"]
        assert world.toolbox.names() == ["two"]
        assert await call(world, "two") == "done by old"
        after = await heard(host, "old")
        assert before["pid"] != after["pid"]
        assert not Path(f"/proc/{before['pid']}").exists()
    assert "saw the end of stdin" in world.log("stays_until_eof")
    assert world.log("old").count("[zotd] starting old/1 at ") == 2


@pytest.mark.promise("S67")
async def test_clients_are_told_of_each_step_of_a_reload(world: World) -> None:
    world.capabilities = {"panels"}
    world.add("plays", "a", frames=[{"type": "open_panel", "panel": {"id": "p", "lines": ["x"]}}])
    async with world.running() as host:
        world.events.clear()
        await host.reload()
        assert [event.state for event in world.seen(ExtState)] == ["stopped", "starting", "ready"]
        assert [event.commands for event in world.seen(ExtRegistered)] == [[], ["heard-a"]]
        assert world.seen(ExtPanelClose) == [ExtPanelClose(extension="a", panel_id="p")]


@pytest.mark.promise("S26")
async def test_session_start_is_sent_once_after_ready_and_again_after_a_reload(world: World) -> None:
    world.add("plays", "a", frames=[{"type": "subscribe", "events": ["session_start"]}])
    async with world.running() as host:
        for _ in range(2):
            frames = (await heard(host, "a"))["frames"]
            kinds = [frame["type"] for frame in frames]
            assert kinds == ["hello_ack", "event", "command_invoked"]
            assert frames[1] == {"type": "event", "event": "session_start"}
            await host.reload()


@pytest.mark.promise("S68")
@pytest.mark.promise("S60")
async def test_paths_of_this_run_are_loaded_again_and_still_come_first(world: World) -> None:
    world.add("plays", "weather", version="1")
    copy = world.cwd / "working-copy"
    world.add("plays", "../../project/working-copy", name="weather", version="2", frames=[command("v2")])
    world.explicit = [Path("working-copy")]
    async with world.running() as host:
        rewrite(copy, frames=[command("v3")])
        assert (await host.reload()).loaded == ["weather"]
        assert [info.name for info in host.commands()] == ["heard-weather", "v3"]
        assert [(row.dir, row.state) for row in host.states()] == [
            (str(copy), "ready"),
            (str(world.home / "extensions" / "weather"), "shadowed"),
        ]


@pytest.mark.promise("S69")
async def test_every_error_of_a_reload_is_told_in_full_and_stops_nobody(world: World) -> None:
    broken = world.add("plays", "broken")
    exits = world.add("plays", "exits")
    world.add("plays", "good")
    async with world.running() as host:
        rewrite(broken, enabled="yes")
        script = Path(__file__).with_name("misbehave.py")
        rewrite(exits, args=["-S", str(script), "exits_7"])
        done = await host.reload()
        assert done.loaded == ["exits", "good"]
        assert done.ready == ["good"]
        manifest = f"{broken}/extension.json"
        log = f"{world.home}/logs/ext-exits.log"
        errors = [
            (str(broken), f"{manifest}: enabled: expected true or false, got a string"),
            (str(exits), f"extension exits exited: exit status 7 before hello (log: {log})"),
        ]
        assert [(error.path, error.message) for error in done.errors] == errors
        notes = [(note.level, note.message) for note in world.seen(ExtNotify)]
        assert notes == [("error", message) for _, message in errors]
        assert (await heard(host, "good"))["frames"]


async def test_a_reload_waits_for_tool_calls_that_run(world: World, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    world.add("plays", "a", frames=[tool("slow")])
    async with world.running(reload_s=15.0) as host:
        slow = asyncio.create_task(call(world, "slow", gate=str(gate)))
        writer = await asyncio.to_thread(os.open, gate, os.O_WRONLY)  # returns once the extension reads it
        reload = asyncio.create_task(host.reload())
        await asyncio.sleep(0)
        assert world.seen(ExtState)[-1].state == "ready"
        os.close(writer)
        assert await slow == "done by a"
        assert (await reload).ready == ["a"]


async def test_a_tool_call_that_does_not_end_holds_a_reload_for_its_time_only(
    world: World, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    world.add("plays", "a", frames=[tool("slow")])
    async with world.running(reload_s=0.1, shutdown_s=0.1) as host:
        slow = asyncio.create_task(call(world, "slow", gate=str(gate)))
        writer = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
        done = await host.reload()
        os.close(writer)
        assert (await slow) == "extension a was stopped: extensions are being loaded anew"
        assert done.ready == ["a"]
        assert await call(world, "slow") == "done by a"


async def test_while_extensions_are_loaded_a_call_says_that_its_extension_is_not_running(
    world: World,
) -> None:
    directory = world.add("plays", "a", frames=[tool("deploy"), command("ship")])
    async with world.running() as host:
        ship = host.find("/ship")
        assert ship is not None
        os.mkfifo(directory / "gate")
        rewrite(directory, args=["-S", str(Path(__file__).with_name("misbehave.py")), "hello_late"])
        reload = asyncio.create_task(host.reload())
        writer = await asyncio.to_thread(os.open, directory / "gate", os.O_WRONLY)
        assert world.toolbox.names() == []
        assert await call(world, "deploy") == "extension a is not running"
        assert (await host.invoke(ship)).error == "extension a is not running"
        os.close(writer)
        assert (await reload).ready == ["a"]
        assert world.toolbox.get("deploy") is None


@pytest.mark.parametrize("how", ["broken manifest", "exits", "slow"])
async def test_a_failed_reload_gives_nobody_what_a_guard_stood_in_front_of(world: World, how: str) -> None:
    guard = world.add("plays", "a-guard", frames=[tool("deploy"), command("ship")])
    world.add("plays", "b", frames=[tool("deploy"), command("Ship")])
    misbehave = str(Path(__file__).with_name("misbehave.py"))
    async with world.running(ready_together_s=2.0 if how == "slow" else 8.0) as host:
        if how == "broken manifest":
            rewrite(guard, name=7)
        else:
            rewrite(guard, args=["-S", misbehave, "exits_7" if how == "exits" else "silent"])
        for _ in range(2):
            await host.reload()
            assert await call(world, "deploy") == "extension a-guard is not running"
            assert world.toolbox.names() == []
            assert host.find("/ship") is None
        assert "tool deploy is shadowed: extension a-guard has it" in world.log("b")
        assert "extension a-guard had it and has not come back" in world.log("b")
        rewrite(guard, name="a-guard", args=["-S", misbehave, "plays"])
        await host.reload()
        assert await call(world, "deploy") == "done by a-guard"


async def test_names_of_an_extension_that_was_removed_or_let_them_go_are_free_after_a_reload(
    world: World,
) -> None:
    first = world.add("plays", "a", frames=[tool("deploy"), command("ship")])
    second = world.add("plays", "b", frames=[tool("other"), command("other")])
    world.add(
        "plays", "c", frames=[tool(n) for n in ("deploy", "other")] + [command("ship"), command("other")]
    )
    async with world.running() as host:
        (first / "extension.json").unlink()
        rewrite(second, frames=[])
        await host.reload()
        assert await call(world, "deploy") == await call(world, "other") == "done by c"
        assert [info.extension for info in host.commands() if info.name in ("ship", "other")] == ["c", "c"]


async def test_a_broken_manifest_does_not_give_its_name_to_one_it_shadowed(world: World) -> None:
    world.add("plays", "guard", frames=[command("global")])
    ours = world.add("plays", "../../project/.zot/extensions/ours", name="guard", frames=[command("local")])
    async with world.running() as host:
        rewrite(ours, exec=...)
        done = await host.reload()
        assert (done.loaded, done.ready, len(done.errors)) == ([], [], 1)
        assert [(row.name, row.state) for row in host.states()] == [("guard", "shadowed"), ("ours", "failed")]
        (ours / "extension.json").unlink()
        assert (await host.reload()).ready == ["guard"]
        assert host.find("/global") is not None


@pytest.mark.promise("S68")
@pytest.mark.parametrize("gone", ["directory", "manifest"])
async def test_a_given_directory_that_was_removed_hides_its_namesake_no_longer(
    world: World, gone: str
) -> None:
    world.add("plays", "guard", frames=[command("global")])
    ours = world.add("plays", "../../project/ours", name="guard", frames=[command("local")])
    world.explicit = [ours]
    async with world.running() as host:
        assert host.find("/local") is not None
        if gone == "directory":
            shutil.rmtree(ours)
        else:
            (ours / "extension.json").unlink()
        done = await host.reload()
        assert (done.ready, len(done.errors)) == (["guard"], 1)
        assert host.find("/global") is not None


async def test_who_asks_while_a_reload_runs_gets_its_outcome(world: World) -> None:
    world.add("plays", "a")
    async with world.running() as host:
        first, second = await asyncio.gather(host.reload(), host.reload())
        assert first is second
    assert world.log("a").count("[zotd] starting") == 2


async def test_a_reload_goes_on_when_who_asked_for_it_leaves(world: World) -> None:
    world.add("plays", "a")
    async with world.running() as host:
        asked = asyncio.create_task(host.reload())
        await world.event(ExtState, state="stopped")
        asked.cancel()
        await host.loaded()
        assert [row.state for row in host.states()] == ["ready"]


async def test_a_reload_during_the_start_waits_for_it(world: World) -> None:
    world.add("plays", "a")
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        host = world.host(tasks)
        starting = tasks.create_task(host.start())
        await world.event(ExtState, state="starting")
        assert (await host.reload()).stopped == ["a"]
        assert starting.done()
        assert [event.state for event in world.seen(ExtState)] == [
            *("starting", "ready", "stopped"),
            *("starting", "ready"),
        ]
        await host.stop()


async def test_a_session_that_ends_during_a_reload_leaves_nothing(world: World) -> None:
    world.add("silent")
    async with world.running(ready_together_s=0.1) as host:
        world.events.clear()
        reload = asyncio.create_task(host.reload())
        await world.event(ExtState, state="starting")
        await host.stop()
        (error,) = (await reload).errors
        assert "the session ended" in error.message
        assert (await host.reload()).errors == [error]
        assert [row.state for row in host.states()] == ["stopped"]


async def test_what_waits_for_a_reload_goes_on_when_it_is_over(world: World) -> None:
    world.add("plays", "a")
    async with world.running() as host:
        reload = asyncio.create_task(host.reload())
        await world.event(ExtState, state="stopped")
        await host.loaded()
        assert [row.state for row in host.states()] == ["ready"]
        await reload
        await asyncio.wait_for(host.loaded(), 0.1)


async def test_decisions_wait_for_a_reload_and_are_made_by_the_new_set(world: World) -> None:
    directory = world.add("plays", "guard", frames=[])
    async with world.running() as host:
        rewrite(directory, frames=[{"type": "subscribe", "intercept": ["tool_call", "turn_start"]}])
        reload = asyncio.create_task(host.reload())
        await world.event(ExtState, state="stopped")
        decisions = host.hooks.tool_call(ToolCall("t", "bash", {})), host.hooks.turn_start(1)
        verdicts = tuple(await asyncio.gather(*decisions))
        no = Refused("guard says no", "guard")
        assert verdicts == (no, no)
        await reload


async def test_a_reload_lets_a_decision_end_that_has_begun(world: World) -> None:
    world.add("plays", "guard", frames=[{"type": "subscribe", "intercept": ["tool_call"]}])
    async with world.running(reload_s=15.0) as host:
        deciding = asyncio.create_task(host.hooks.tool_call(ToolCall("t", "bash", {})))
        await asyncio.sleep(0)
        await host.reload()
        assert await deciding == Refused("guard says no", "guard")
        assert world.seen(ExtNotify) == []


async def test_a_decision_that_a_reload_cuts_short_is_made_again(world: World) -> None:
    directory = world.add("silent_in_intercept", "guard")
    async with world.running(reload_s=0.1, intercept_s=15.0) as host:
        deciding = asyncio.create_task(host.hooks.tool_call(ToolCall("t", "bash", {})))
        await asyncio.sleep(0)
        subscribe = {"type": "subscribe", "intercept": ["tool_call"]}
        misbehave = str(Path(__file__).with_name("misbehave.py"))
        rewrite(directory, args=["-S", misbehave, "plays"], frames=[subscribe])
        await host.reload()
        assert await deciding == Refused("guard says no", "guard")


async def test_an_extension_with_nothing_to_run_is_loaded_and_ready(world: World) -> None:
    theme = world.add("good", "dark", exec="")
    (theme / "theme.json").write_text("{}")
    async with world.running() as host:
        assert await host.reload() == Reloaded(loaded=["dark"], ready=["dark"])
    assert not (world.home / "logs").exists()


async def test_twenty_reloads_leave_no_descriptor_and_no_process(world: World) -> None:
    world.add("good")
    async with world.running() as host:
        before = len([*Path("/proc/self/fd").iterdir()])
        for _ in range(20):
            assert (await host.reload()).ready == ["good"]
        assert len([*Path("/proc/self/fd").iterdir()]) == before


@pytest.mark.promise("S10")
async def test_who_is_started_after_the_model_was_changed_is_told_of_the_new_one(world: World) -> None:
    world.add("plays", "a")
    async with world.running() as host:
        host.use_model("other", "other-2")
        assert (await heard(host, "a"))["frames"][0]["model"] == "scripted-1"
        await host.reload()
        ack = (await heard(host, "a"))["frames"][0]
        assert (ack["provider"], ack["model"]) == ("other", "other-2")


async def test_a_mistake_of_ours_in_a_reload_is_its_outcome_and_what_comes_next_works(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    world.add("plays", "a")
    found: list[Discovery] = [discover(world.cwd, world.home)]

    async def first() -> Discovery:
        return found[0]  # an IndexError once it is empty

    async with asyncio.timeout(20), Independent() as tasks:
        host = ExtensionHost(
            first,
            Surroundings(world.home, world.cwd, world.env, "scripted", "scripted-1", "s"),
            surface=world,
            toolbox=world.toolbox,
            limits=SHORT,
            tasks=tasks,
            shared=lambda: SharedExtensions(SHORT, tasks),
        )
        await host.start()
        found.clear()
        (error,) = (await host.reload()).errors
        assert (error.path, error.message) == (
            str(world.cwd),
            "internal error: IndexError: list index out of range",
        )
        found.append(discover(world.cwd, world.home))
        assert (await host.reload()).ready == ["a"]
        await host.stop()
    assert "a mistake of ours ended: reload of extensions" in capfd.readouterr().err
