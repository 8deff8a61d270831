"""The rules about names: whose command and whose tool it is, and what a tool has to look like."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.extensions.conftest import Stage, run
from tests.peers import Frame, Peer
from tests.virtual import later
from zotd.agent.ports import ToolOutcome
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.events import ExtNotify, ExtRegistered, ExtState


def command(name: str) -> Frame:
    return {"type": "register_command", "name": name, "description": f"is {name}"}


def tool(name: str, **fields: Any) -> Frame:
    return {"type": "register_tool", "name": name, **fields}


class Mute(Peer):
    """Says nothing."""

    def began(self) -> None:
        pass


class Opener(Peer):
    """Its tool `open` activates whatever its argument `names` lists."""

    def called(self, frame: Frame) -> None:
        content = [{"type": "text", "text": frame["name"]}]
        names = frame["args"].get("names", [])
        self.say(type="tool_result", id=frame["id"], content=content, activate_tools=names)


async def call(stage: Stage, name: str, **args: Any) -> ToolOutcome:
    """Call a tool as the loop does: what its answer activates is activated."""
    found = stage.toolbox.get(name)
    assert found is not None
    outcome = await found.run(ToolCall("c1", name, args), lambda text: None)
    stage.toolbox.activate(outcome.activate)
    return outcome


def said(outcome: ToolOutcome) -> str:
    return "".join(block.text for block in outcome.content if isinstance(block, Text))


# Commands


@pytest.mark.promise("S18")
@pytest.mark.promise("S45")
async def test_commands_are_found_in_any_case_and_invoked_in_the_spelling_registered(stage: Stage) -> None:
    peer = stage.enter("a", Peer(command("Weather")))
    async with stage.running() as host:
        for typed in ("/weather", "/WEATHER", "/Weather  Berlin , now  "):
            await run(host, typed)
    assert [(frame["name"], frame["args"]) for frame in peer.of("command_invoked")] == [
        ("Weather", ""),
        ("Weather", ""),
        ("Weather", "Berlin , now"),
    ]


async def test_a_leading_slash_in_a_registration_is_tolerated(stage: Stage) -> None:
    peer = stage.enter("a", Peer(command("/weather")))
    async with stage.running() as host:
        assert [info.name for info in host.commands()] == ["weather"]
        await run(host, "/weather")
    assert peer.of("command_invoked")[0]["name"] == "weather"


@pytest.mark.promise("S18")
async def test_of_two_names_that_differ_in_case_the_first_stays(stage: Stage) -> None:
    stage.enter("a", Peer(command("weather"), command("Weather")))
    stage.enter("b", Peer(command("WEATHER")))
    async with stage.running() as host:
        assert [(info.name, info.extension) for info in host.commands()] == [("weather", "a")]
    assert "command /Weather was refused: it is registered as /weather" in stage.log("a")
    assert "command /WEATHER is shadowed: extension a has it" in stage.log("b")


@pytest.mark.promise("S13")
@pytest.mark.parametrize("name", ["help", "Clear", "/model", "reload-ext", "exit", "SKILLS", "jump", "yolo"])
async def test_built_in_commands_win(stage: Stage, name: str) -> None:
    stage.enter("a", Peer(command(name), command("mine")))
    async with stage.running() as host:
        assert [info.name for info in host.commands()] == ["mine"]
    assert f"command /{name.removeprefix('/')} is shadowed: it is built in" in stage.log("a")


@pytest.mark.promise("S13")
async def test_a_name_that_somebody_else_has_is_shown_as_shadowed_until_it_is_had(stage: Stage) -> None:
    wanted = [command("/Deploy"), command("help"), tool("dig"), tool("bash"), tool("own")]
    first = stage.enter("a", Peer(command("deploy"), tool("dig")))
    second = stage.enter("b", Peer(*wanted))
    async with stage.running() as host:
        owner, loser = host.states()
        assert owner.shadowed == []
        assert (loser.commands, loser.tools) == ([], ["own"])
        assert [(row.kind, row.name, row.by) for row in loser.shadowed] == [
            ("command", "Deploy", "a"),
            ("command", "help", None),
            ("tool", "dig", "a"),
            ("tool", "bash", None),
        ]
        first.exit(1)
        await stage.event(ExtState, extension="a", state="failed")
        second.say(**command("deploy"))
        await stage.event(ExtRegistered, extension="b", commands=["deploy"])
        assert [row.name for row in host.states()[1].shadowed] == ["help", "dig", "bash"]


# Tools


@pytest.mark.promise("S13")
@pytest.mark.promise("S20")
@pytest.mark.parametrize("name", ["read", "write", "edit", "bash", "skill"])
async def test_built_in_tools_win_and_the_loser_reads_it_in_its_own_log(stage: Stage, name: str) -> None:
    stage.enter("a", Peer(tool(name), tool("mine")))
    async with stage.running():
        assert stage.toolbox.names() == ["mine"]
        assert stage.seen(ExtRegistered)[-1].tools == ["mine"]
    assert f"tool {name} is shadowed: it is built in" in stage.log("a")


async def test_tools_are_told_apart_by_case(stage: Stage) -> None:
    stage.enter("a", Opener(tool("dig"), tool("Dig"), tool("Bash")))
    async with stage.running():
        assert stage.toolbox.names() == ["dig", "Dig", "Bash"]
        assert said(await call(stage, "Dig")) == "Dig"
        assert said(await call(stage, "dig")) == "dig"


@pytest.mark.promise("S13")
async def test_the_first_in_load_order_has_a_tool_and_the_loser_is_told_in_its_log(stage: Stage) -> None:
    first = stage.enter("a", Peer(tool("dig")))
    second = stage.enter("b", Peer(tool("dig")))
    async with stage.running():
        await call(stage, "dig")
        assert (len(first.of("tool_call")), second.of("tool_call")) == (1, [])
    assert "tool dig is shadowed: extension a has it" in stage.log("b")


@pytest.mark.promise("S19")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {"type": "object"}),
        ({"schema": None}, {"type": "object"}),
        ({"schema": {}}, {"type": "object"}),
        ({"schema": {"properties": {"x": {}}}}, {"type": "object", "properties": {"x": {}}}),
        ({"schema": {"type": "object", "x-own": [None]}}, {"type": "object", "x-own": [None]}),
    ],
)
async def test_any_object_is_a_schema_and_its_type_is_object(stage: Stage, given: Frame, kept: Frame) -> None:
    stage.enter("a", Peer(tool("dig", description="digs", **given)))
    async with stage.running():
        (offered,) = stage.toolbox.offered()
        assert (offered.name, offered.description, offered.schema) == ("dig", "digs", kept)


@pytest.mark.parametrize("kind", ["string", "array", ["object"], 7, {}])
async def test_a_schema_of_another_type_is_refused_with_a_reason(stage: Stage, kind: Any) -> None:
    stage.enter("a", Peer(tool("dig", schema={"type": kind})))
    async with stage.running():
        assert stage.toolbox.names() == []
    assert f"tool dig was refused: the type of its schema is {kind!r}, expected 'object'" in stage.log("a")


@pytest.mark.parametrize("name", ["two words", "caf\u00e9", "a.b", "a/b", "x" * 65, "x\n", "\U0001f527"])
async def test_a_tool_name_that_providers_refuse_is_refused_with_a_reason(stage: Stage, name: str) -> None:
    stage.enter("a", Peer(tool(name), tool("x" * 64), tool("A-z_09")))
    async with stage.running():
        assert stage.toolbox.names() == ["x" * 64, "A-z_09"]
    assert "was refused: expected 1 to 64 of the characters A-Z a-z 0-9 _ -" in stage.log("a")


# Deferred tools


@pytest.mark.promise("S21")
@pytest.mark.promise("S22")
async def test_a_deferred_tool_is_offered_once_a_result_names_it(stage: Stage) -> None:
    stage.enter("a", Opener(tool("open"), tool("deep", deferred=True), tool("deeper", deferred=True)))
    async with stage.running():
        assert stage.toolbox.names() == ["open"]
        outcome = await call(stage, "open", names=["deep", "unknown"])
        assert not outcome.is_error
        assert stage.toolbox.names() == ["open", "deep"]
        assert said(await call(stage, "deep")) == "deep"


@pytest.mark.promise("S21")
async def test_calling_a_deferred_tool_early_is_refused_and_never_reaches_the_extension(stage: Stage) -> None:
    peer = stage.enter("a", Opener(tool("open"), tool("deep", deferred=True)))
    async with stage.running():
        outcome = await call(stage, "deep")
        assert outcome.is_error
        assert said(outcome) == "tool deep is not available yet: call the tool that enables it first"
        assert peer.of("tool_call") == []


@pytest.mark.promise("S22")
async def test_one_extension_can_activate_what_another_deferred(stage: Stage) -> None:
    stage.enter("a", Opener(tool("open")))
    stage.enter("b", Opener(tool("deep", deferred=True)))
    async with stage.running():
        await call(stage, "open", names=["deep"])
        assert stage.toolbox.names() == ["open", "deep"]


# Gone


@pytest.mark.promise("S16")
async def test_a_tool_whose_extension_is_gone_says_so_and_never_falls_to_somebody_else(stage: Stage) -> None:
    first = stage.enter("a", Peer(tool("dig")))
    second = stage.enter("b", Peer(tool("dig")))
    async with stage.running():
        first.exit(0)
        await stage.event(ExtState, extension="a", state="failed")
        second.say(**tool("dig"))
        second.say(type="notify", message="tried")
        await stage.event(ExtNotify, message="tried")
        outcome = await call(stage, "dig")
        assert (said(outcome), outcome.is_error) == ("extension a is not running", True)
        assert second.of("tool_call") == []


@pytest.mark.promise("S16")
async def test_a_command_whose_extension_died_is_no_command_any_more(stage: Stage) -> None:
    peer = stage.enter("a", Peer(command("go")))
    async with stage.running() as host:
        invocation = host.find("/go")
        assert invocation is not None
        peer.exit(1)
        await stage.event(ExtState, state="failed")
        assert host.find("/go") is None
        assert (await host.invoke(invocation)).error == "extension a is not running"


@pytest.mark.promise("S12")
async def test_all_that_was_registered_before_ready_is_there_when_start_up_returns(stage: Stage) -> None:
    class Gradual(Peer):
        """Takes two seconds over its registrations, and is never quiet for long."""

        def greeted(self) -> None:
            loop = asyncio.get_running_loop()
            for number in range(10):
                loop.call_later(0.2 * number, self.register, f"c{number}")
            loop.call_later(2, super().greeted)

        def register(self, name: str) -> None:
            self.say(**command(name))

    stage.enter("gradual", Gradual(command("go"), tool("dig")))
    stage.enter("b", Peer(command("other"), tool("mine")))
    async with stage.running() as host:
        assert asyncio.get_running_loop().time() == pytest.approx(2)
        named = [f"c{number}" for number in range(10)]
        assert [info.name for info in host.commands()] == [*named, "go", "other"]
        assert stage.toolbox.names() == ["dig", "mine"]
        assert [row.state for row in host.states()] == ["ready", "ready"]


async def test_names_that_come_late_are_told_of_seldom(stage: Stage) -> None:
    peer = stage.enter("a", Peer())
    async with stage.running():
        for number in range(500):
            peer.say(**command(f"c{number}"))
        for number in range(500):
            peer.say(**tool(f"t{number}"))
        peer.say(type="notify", message="behind")
        await stage.event(ExtNotify, message="behind")
        await later(0.01)
        told = stage.seen(ExtRegistered)
        assert (len(told[-1].commands), len(told[-1].tools)) == (500, 500)
        assert len(told) < 8


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("kind", "limit"), [("command", "commands"), ("tool", "tools")])
async def test_an_extension_has_so_many_names_and_no_more(
    stage: Stage, kind: str, limit: str, late: bool
) -> None:
    names = [{"type": f"register_{kind}", "name": f"n{number}"} for number in (1, 2, 3, 4, 2)]
    peer = stage.enter("a", Peer(*[] if late else names))
    bound = {f"{limit}_per_extension": 3}
    async with stage.running(**bound):
        if late:
            for frame in names:
                peer.say(**frame)
        peer.say(type="notify", message="behind")
        await stage.event(ExtNotify, message="behind")
        await later(0.01)
        told = stage.seen(ExtRegistered)[-1]
        assert getattr(told, limit) == ["n1", "n2", "n3"]
        refused = f"n4 was refused: an extension can have 3 {limit}"
        assert stage.log("a").count(refused) == stage.log("a").count("was refused") == 1


async def test_what_is_said_before_the_set_is_together_is_bounded(stage: Stage) -> None:
    stage.enter("slow", Mute())
    stage.enter("a", Peer(*[command(f"c{number}") for number in range(50)]))
    async with stage.running(held_bytes=1_000):
        assert 5 < len(stage.seen(ExtRegistered)[-1].commands) < 50
        assert "register_command was dropped: more than 1,000 bytes came" in stage.log("a")
