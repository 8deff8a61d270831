"""What is said on the way in, by the environment, the project and the user: one order, on every way in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.clients import Client
from tests.daemons import Shared
from tests.model_server import ModelHandler, serving

LAYERS = ("given", "variable", "project", "user")
"""From the one that comes first."""
TOOLS = dict(zip(LAYERS, ("read", "write", "edit", "bash"), strict=True))
LEVELS = dict(zip(LAYERS, ("low", "medium", "high", "xhigh"), strict=True))
WAYS = ("print", "json", "joined", "flags", "params", "forwarded", "zot")
Said = dict[str, dict[str, Any]]


class Model(ModelHandler):
    """A server of models that says `ok`, and keeps what it was asked."""

    asked: list[tuple[str, dict[str, Any]]]

    def reply(self, body: dict[str, Any]) -> None:
        type(self).asked.append((self.path, body))
        chunk = {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}
        self.answer(200, "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")


@pytest.fixture
def url() -> Iterator[str]:
    Model.asked = []
    with serving(Model) as url:
        yield url


def drawn(random: Random, url: str) -> Said:
    """Some values in each place. The user's have a model and an address, so that there is one."""
    said: Said = {}
    for layer in LAYERS:
        values = {
            "model": f"model-{layer}",
            "base_url": f"{url}/{layer}/v1",
            "reasoning": LEVELS[layer],
            "tools": [TOOLS[layer]],
            "system_prompt": f"You are {layer}.",
            "append_system_prompt": [f"Mind {layer}."],
        }
        always = ("model", "base_url") if layer == "user" else ()
        said[layer] = {key: value for key, value in values.items() if key in always or random.random() < 0.5}
    return said


def counts(said: Said, key: str) -> str | None:
    """The place whose value counts. A project has no say in where prompts go."""
    return next(
        (one for one in LAYERS if key in said[one] and (one, key) != ("project", "base_url")),
        None,
    )


def flags(values: dict[str, Any]) -> list[str]:
    argv = []
    for key, value in values.items():
        text = ",".join(value) if key == "tools" else value[0] if isinstance(value, list) else value
        argv += [f"--{key.replace('_', '-')}", text]
    return argv


def talk(client: Client, **params: Any) -> None:
    session_id = client.greet().session(**params)
    client.call("turn/start", session_id=session_id, text="hi")
    client.event("done")
    client.hang_up()


def ask(shared: Shared, way: str, said: Said) -> None:
    """Have a prompt answered, what is given being given as that way has it."""
    machine = shared.machine
    argv = flags(said["given"])
    cwd = str(machine.cwd)
    env = {}
    for key, value in said["variable"].items():
        env[f"ZOTD_{key.upper()}"] = ",".join(value) if isinstance(value, list) else value
    match way:
        case "print" | "json" | "joined":
            mode = {"print": ["-p"], "json": ["--json"], "joined": ["-p", "--connect", "auto"]}[way]
            done = machine.run(*mode, "hi", *argv, env=env)
            assert done.returncode == 0, done.stderr
        case "flags":
            talk(machine.rpc("--no-ext", *argv, env=env), cwd=cwd)
        case "params":
            talk(machine.rpc("--no-ext", env=env), cwd=cwd, **said["given"])
        case "forwarded":
            talk(machine.rpc("--connect", "auto", "--no-ext", *argv, env=env), cwd=cwd)
        case _:
            client = machine.rpc("--no-ext", *argv, env=env)
            client.ask("prompt", message="hi")
            client.until("done")
            client.hang_up()


def check(shared: Shared, url: str, said: Said, way: str) -> None:
    Model.asked.clear()
    ask(shared, way, said)
    [(path, body)] = Model.asked
    assert path == f"/{counts(said, 'base_url')}/v1/chat/completions", (way, said)
    assert body["model"] == f"model-{counts(said, 'model')}", (way, said)
    level = counts(said, "reasoning")
    assert body.get("reasoning_effort") == (LEVELS[level] if level else None), (way, said)
    tools = counts(said, "tools")
    offered = [tool["function"]["name"] for tool in body["tools"]]
    assert offered == [TOOLS[tools]] if tools else set(offered) >= set(TOOLS.values()), (way, said)
    system = body["messages"][0]["content"]
    for key, words in (("system_prompt", "You are {}."), ("append_system_prompt", "Mind {}.")):
        there = [layer for layer in LAYERS if words.format(layer) in system]
        place = counts(said, key)
        assert there == ([place] if place else []), (way, key, said)


def try_all(shared: Shared, url: str, seed: int) -> None:
    machine = shared.machine
    assert machine.run("trust", str(machine.cwd)).returncode == 0
    said = drawn(Random(seed), url)
    (machine.cwd / ".zot").mkdir(exist_ok=True)
    (machine.cwd / ".zot" / "config.json").write_text(json.dumps(said["project"]))
    (machine.home / "config.json").write_text(json.dumps(said["user"]))
    for way in WAYS:
        check(shared, url, said, way)


def test_what_is_said_in_four_places_counts_in_one_order_on_every_way_in(shared: Shared, url: str) -> None:
    try_all(shared, url, 104)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 116))
def test_so_does_whatever_is_said_where(shared: Shared, url: str, seed: int) -> None:
    try_all(shared, url, seed)
