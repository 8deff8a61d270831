"""Stock JSON-RPC clients, each in a process of its own, from `initialize` to a connection lost in mid-turn.

Each tells the same story: a prompt, a key in a panel, a request given up, a turn in whose middle the
connection breaks, and the way back. It prints what it got; that is judged here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, Client, Machine, judge_params, node, nvim

HERE = Path(__file__).parent
PUPPET = HERE.parent / "puppet.py"
STORY = " ".join(str(number) for number in range(60))
CLIENTS: dict[str, list[str | Path]] = {
    "vscode-jsonrpc": [node(), HERE / "story.mjs"],
    "neovim": [nvim(), "--clean", "--headless", "-l", HERE / "story.lua"],
    "pygls": [sys.executable, HERE / "story.py"],
}


def flags(machine: Machine) -> list[str]:
    """Flags of a daemon that tells a story of half a second, and that has an extension with a panel."""
    script = machine.script(
        {"match": "^hello$", "reply": [{"text": "Hello to you."}]},
        {"match": "^story$", "reply": [{"text": STORY, "delay_ms": 10}]},
    )
    return [*script, "--ext", str(machine.extension("puppet", PUPPET.read_text()))]


def told(machine: Machine, *command: str | Path) -> dict[str, Any]:
    """What a client printed at the end of its story."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        cwd=machine.cwd,
        env={**machine.env, "NVIM_LOG_FILE": "/dev/null", "XDG_STATE_HOME": str(machine.root)},
        timeout=LONG,
        check=False,
    )
    assert (done.stderr.decode(), done.returncode) == ("", 0)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != name}


def judge(story: dict[str, Any]) -> list[dict[str, Any]]:
    """Fail unless the story went as it should, on both sides of the break; gives its events."""
    assert story["server"]["server"]["name"] == "zotd"
    assert story["answer"]["text"] == "Hello to you."
    key = json.loads(story["pressed"]["message"])
    assert (key["type"], key["key"], key["text"]) == ("panel_key", "rune", "y")
    assert story["cancelled"] == -32800
    assert story["told"] == [{"type": "text", "text": STORY}]
    events: list[dict[str, Any]] = story["before"] + story["after"]
    for event in events:
        judge_params(event["type"], without(event, "type"))
    deltas = [e for e in events if e["type"] == "text_delta" and e.get("turn_id") == story["turn_id"]]
    assert "".join(each["delta"] for each in deltas) == STORY
    ended = [each["turn_id"] for each in events if each["type"] == "done"]
    assert ended.count(story["turn_id"]) == 1
    return events


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_comes_back_holds_every_event_once(name: str, machine: Machine) -> None:
    _, path = machine.listen(*flags(machine))
    story = told(machine, *CLIENTS[name], path)
    events = judge(story)
    session = story["session"]
    first = session["next_seq"]
    assert [event["seq"] for event in events] == list(range(first, first + len(events)))
    assert not [e for e in story["before"] if e["type"] == "done" and e["turn_id"] == story["turn_id"]]
    assert story["after"][0]["seq"] == story["since"] + 1
    assert story["attached"]["session"]["epoch"] == session["epoch"]
    # Somebody else who was given everything has the same.
    onlooker: Client = machine.connect(path).greet(capabilities={"panels": True})
    onlooker.call("session/attach", session_id=session["session_id"], epoch=session["epoch"], since=0)
    while len(onlooker.events) < events[-1]["seq"]:
        onlooker.take()
    assert onlooker.events[first - 1 :] == events


def test_a_client_on_standard_streams_that_ends_in_mid_turn_finds_all_in_the_next_process(
    machine: Machine,
) -> None:
    argv: list[str | Path] = [machine.program, *flags(machine), "rpc"]
    story = told(machine, node(), HERE / "story.mjs", *argv)
    judge(story)
    # The end of its input broke nothing off: the turn was finished and told of before the process ended.
    events, first = story["before"], story["session"]["next_seq"]
    assert [event["seq"] for event in events] == list(range(first, first + len(events)))
    assert [each["turn_id"] for each in events if each["type"] == "done"][-1] == story["turn_id"]
    assert story["attached"]["session"]["epoch"] != story["session"]["epoch"]
