"""One process for the sessions of a directory: who gets which frame, and when it begins and ends."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.extensions.conftest import SHORT, World, run
from tests.extensions.test_reload import rewrite
from zotd.agent.ports import Refused
from zotd.extensions.host import ExtensionHost
from zotd.extensions.shared import SharedExtensions
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.events import ExtClearNotes, ExtNotify, ExtPanelClose, ExtPanelOpen, ExtState

SUBSCRIBE = {"type": "subscribe", "events": ["session_start"], "intercept": ["tool_call"]}
TOOL = {"type": "register_tool", "name": "work"}


class Daemon:
    """Sessions of one directory, and the extensions they share."""

    def __init__(self, root: Path, tasks: asyncio.TaskGroup, **limits: Any) -> None:
        self.root = root
        self.tasks = tasks
        self.limits = replace(SHORT, **limits)
        self.shared = SharedExtensions(self.limits, tasks)
        self.disk = World(root)

    def add(self, name: str = "team", **manifest: Any) -> Path:
        return self.disk.add("plays", name, instances="workspace", **manifest)

    def world(self, session_id: str, cwd: Path | None = None) -> World:
        """A session that has not started yet."""
        (self.root / session_id).mkdir()
        world = World(self.root / session_id)
        world.cwd, world.home = cwd or self.disk.cwd, self.disk.home
        world.session_id, world.shared = session_id, self.shared
        return world

    @asynccontextmanager
    async def session(self, world: World) -> AsyncIterator[ExtensionHost]:
        host = world.host(self.tasks, self.limits)
        await host.start()
        try:
            yield host
        finally:
            await host.stop()

    def starts(self, name: str = "team") -> int:
        return self.disk.log(name).count("[zotd] starting ")


@asynccontextmanager
async def daemon(root: Path, **limits: Any) -> AsyncIterator[Daemon]:
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        yield Daemon(root, tasks, **limits)


@asynccontextmanager
async def two(
    root: Path, *frames: dict[str, Any], **limits: Any
) -> AsyncIterator[tuple[Daemon, World, ExtensionHost, World, ExtensionHost]]:
    """A daemon with a shared extension that says `frames`, and two sessions."""
    async with daemon(root, **limits) as home, AsyncExitStack() as stack:
        home.add(frames=[*frames])
        a, b = home.world("a"), home.world("b")
        one = await stack.enter_async_context(home.session(a))
        other = await stack.enter_async_context(home.session(b))
        yield home, a, one, b, other


async def heard(host: ExtensionHost, *say: dict[str, Any]) -> dict[str, Any]:
    """Make it say frames; what it heard so far and its process."""
    return dict(json.loads((await run(host, f"/heard-team {json.dumps(say)}")).text))


async def test_sessions_of_one_directory_share_one_process(tmp_path: Path) -> None:
    async with two(tmp_path, TOOL) as (home, _, one, _, other):
        assert (await heard(one))["pid"] == (await heard(other))["pid"]
        assert home.starts() == 1


async def test_sessions_of_different_directories_share_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as home:
        home.add()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        async with home.session(home.world("a")) as one, home.session(home.world("b", elsewhere)) as other:
            assert (await heard(one))["pid"] != (await heard(other))["pid"]


async def test_every_host_frame_names_its_session(tmp_path: Path) -> None:
    async with two(tmp_path, TOOL, SUBSCRIBE) as (_, a, one, b, other):
        for world, host in ((a, one), (b, other)):
            world.capabilities = {"panels"}
            tool = world.toolbox.get("work")
            assert tool is not None
            outcome = await tool.run(ToolCall("t", "work", {}), lambda text: None)
            assert outcome.content == [Text("done by team")]
            verdict = await host.hooks.tool_call(ToolCall("t", "bash", {}))
            assert verdict == Refused("team says no", "team")
        panel = {"type": "open_panel", "panel": {"id": "p"}, "session_id": "b"}
        await heard(other, panel)
        other.panels.key("team", "p", "up")
        frames = (await heard(one))["frames"]
        assert [(frame["type"], frame["session_id"]) for frame in frames] == [
            ("hello_ack", "a"),
            ("event", "a"),
            ("event", "b"),
            ("tool_call", "a"),
            ("event_intercept", "a"),
            ("tool_call", "b"),
            ("event_intercept", "b"),
            ("command_invoked", "b"),
            ("panel_key", "b"),
            ("command_invoked", "a"),
        ]


async def test_a_frame_reaches_the_session_it_names_and_no_other(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, a, one, b, _):
        a.capabilities = b.capabilities = {"panels", "submit"}
        await heard(
            one,
            {"type": "notify", "message": "for b", "session_id": "b"},
            {"type": "clear_notes", "session_id": "b"},
            {"type": "submit", "text": "do it", "session_id": "b"},
            {"type": "open_panel", "panel": {"id": "p"}, "session_id": "b"},
            {"type": "panel_close", "panel_id": "p", "session_id": "b"},
            {"type": "register_command", "name": "only-b", "session_id": "b"},
        )
        assert [note.message for note in b.seen(ExtNotify)] == ["for b"]
        assert (len(b.seen(ExtPanelOpen)), len(b.seen(ExtPanelClose))) == (1, 1)
        assert b.seen(ExtClearNotes) == [ExtClearNotes(extension="team")]
        assert b.prompts == [("team", "do it")]
        assert [event for event in a.events if isinstance(event, ExtNotify | ExtPanelOpen)] == []
        assert (a.seen(ExtClearNotes), a.prompts) == ([], [])
        assert one.find("/only-b") is None


async def test_a_spontaneous_frame_that_names_no_session_is_logged_and_dropped(tmp_path: Path) -> None:
    async with two(tmp_path) as (home, a, one, b, _):
        a.capabilities = b.capabilities = {"submit"}
        await heard(
            one,
            {"type": "notify", "message": "for whom?"},
            {"type": "submit", "text": "do it"},
            {"type": "notify", "message": "for c", "session_id": "c"},
        )
        assert [*a.seen(ExtNotify), *b.seen(ExtNotify)] == []
        assert [*a.prompts, *b.prompts] == []
    log = home.disk.log("team")
    assert "[zotd] notify was dropped: it names no session" in log
    assert "[zotd] submit was dropped: it names no session" in log
    assert "[zotd] notify was dropped: session 'c' is not here" in log


async def test_what_is_registered_for_all_counts_for_a_session_that_joins_later(tmp_path: Path) -> None:
    async with daemon(tmp_path) as home:
        home.add(frames=[TOOL, SUBSCRIBE])
        async with home.session(home.world("a")) as one:
            more = {"type": "subscribe", "events": ["turn_start"]}
            await heard(one, {"type": "register_command", "name": "late"}, more)
            b = home.world("b")
            async with home.session(b) as other:
                assert [info.name for info in other.commands()] == ["heard-team", "late"]
                assert b.toolbox.names() == ["work"]
                assert [event.state for event in b.seen(ExtState)] == ["starting", "ready"]
                frames = (await heard(other))["frames"]
                assert frames[-2] == {"type": "event", "event": "session_start", "session_id": "b"}


async def test_the_process_ends_by_shutdown_when_the_last_session_leaves(tmp_path: Path) -> None:
    async with daemon(tmp_path) as home:
        home.add()
        a, b = home.world("a"), home.world("b")
        async with home.session(b) as other:
            async with home.session(a) as one:
                pid = (await heard(one))["pid"]
            assert [(last.extension, last.state) for last in a.seen(ExtState)[-1:]] == [("team", "stopped")]
            assert one.commands() == []
            assert (await heard(other))["pid"] == pid
            assert "shutdown" not in [frame["type"] for frame in (await heard(other))["frames"]]
        assert [(last.extension, last.state) for last in b.seen(ExtState)[-1:]] == [("team", "stopped")]
        assert not Path(f"/proc/{pid}").exists()
        assert home.disk.log("team").splitlines()[-1] == "[zotd] exited: exit status 0"


async def test_its_environment_is_that_of_the_first_session(tmp_path: Path) -> None:
    async with daemon(tmp_path) as home:
        home.add()
        a, b = home.world("a"), home.world("b")
        a.env["GREETING"], b.env["GREETING"] = "from a", "from b"
        async with home.session(a), home.session(b) as other:
            env = (await heard(other))["env"]
            assert (env["GREETING"], env["ZOT_CWD"]) == ("from a", str(home.disk.cwd))


async def test_when_it_dies_every_session_is_told_and_the_next_one_starts_it_again(tmp_path: Path) -> None:
    async with two(tmp_path, TOOL) as (home, a, one, b, other):
        os.kill((await heard(one))["pid"], 9)
        for world in (a, b):
            failed = await world.event(ExtState, state="failed")
            assert failed.error is not None
            assert failed.error.startswith("extension team exited: killed by SIGKILL (log: ")
            assert world.toolbox.names() == []
        assert one.commands() == other.commands() == []
        assert (await one.reload()).ready == ["team"]
        assert (await other.reload()).errors == []
        assert (await heard(one))["pid"] == (await heard(other))["pid"]
        assert home.starts() == 2


async def test_a_start_that_fails_is_an_error_of_every_session(tmp_path: Path) -> None:
    async with daemon(tmp_path) as home:
        home.disk.add("exits_7", "team", instances="workspace")
        a, b = home.world("a"), home.world("b")
        async with home.session(a), home.session(b):
            for world in (a, b):
                (note,) = world.seen(ExtNotify)
                assert note.message.startswith("extension team exited: exit status 7 before hello (log: ")


async def test_a_reload_in_the_only_session_starts_it_anew(tmp_path: Path) -> None:
    async with daemon(tmp_path) as home:
        home.add()
        async with home.session(home.world("a")) as one:
            before = (await heard(one))["pid"]
            done = await one.reload()
            assert (done.stopped, done.ready, done.errors) == (["team"], ["team"], [])
            assert (await heard(one))["pid"] != before
        assert home.starts() == 2


async def test_a_reload_while_others_use_it_says_that_it_was_not_started_anew(tmp_path: Path) -> None:
    async with two(tmp_path, SUBSCRIBE) as (home, a, one, b, other):
        before = (await heard(one))["pid"]
        b.events.clear()
        done = await one.reload()
        assert done.ready == ["team"]
        assert [error.message for error in done.errors] == [
            "extension team was not started anew: other sessions use its process"
        ]
        assert [(note.level, note.message) for note in a.seen(ExtNotify)] == [
            ("warn", "extension team was not started anew: other sessions use its process")
        ]
        assert b.events == []
        seen = await heard(one)
        assert seen["pid"] == before
        starts = [frame["session_id"] for frame in seen["frames"] if frame["type"] == "event"]
        assert starts == ["a", "b", "a"]
        assert home.starts() == 1
        assert (await heard(other))["pid"] == before


async def test_who_waits_while_its_session_loads_extensions_anew_is_told_so(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with two(tmp_path, TOOL, reload_s=0.05) as (_, a, one, _, _):
        tool = a.toolbox.get("work")
        assert tool is not None
        calling = asyncio.create_task(tool.run(ToolCall("t", "work", {"gate": str(gate)}), lambda text: None))
        writer = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
        await one.reload()
        outcome = await calling
        assert outcome.content == [Text("extension team was stopped: extensions are being loaded anew")]
        os.close(writer)


async def test_who_leaves_waits_no_longer_and_the_others_are_not_disturbed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with daemon(tmp_path) as home:
        home.add(frames=[TOOL])
        b = home.world("b")
        async with home.session(b) as other:
            a = home.world("a")
            async with home.session(a):
                tool = a.toolbox.get("work")
                assert tool is not None
                calling = asyncio.create_task(
                    tool.run(ToolCall("t", "work", {"gate": str(gate)}), lambda text: None)
                )
                writer = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
            outcome = await calling
            assert outcome.content == [Text("extension team was stopped")]
            os.close(writer)
            assert (await heard(other))["frames"]


async def test_a_session_that_comes_while_the_process_ends_waits_and_gets_a_new_one(tmp_path: Path) -> None:
    farewell = tmp_path / "farewell"
    os.mkfifo(farewell)
    async with daemon(tmp_path) as home:
        directory = home.add(leaving=str(farewell))
        a, b = home.world("a"), home.world("b")
        async with AsyncExitStack() as stack:
            one = await stack.enter_async_context(home.session(a))
            pid = (await heard(one))["pid"]
            leaving = asyncio.create_task(one.stop())
            assert await asyncio.to_thread(farewell.read_text) == "bye"
            rewrite(directory, leaving=...)
            async with home.session(b) as other:
                assert (await heard(other))["pid"] != pid
            await leaving
        assert home.starts() == 2


async def test_a_session_that_ends_before_the_process_is_up_leaves_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path, ready_together_s=0.1) as home:
        home.disk.add("silent", "team", instances="workspace")
        a = home.world("a")
        async with home.session(a) as one:
            assert [row.state for row in one.states()] == ["starting"]
        assert a.seen(ExtState)[-1].state == "stopped"


async def test_frames_of_one_session_are_answered_while_another_waits_for_its_clients(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as (_, _, one, _, other):
        answers = await asyncio.gather(heard(one), heard(other), heard(one), heard(other))
        assert [len(answer["frames"]) for answer in answers] == [2, 3, 4, 5]


@pytest.mark.promise("S16")
async def test_many_sessions_come_and_go_and_leave_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path) as home:
        home.add()
        async with AsyncExitStack() as stack:
            hosts = [
                await stack.enter_async_context(home.session(home.world(f"s{number}")))
                for number in range(10)
            ]
            assert len({(await heard(host))["pid"] for host in hosts}) == 1
            await asyncio.gather(*(host.stop() for host in hosts))
        assert home.starts() == 1


async def test_a_call_that_is_called_off_names_its_session_too(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with daemon(tmp_path) as home:
        home.add(frames=[TOOL], says=["tool_cancel"])
        a = home.world("a")
        async with home.session(a) as host:
            tool = a.toolbox.get("work")
            assert tool is not None
            calling = asyncio.create_task(
                tool.run(ToolCall("t", "work", {"gate": str(gate)}), lambda text: None)
            )
            writer = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
            calling.cancel()
            await asyncio.wait([calling])
            os.close(writer)
            called, off, _ = (await heard(host))["frames"][1:]
            assert off == {"type": "tool_cancel", "id": called["id"], "session_id": "a"}


async def test_its_death_fails_the_calls_of_every_session_at_once(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with two(tmp_path, TOOL, tool_s=60.0) as (_, a, one, b, _):
        pid = (await heard(one))["pid"]
        calls = []
        for world in (a, b):
            tool = world.toolbox.get("work")
            assert tool is not None
            work = tool.run(ToolCall("t", "work", {"gate": str(gate)}), lambda text: None)
            calls.append(asyncio.create_task(work))
        writer = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
        os.kill(pid, 9)
        for outcome in await asyncio.gather(*calls):
            assert outcome.content == [Text("extension team exited: killed by SIGKILL")]
        os.close(writer)


async def said(world: World, message: str) -> None:
    await world.event(ExtNotify, message=message)


def note(session: str, message: str) -> dict[str, Any]:
    return {"type": "notify", "message": message, "session_id": session}


async def test_a_client_that_does_not_read_delays_neither_decisions_nor_notes_of_others(
    tmp_path: Path,
) -> None:
    async with two(tmp_path, SUBSCRIBE) as (_, a, _, b, other):
        a.stall()
        await heard(other, note("a", "held"), note("b", "told"))
        await said(b, "told")
        assert isinstance(await other.interception.tool_call(ToolCall("c1", "work", {})), Refused)
        assert a.seen(ExtNotify) == []
        a.read()
        await said(a, "held")


async def test_the_answer_of_a_shared_command_comes_after_the_notes_before_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, a, one, b, other):
        a.stall()
        running = asyncio.ensure_future(heard(one, note("a", "before")))
        await heard(other, note("b", "told"))
        await said(b, "told")
        assert not running.done()
        a.read()
        await running
        assert [row.message for row in a.seen(ExtNotify)] == ["before"]


async def test_a_session_whose_client_never_reads_loses_what_is_beyond_its_bound(tmp_path: Path) -> None:
    async with two(tmp_path, held_bytes=1_000, lagging_s=0.2) as (home, a, _, b, other):
        a.stall()
        await heard(other, *(note("a", f"{number} {'x' * 300}") for number in range(50)), note("b", "told"))
        await said(b, "told")
        await heard(other, note("a", "lost"))
        assert "no client of session a reads" in home.disk.log("team")
        a.read()
        await said(a, f"0 {'x' * 300}")
        while "frames were lost" not in home.disk.log("team"):
            await heard(other, note("a", "again"))
        await said(a, "again")
        assert "lost" not in [row.message for row in a.seen(ExtNotify)]


async def test_a_slow_client_that_reads_loses_nothing(tmp_path: Path) -> None:
    async with two(tmp_path, held_bytes=1_000, lagging_s=10.0) as (_, a, _, _, other):
        a.stall()
        asyncio.get_running_loop().call_later(0.1, a.read)
        await heard(other, *(note("a", f"{number} {'x' * 300}") for number in range(50)))
        await said(a, f"49 {'x' * 300}")
        assert [int(row.message.split()[0]) for row in a.seen(ExtNotify)] == [*range(50)]
