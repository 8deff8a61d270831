"""Skills, instructions and system prompts, as the server of a model sees them, in every way to run zotd."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Machine
from tests.providers.conftest import ModelServer

END = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}


def loads(name: str) -> dict[str, Any]:
    """An answer that calls the skill tool."""
    function = {"name": "skill", "arguments": json.dumps({"name": name})}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}


def skill(place: Path, name: str, body: str = "") -> Path:
    path = place / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\n{body}")
    return path


def bundle(place: Path, name: str, **manifest: Any) -> Path:
    """An extension that brings nothing but a skill."""
    skill(place / name / "skills", "tricks", f"Tricks of {name}.")
    path = place / name / "extension.json"
    path.write_text(json.dumps({"name": name, "skills": ["skills"], **manifest}))
    return path.parent


async def ask(machine: Machine, server: ModelServer, *flags: str) -> tuple[str, list[str], str]:
    """Run a prompt: the system prompt of the first request, its tools, and what was said on stderr."""
    if not server.answers:
        server.say(END)
    argv = ["-p", "--base-url", server.url, "--model", "m", *flags, "hi"]
    done = await asyncio.to_thread(machine.run, *argv, stdin=None)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
    body = server.requests[0]["body"]
    assert [row["role"] for row in body["messages"]].count("system") == 1
    tools = [tool["function"]["name"] for tool in body.get("tools", [])]
    return body["messages"][0]["content"], tools, done.stderr


# Skills


async def test_the_model_is_told_of_skills_and_loads_one(machine: Machine, model_server: ModelServer) -> None:
    path = skill(machine.cwd / ".zot" / "skills", "tea", "Boil, then read more.md.\n")
    skill(machine.root / ".agents" / "skills", "coffee", "Grind.")
    model_server.say(loads("tea"))
    model_server.say(END)
    system, tools, said = await ask(machine, model_server)
    assert "- tea: Does tea.\n- coffee: Does coffee." in system
    assert "Boil" not in system
    assert str(path) not in system
    assert tools == ["read", "write", "edit", "bash", "skill"]
    result = model_server.requests[1]["body"]["messages"][-1]
    assert (result["role"], result["tool_call_id"]) == ("tool", "c1")
    assert result["content"] == (
        f"Skill tea. Paths in it are relative to {path.parent}.\n\nBoil, then read more.md.\n"
    )
    assert said == ""


async def test_without_skills_there_is_no_skill_tool(machine: Machine, model_server: ModelServer) -> None:
    system, tools, _ = await ask(machine, model_server)
    assert tools == ["read", "write", "edit", "bash"]
    assert "Skills are" not in system


@pytest.mark.parametrize("flag", ["--no-skill", "--no-skills"])
async def test_skills_can_be_left_out(machine: Machine, model_server: ModelServer, flag: str) -> None:
    skill(machine.cwd / ".claude" / "skills", "tea")
    (machine.cwd / ".claude" / "skills" / "bad").mkdir()
    (machine.cwd / ".claude" / "skills" / "bad" / "SKILL.md").touch()
    system, tools, said = await ask(machine, model_server, flag, "--with-skills")
    assert ("tea" in system, "skill" in tools, said) == (False, False, "")


@pytest.mark.parametrize(
    ("flags", "tools"),
    [
        (["--with-skills"], ["read", "write", "edit", "bash", "skill"]),
        (["--tools", "skill,read"], ["skill", "read"]),
        (["--tools", "read"], ["read"]),
        (["--no-tools"], []),
    ],
)
async def test_skills_are_told_of_where_they_can_be_loaded(
    machine: Machine, model_server: ModelServer, flags: list[str], tools: list[str]
) -> None:
    skill(machine.home / "skills", "tea")
    system, offered, _ = await ask(machine, model_server, *flags)
    assert sorted(offered) == sorted(tools)
    assert ("- tea: Does tea." in system) is ("skill" in tools)


async def test_a_bad_skill_is_told_of_and_stops_nothing(machine: Machine, model_server: ModelServer) -> None:
    bad = skill(machine.cwd / ".zot" / "skills", "bad")
    bad.write_text("---\nname: [\n---\n")
    skill(machine.cwd / ".zot" / "skills", "good")
    system, _, said = await ask(machine, model_server)
    assert "- good: Does good." in system
    assert said.startswith(f"[zotd] warn: {bad}: front matter: expected YAML: ")
    assert said.count("\n") == 1


@pytest.mark.promise("S7")
async def test_extensions_bring_skills_under_their_own_name_unless_they_are_not_loaded(
    machine: Machine, model_server: ModelServer
) -> None:
    bundle(machine.cwd / ".zot" / "extensions", "mine")
    bundle(machine.home / "extensions", "off", enabled=False)
    bundle(machine.home / "extensions", "mine")
    given = bundle(machine.root, "given")
    model_server.say(loads("mine:tricks"))
    model_server.say(END)
    system, _, said = await ask(machine, model_server, "--ext", str(given))
    assert "- given:tricks: Does tricks.\n- mine:tricks: Does tricks." in system
    assert "off:" not in system
    assert model_server.requests[1]["body"]["messages"][-1]["content"] == (
        f"Skill mine:tricks. Paths in it are relative to {machine.cwd}/.zot/extensions/mine/skills/tricks."
        "\n\nTricks of mine."
    )
    assert said == ""


# Instructions and system prompts


async def test_instructions_of_the_project_are_told_outermost_first(
    machine: Machine, model_server: ModelServer
) -> None:
    (machine.root / "AGENTS.md").write_text("Use tabs.")
    (machine.cwd / "CLAUDE.md").write_text("Use spaces.\n")
    system, _, said = await ask(machine, model_server)
    outer = f'<instructions path="{machine.root}/AGENTS.md">\nUse tabs.\n</instructions>'
    inner = f'<instructions path="{machine.cwd}/CLAUDE.md">\nUse spaces.\n</instructions>'
    assert system.startswith("You are a coding agent")
    assert system.endswith(f"{outer}\n\n{inner}")
    assert said == ""


async def test_what_was_given_last_is_told_last(machine: Machine, model_server: ModelServer) -> None:
    (machine.cwd / "AGENTS.md").write_text("Use spaces.")
    skill(machine.home / "skills", "tea")
    flags = ["--append-system-prompt", "One.", "--append-system-prompt", "Two."]
    system, _, _ = await ask(machine, model_server, *flags)
    assert system.endswith("- tea: Does tea.\n\nOne.\n\nTwo.")
    assert system.index("Use spaces.") < system.index("- tea")


async def test_the_users_own_system_prompt_stands_in_for_ours(
    machine: Machine, model_server: ModelServer
) -> None:
    (machine.home / "SYSTEM.md").write_text("You are a pirate.\n")
    (machine.cwd / "AGENTS.md").write_text("Use spaces.")
    system, tools, _ = await ask(machine, model_server)
    assert system.startswith("You are a pirate.\n\n")
    assert "Use spaces." in system
    assert "coding agent" not in system
    assert tools == ["read", "write", "edit", "bash"]


async def test_the_flag_stands_in_for_both(machine: Machine, model_server: ModelServer) -> None:
    (machine.home / "SYSTEM.md").mkdir()
    system, _, said = await ask(machine, model_server, "--system-prompt", "You are a poet.")
    assert (system, said) == ("You are a poet.", "")


async def test_a_system_prompt_that_cannot_be_read_is_told_of(
    machine: Machine, model_server: ModelServer
) -> None:
    (machine.home / "SYSTEM.md").mkdir()
    system, _, said = await ask(machine, model_server)
    assert system.startswith("You are a coding agent")
    assert said == f"[zotd] warn: {machine.home}/SYSTEM.md: cannot be read: expected a regular file\n"


async def test_another_model_of_a_session_is_told_the_same(
    machine: Machine, model_server: ModelServer
) -> None:
    (machine.cwd / "AGENTS.md").write_text("Use spaces.")
    skill(machine.home / "skills", "tea")
    model_server.say(END)
    client = machine.rpc("--base-url", model_server.url, "--model", "m")

    def prompt() -> None:
        client.send({"type": "prompt", "message": "hi"})
        client.until("done")

    await asyncio.to_thread(prompt)
    changed = await asyncio.to_thread(client.ask, "set_model", model="n")
    assert changed["success"] is True
    await asyncio.to_thread(prompt)
    first, second = (request["body"] for request in model_server.requests)
    assert (first["model"], second["model"]) == ("m", "n")
    assert "Use spaces." in first["messages"][0]["content"]
    assert first["messages"][0] == second["messages"][0]
    assert first["tools"] == second["tools"]
