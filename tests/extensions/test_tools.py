"""Tools of real extension processes: whose a name is, what a call becomes, what the next request tells."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_loop import Recorder, Script, assert_whole, call, finish
from tests.extensions.conftest import World, run
from zotd.agent.loop import Loop, Model
from zotd.agent.ports import ToolOutcome
from zotd.agent.transcript import Transcript
from zotd.base.limits import Limits
from zotd.protocol.content import Image, Text, ToolCall, ToolResult
from zotd.protocol.events import ExtNotify, ExtRegistered, ExtState

PNG = "iVBORw0KGgo="
BUILT_IN = ["read", "write", "edit", "bash", "skill"]


def offer(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"does {name}", **more}


def say(*frames: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call that make the extension send these frames."""
    return {"say": list(frames)}


def result(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "content": list(blocks), **more}


async def use(world: World, name: str, args: dict[str, Any] | None = None) -> ToolOutcome:
    """Call a tool as the loop would."""
    tool = world.toolbox.get(name)
    assert tool is not None, f"nothing is named {name}"
    return await tool.run(ToolCall("t1", name, args or {}), lambda text: None)


async def text(world: World, name: str, args: dict[str, Any] | None = None) -> str:
    outcome = await use(world, name, args)
    return "".join(block.text for block in outcome.content if isinstance(block, Text))


def loop_of(world: World) -> tuple[Loop, Recorder]:
    sink = Recorder()
    return Loop(Transcript(lambda: "2026-11-30T00:00:00.000Z"), world.toolbox, sink, 10), sink


async def turn(world: World, *steps: Any) -> tuple[Script, Loop, Recorder]:
    """A whole turn of a scripted model with the world's tools."""
    loop, sink = loop_of(world)
    script = Script(*steps)
    outcome = await loop.run("turn", [Text("go")], Model(script, "m"))
    assert outcome.error is None
    assert_whole(loop.transcript.messages)
    return script, loop, sink


def told(script: Script) -> list[list[str]]:
    """The tools that each request named."""
    return [[tool.name for tool in request.tools] for request in script.requests]


def calling(name: str, **args: Any) -> Any:
    return [*call(name, json.dumps(args)), finish("tool_use")]


SAY_DONE = [finish()]


# Names


@pytest.mark.promise("S12", "S19")
async def test_a_tool_registered_before_ready_reaches_the_model_as_it_was_described(world: World) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    world.add("tools", "sky", offers=[offer("weather", schema=schema)])
    async with world.running() as host:
        script, _, _ = await turn(world, SAY_DONE)
        (tool,) = script.requests[0].tools
        assert (tool.name, tool.description, tool.schema) == ("weather", "does weather", schema)
        (row,) = host.states()
        assert row.tools == ["weather"]
        assert world.seen(ExtRegistered)[-1].tools == ["weather"]


@pytest.mark.promise("S20")
async def test_names_of_built_in_tools_are_shadowed_also_where_the_session_goes_without_them(
    world: World,
) -> None:
    world.add("tools", "greedy", offers=[offer(name) for name in (*BUILT_IN, "Read", "mine")])
    async with world.running() as host:
        assert world.toolbox.names() == ["Read", "mine"]
        assert host.states()[0].tools == ["Read", "mine"]
    for name in BUILT_IN:
        assert f"[zotd] tool {name} is shadowed: it is built in" in world.log("greedy")
    assert world.seen(ExtNotify) == []


@pytest.mark.promise("S13")
async def test_of_extensions_that_start_together_the_first_in_load_order_gets_a_name_however_slow_it_is(
    world: World, tmp_path: Path
) -> None:
    os.mkfifo(pipe := tmp_path / "order")
    world.add("tools", "a", offers=[offer("weather")], after=str(pipe))
    world.add("tools", "b", offers=[offer("weather"), offer("tides")], before=str(pipe))
    async with world.running() as host:
        assert [row.tools for row in host.states()] == [["weather"], ["tides"]]
        assert world.toolbox.owner("weather") == "a"
    assert "[zotd] tool weather is shadowed: extension a has it" in world.log("b")


@pytest.mark.promise("S13")
async def test_a_later_registration_never_takes_a_name_in_use(world: World) -> None:
    world.add("tools", "a", offers=[])
    world.add("tools", "b", offers=[offer("weather")])
    async with world.running() as host:
        await run(host, f"/poke-a {json.dumps(offer('weather'))}")
        assert world.toolbox.owner("weather") == "b"
    assert "[zotd] tool weather is shadowed: extension b has it" in world.log("a")


@pytest.mark.parametrize("name", ["two words", "weather.now", "wétter", "x" * 65, "a/b", "weather\n"])
async def test_a_name_that_providers_would_not_accept_is_refused_with_a_reason(
    world: World, name: str
) -> None:
    world.add("tools", "sky", offers=[offer(name), offer("x" * 64), offer("A-z_9")])
    async with world.running():
        assert world.toolbox.names() == ["x" * 64, "A-z_9"]
    assert f"tool {name!r} was refused: expected 1 to 64 of the characters" in world.log("sky")


@pytest.mark.parametrize(
    ("registered", "shown"),
    [
        ({}, {"type": "object"}),
        ({"schema": None}, {"type": "object"}),
        ({"schema": {}}, {"type": "object"}),
        ({"schema": {"properties": {"x": {}}}}, {"properties": {"x": {}}, "type": "object"}),
        ({"schema": {"type": None, "$defs": {}}}, {"type": "object", "$defs": {}}),
        ({"schema": {"type": "object", "odd": [1, None]}}, {"type": "object", "odd": [1, None]}),
    ],
)
async def test_a_schema_may_be_any_object_and_one_without_a_type_is_of_the_type_object(
    world: World, registered: dict[str, Any], shown: dict[str, Any]
) -> None:
    world.add("tools", "sky", offers=[offer("weather", **registered)])
    async with world.running():
        (tool,) = world.toolbox.offered()
        assert tool.schema == shown


@pytest.mark.parametrize("kind", ["array", "string", ["object", "null"]])
async def test_a_schema_of_another_type_is_refused_with_a_reason(world: World, kind: Any) -> None:
    world.add("tools", "sky", offers=[offer("weather", schema={"type": kind})])
    async with world.running():
        assert world.toolbox.names() == []
    reason = f"tool weather was refused: the type of its schema is {kind!r}, expected 'object'"
    assert reason in world.log("sky")


async def test_registering_ones_own_tool_again_replaces_what_was_said_about_it(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather"), offer("tides")])
    async with world.running() as host:
        await run(host, f"/poke-sky {json.dumps(offer('weather', description='anew', schema={'x': 1}))}")
        first, _ = world.toolbox.offered()
        assert (first.description, first.schema) == ("anew", {"type": "object", "x": 1})
        assert host.states()[0].tools == ["weather", "tides"]


async def test_a_tool_registered_during_a_turn_is_in_the_next_request_and_clients_are_told(
    world: World,
) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    frame = {"type": "register_tool", **offer("tides")}
    async with world.running() as host:
        script, _, _ = await turn(world, calling("weather", **say(frame, result())), SAY_DONE)
        assert told(script) == [["weather"], ["weather", "tides"]]
        assert world.seen(ExtRegistered)[-1].tools == ["weather", "tides"]
        assert host.states()[0].tools == ["weather", "tides"]


# Deferred tools


@pytest.mark.promise("S21")
async def test_a_deferred_tool_is_not_told_to_the_model_and_refused_when_called_early(world: World) -> None:
    world.add("tools", "sky", offers=[offer("loader"), offer("weather", deferred=True)])
    async with world.running() as host:
        assert host.states()[0].tools == ["loader", "weather"]
        script, _, sink = await turn(world, calling("weather"), SAY_DONE)
        assert told(script) == [["loader"], ["loader"]]
        (told_off,) = sink.of("tool_result")
        assert told_off.is_error
        assert "tool weather is not available yet" in told_off.content[0].text
        assert told_off.details == {"extension": "sky", "tool": "weather"}


@pytest.mark.promise("S22")
async def test_a_result_that_names_deferred_tools_makes_them_part_of_the_next_request(world: World) -> None:
    world.add("tools", "other", offers=[offer("moon", deferred=True)])
    deferred = [offer(name, deferred=True) for name in ("weather", "tides")]
    world.add("tools", "sky", offers=[offer("loader"), *deferred])
    names = ["weather", "moon", "loader", "nobody's", "read"]
    async with world.running():
        script, loop, _ = await turn(
            world,
            calling("loader", **say(result(activate_tools=names))),
            calling("weather"),
            SAY_DONE,
        )
        everything = {"loader", "weather", "moon"}
        assert [set(names) for names in told(script)] == [{"loader"}, everything, everything]
        rows = [row for row in loop.transcript.messages if row.role == "tool"]
        assert [row.added_tool_names for row in rows] == [["weather", "moon"], []]
        answer = rows[1].content[0]
        assert isinstance(answer, ToolResult)
        assert answer.content == [Text('{"name": "weather", "args": {}}')]
    assert 'no tool of an extension, ignored: "nobody\'s, read"\n' in world.log("sky")


@pytest.mark.promise("S22")
async def test_a_name_that_was_unknown_when_it_was_activated_is_not_active_later(world: World) -> None:
    world.add("tools", "sky", offers=[offer("loader")])
    async with world.running() as host:
        await turn(world, calling("loader", **say(result(activate_tools=["weather"]))), SAY_DONE)
        await run(host, f"/poke-sky {json.dumps(offer('weather', deferred=True))}")
        assert world.toolbox.names() == ["loader"]


async def test_a_tool_that_was_activated_stays_so_when_it_is_registered_again(world: World) -> None:
    world.add("tools", "sky", offers=[offer("loader"), offer("weather", deferred=True)])
    async with world.running() as host:
        await turn(world, calling("loader", **say(result(activate_tools=["weather"]))), SAY_DONE)
        await run(host, f"/poke-sky {json.dumps(offer('weather', deferred=True, description='anew'))}")
        assert [tool.description for tool in world.toolbox.offered()] == ["does loader", "anew"]


async def test_what_a_call_activated_is_recorded_also_when_a_later_call_is_aborted(world: World) -> None:
    world.add("tools", "sky", offers=[offer("loader"), offer("weather", deferred=True)])
    async with world.running():
        loop, sink = loop_of(world)
        args = say(result(activate_tools=["weather"]))
        hang = say({"type": "notify", "message": "hanging"})
        script = Script(
            [*call("loader", json.dumps(args)), *call("loader", json.dumps(hang), "t2"), finish("tool_use")]
        )
        task = asyncio.create_task(loop.run("turn", [Text("go")], Model(script, "m")))
        await world.event(ExtNotify, message="hanging")
        task.cancel()
        assert (await task).stop == "aborted"
        assert_whole(loop.transcript.messages)
        assert loop.transcript.messages[-1].added_tool_names == ["weather"]
        assert [row.is_error for row in sink.of("tool_result")] == [False, True]


# Calls


@pytest.mark.promise("S46")
async def test_a_call_reaches_the_extension_with_its_arguments_as_an_object(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    args = {"city": "Zürich\u2028", "days": [1, 2.5, None], "deep": {"er": True}}
    async with world.running():
        assert json.loads(await text(world, "weather", args)) == {"name": "weather", "args": args}


@pytest.mark.promise("S25")
async def test_a_result_with_text_and_a_picture_reaches_the_model_and_names_its_extension(
    world: World,
) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    blocks = [
        {"type": "text", "text": "a map"},
        {"type": "image", "mime_type": "image/png", "data": PNG},
    ]
    async with world.running():
        script, _, sink = await turn(world, calling("weather", **say(result(*blocks))), SAY_DONE)
        (shown,) = sink.of("tool_result")
        assert shown.content == [Text("a map"), Image("image/png", PNG)]
        assert (shown.is_error, shown.details) == (False, {"extension": "sky", "tool": "weather"})
        assert script.requests[1].messages[-1].content == [ToolResult("t1", False, shown.content)]


@pytest.mark.promise("S25")
async def test_an_extension_can_say_that_a_call_failed(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    failed = result({"type": "text", "text": "no such city"}, is_error=True)
    async with world.running():
        outcome = await use(world, "weather", say(failed))
    assert outcome == ToolOutcome([Text("no such city")], is_error=True)


async def test_an_answer_without_content_says_so(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    async with world.running():
        for answer in (result(), {"type": "tool_result"}, {"type": "tool_result", "content": None}):
            assert await text(world, "weather", say(answer)) == "(extension returned no content)"


async def test_an_answer_of_a_wrong_shape_fails_the_call_at_once(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    async with world.running():
        outcome = await use(world, "weather", say({"type": "tool_result", "content": "a text"}))
        assert outcome.is_error
        assert "extension sky: tool_result: Expected `array`" in str(outcome.content)
        wrong = await text(world, "weather", say({"type": "command_response", "action": "noop"}))
        assert wrong == "extension sky answered with command_response"


async def test_arguments_that_are_not_json_never_reach_an_extension(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    cut = [*call("weather", '{"say":[{"type":"notify","message":"reached"}'), finish("tool_use")]
    array = [*call("weather", '["exit", 3]', "t2"), finish("tool_use")]
    async with world.running():
        _, _, sink = await turn(world, cut, array, SAY_DONE)
        for row in sink.of("tool_result"):
            assert row.is_error
            assert "arguments must be one JSON object" in row.content[0].text
            assert row.details == {"extension": "sky", "tool": "weather"}
        assert len(sink.of("tool_result")) == 2
        # It is alive and has not been called: its first call has the first number.
        assert await text(world, "weather", say(result({"type": "text", "text": "fine"}))) == "fine"
    assert world.seen(ExtNotify) == []


async def test_calls_of_one_message_run_one_after_the_other(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather")])
    world.add("tools", "sea", offers=[offer("tides")])
    both = [*call("weather", "{}", "t1"), *call("tides", "{}", "t2"), *call("weather", "{}", "t3")]
    async with world.running():
        _, _, sink = await turn(world, [*both, finish("tool_use")], SAY_DONE)
        rows = sink.of("tool_result")
        assert [row.id for row in rows] == ["t1", "t2", "t3"]
        assert [row.details["extension"] for row in rows] == ["sky", "sea", "sky"]


# Time


@pytest.mark.promise("S46")
async def test_a_call_that_is_not_answered_in_time_fails_is_called_off_and_a_late_answer_is_ignored(
    world: World,
) -> None:
    world.add("tools", "sky", offers=[offer("weather")], says=["tool_cancel"])
    async with world.running(tool_s=0.1):
        outcome = await use(world, "weather", say())
        assert outcome == ToolOutcome([Text("extension sky did not answer within 0.1 s")], is_error=True)
        await world.event(ExtNotify, message="called off: 1")
    assert "tool_result for '1', which nobody waits for: ignored" in world.log("sky")
    assert Limits().tool_s == 60


@pytest.mark.parametrize(("own", "everybodys"), [(0.1, 30.0), (30.0, 0.001)])
async def test_the_manifest_says_how_long_a_tool_may_take(
    world: World, own: float, everybodys: float
) -> None:
    world.add("tools", "sky", offers=[offer("weather")], tool_timeout=own)
    async with world.running(tool_s=everybodys):
        if own < everybodys:
            assert await text(world, "weather", say()) == "extension sky did not answer within 0.1 s"
        else:
            assert await text(world, "weather", say(result({"type": "text", "text": "ok"}))) == "ok"


async def test_aborting_a_turn_returns_at_once_and_calls_the_call_off(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather")], says=["tool_cancel"])
    async with world.running():
        loop, sink = loop_of(world)
        script = Script(calling("weather", **say({"type": "notify", "message": "hanging"})))
        task = asyncio.create_task(loop.run("turn", [Text("go")], Model(script, "m")))
        await world.event(ExtNotify, message="hanging")
        task.cancel()
        assert (await task).stop == "aborted"
        (row,) = sink.of("tool_result")
        assert (row.content, row.is_error) == ([Text("aborted")], True)
        assert row.details == {"extension": "sky", "tool": "weather"}
        await world.event(ExtNotify, message="called off: 1")
        assert (await use(world, "weather")).is_error is False
    assert "tool_result for '1', which nobody waits for: ignored" in world.log("sky")


async def test_an_extension_that_did_not_ask_for_it_is_not_told_that_a_call_is_off(world: World) -> None:
    world.capabilities = {"panels"}
    offers = [offer("weather"), offer("ask", interactive=True)]
    world.add("tools", "sky", offers=offers, says=["tools"])
    async with world.running(tool_s=0.05):
        assert (await use(world, "weather", say())).is_error
        assert await text(world, "ask", say(result({"type": "text", "text": "next"}))) == "next"
    assert world.seen(ExtNotify) == []
    assert "which nobody waits for" not in world.log("sky")


# People


@pytest.mark.parametrize("capability", ["", "insert"])
async def test_a_tool_that_needs_a_person_is_refused_where_nobody_can_show_panels(
    world: World, capability: str
) -> None:
    world.capabilities = {capability}
    world.add("tools", "sky", offers=[offer("ask_user", interactive=True)])
    async with world.running():
        outcome = await use(world, "ask_user", say({"type": "notify", "message": "reached"}))
        assert outcome.is_error
        (said,) = outcome.content
        assert isinstance(said, Text)
        assert "tool ask_user of extension sky needs a person at a panel" in said.text
        assert "client with panels" in said.text
        world.capabilities = {"panels"}
        assert not (await use(world, "ask_user")).is_error
    assert world.seen(ExtNotify) == []


async def test_a_tool_that_waits_for_a_person_has_no_time_limit(world: World) -> None:
    world.capabilities = {"panels"}
    world.add("tools", "sky", offers=[offer("ask", interactive=True), offer("plain")], tool_timeout=0.05)
    async with world.running(tool_s=0.05):
        asked = say({"type": "notify", "message": "asked"})
        waiting = asyncio.create_task(use(world, "ask", asked))
        await world.event(ExtNotify, message="asked")
        for _ in range(3):
            assert await text(world, "plain", say()) == "extension sky did not answer within 0.05 s"
        assert not waiting.done()
        # The answer comes when the person has decided: here, with another call.
        await use(world, "plain", say(result({"type": "text", "text": "yes"}, id="1"), result()))
        assert (await waiting).content == [Text("yes")]


# Ends


async def test_when_an_extension_dies_its_call_fails_at_once_and_its_tools_leave(world: World) -> None:
    world.add("tools", "sky", offers=[offer("weather"), offer("moon", deferred=True)])
    world.add("tools", "sea", offers=[offer("tides")])
    async with world.running() as host:
        script, _, sink = await turn(world, calling("weather", exit=7), calling("weather"), SAY_DONE)
        assert told(script)[0] == ["tides", "weather"]
        assert told(script)[1:] == [["tides"], ["tides"]]
        died, after = sink.of("tool_result")
        assert died.content == [Text("extension sky exited: exit status 7")]
        assert after.content == [Text("extension sky is not running")]
        for row in (died, after):
            assert (row.is_error, row.details) == (True, {"extension": "sky", "tool": "weather"})
        assert [row.tools for row in host.states()] == [["tides"], []]
        assert world.seen(ExtRegistered)[-1] == ExtRegistered(extension="sky", commands=[], tools=[])
        assert await text(world, "moon") == "extension sky is not running"


async def test_the_tool_of_an_extension_that_is_gone_never_becomes_somebody_elses(world: World) -> None:
    world.add("tools", "a", offers=[offer("weather")])
    world.add("tools", "b", offers=[offer("weather"), offer("loader")])
    async with world.running() as host:
        await use(world, "weather", {"exit": 0})
        await world.event(ExtState, extension="a", state="failed")
        rival = json.dumps(offer("weather"))
        await run(host, f"/poke-b {rival}")
        assert world.toolbox.names() == ["loader"]
        assert await text(world, "weather") == "extension a is not running"
        await use(world, "loader", say(result(activate_tools=["weather"])))
        assert world.toolbox.names() == ["loader"]
    assert "tool weather is shadowed: extension a has it" in world.log("b")


async def test_an_extension_that_comes_back_gets_its_tools_back_and_what_was_activated_stays_so(
    world: World,
) -> None:
    world.add("tools", "sky", offers=[offer("loader"), offer("weather", deferred=True)])
    async with world.running() as host:
        await turn(world, calling("loader", **say(result(activate_tools=["weather"]))), SAY_DONE)
        await use(world, "loader", {"exit": 1})
        await world.event(ExtState, extension="sky", state="failed")
        assert world.toolbox.names() == []
        await host.reload()
        assert world.toolbox.names() == ["loader", "weather"]
        assert (await use(world, "weather")).is_error is False


async def test_a_tool_that_is_not_registered_again_after_a_reload_is_forgotten_and_free_for_others(
    world: World,
) -> None:
    manifest = world.add("tools", "a", offers=[offer("weather")]) / "extension.json"
    world.add("tools", "b", offers=[offer("weather")])
    async with world.running() as host:
        assert world.toolbox.owner("weather") == "a"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "offers": []}))
        await host.reload()
        assert world.toolbox.owner("weather") == "b"
        assert json.loads(await text(world, "weather"))["name"] == "weather"


async def test_a_name_without_end_does_not_fill_the_log(world: World) -> None:
    world.add("tools", "sky", offers=[offer("loader"), offer("x" * 100_000)])
    async with world.running():
        await use(world, "loader", say(result(activate_tools=["y" * 100_000])))
    log = world.log("sky")
    assert len(log) < 2_000
    assert f"tool '{'x' * 200}' was refused: expected 1 to 64" in log
