"""The life of extensions under a real daemon: what they are given, how they are loaded anew, how they end."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, Client, Machine, gone

MISBEHAVE = Path(__file__).parent.parent / "extensions" / "misbehave.py"
SECRETS = ("sk-from-a-flag", "token-of-ours", "token-of-zot")


def install(machine: Machine, name: str, mode: str = "plays", **manifest: Any) -> Path:
    """An extension of the user, in one of the modes of `misbehave.py`."""
    folder = machine.home / "extensions" / name
    folder.mkdir(parents=True, exist_ok=True)
    args = ["-S", str(MISBEHAVE), mode]
    full = {"name": name, "version": "1", "exec": sys.executable, "args": args, **manifest}
    (folder / "extension.json").write_text(json.dumps(full))
    return folder


def heard(client: Client, session_id: str, name: str) -> dict[str, Any]:
    """What an extension of the mode `plays` heard, its process and its environment."""
    client.events.clear()
    client.call("command/run", session_id=session_id, name=f"heard-{name}")
    return dict(json.loads(client.event("ext_display")["text"]))


def opened(client: Client, *names: str, **params: Any) -> str:
    """A session whose extensions are ready."""
    session_id = client.session(**params)
    missing = {*names}
    while missing:
        missing.discard(client.event("ext_registered")["extension"])
    return session_id


@pytest.mark.promise("S52")
def test_a_key_from_a_flag_and_our_tokens_reach_no_child(machine: Machine) -> None:
    install(machine, "a")
    entry = {"tool_call": {"name": "bash", "args": {"command": "env"}}}
    script = machine.script({"reply": [entry]}, {"reply": [{"text": "done"}]})
    ours = {"ZOTD_TOKEN": SECRETS[1], "ZOTCORE_RPC_TOKEN": SECRETS[2], "MINE": "kept"}
    client = machine.rpc(*script, "--api-key", SECRETS[0], env=ours)
    client.ask("hello", token=SECRETS[2])
    client.send({"type": "prompt", "message": "/heard-a"})
    env = json.loads(client.until("ext_display")[-1]["text"])["env"]
    assert (env["MINE"], env["AI_AGENT"], env["ZOT_HOME"]) == ("kept", "zotd", str(machine.home))
    assert not [value for value in env.values() if value in SECRETS]
    client.until("done")
    client.send({"type": "prompt", "message": "go"})
    (result,) = (event for event in client.until("done") if event["type"] == "tool_result")
    shown = json.dumps(result)
    assert "MINE=kept" in shown
    assert not [secret for secret in SECRETS if secret in shown]


@pytest.mark.promise("S16")
def test_a_session_works_when_every_extension_fails(machine: Machine) -> None:
    for mode in ("exits_7", "killed", "notify_first", "closes_stdout", "nameless"):
        install(machine, mode, mode)
    install(machine, "no-program", exec="./nothing-here")
    (install(machine, "broken") / "extension.json").write_text("{")
    client = machine.rpc().greet()
    session_id = client.session()
    turn = client.call("turn/start", session_id=session_id, text="hello")["turn_id"]
    done = client.call("turn/wait", session_id=session_id, turn_id=turn)
    assert (done["stop"], done["text"]) == ("end_turn", "You said: hello")
    listed = client.call("extension/list", session_id=session_id)["extensions"]
    assert {row["state"] for row in listed} == {"failed"}
    assert len(listed) == 7


@pytest.mark.promise("S67", "S68")
def test_a_prompt_given_during_a_reload_waits_for_it_and_meets_the_new_set(machine: Machine) -> None:
    folder = install(machine, "a")
    gate = folder / "gate"
    os.mkfifo(gate)
    client = machine.rpc().greet()
    session_id = opened(client, "a")
    install(machine, "a", "hello_late")
    reload = client.request("extension/reload", session_id=session_id)
    writer = os.open(gate, os.O_WRONLY)  # returns once the new process waits
    turn = client.request("turn/start", session_id=session_id, text="/poke")
    os.close(writer)
    answer = client.reply(reload)["result"]
    assert (answer["stopped"], answer["ready"], answer["errors"]) == (["a"], ["a"], [])
    assert client.reply(turn)["result"]["state"] == "command"
    assert client.event("ext_display")["text"] == "ouch"


@pytest.mark.promise("S67")
def test_a_tool_that_a_reload_brings_can_be_called_without_a_restart(machine: Machine) -> None:
    install(machine, "a")
    entry = {"tool_call": {"name": "fresh", "args": {}}}
    client = machine.rpc(*machine.script({"reply": [entry]}, {"reply": [{"text": "done"}]})).greet()
    session_id = opened(client, "a")
    install(machine, "a", frames=[{"type": "register_tool", "name": "fresh"}])
    client.call("extension/reload", session_id=session_id)
    client.call("turn/start", session_id=session_id, text="go")
    result = client.event("tool_result")
    assert (result["is_error"], result["content"]) == (False, [{"type": "text", "text": "done by a"}])


@pytest.mark.promise("S67")
def test_a_turn_that_runs_slips_past_no_guard_while_it_is_loaded_anew(machine: Machine) -> None:
    gate = machine.root / "gate"
    os.mkfifo(gate)
    install(machine, "a", frames=[{"type": "register_tool", "name": "slow"}])
    install(machine, "guard")
    calls = [
        {"tool_call": {"name": "slow", "args": {"gate": str(gate)}}},
        {"tool_call": {"name": "bash", "args": {"command": "touch unguarded"}}},
    ]
    script = machine.script(*({"reply": [call]} for call in calls), {"reply": [{"text": "done"}]})
    client = machine.rpc(*script).greet()
    session_id = opened(client, "a", "guard")
    client.call("turn/start", session_id=session_id, text="go")
    writer = os.open(gate, os.O_WRONLY)  # returns once the tool runs
    install(machine, "guard", frames=[{"type": "subscribe", "intercept": ["tool_call"]}])
    reload = client.request("extension/reload", session_id=session_id)
    client.call("session/state", session_id=session_id)  # answered after the reload has begun to wait
    os.close(writer)
    assert client.reply(reload)["result"]["ready"] == ["a", "guard"]
    assert client.event("tool_result")["content"][0]["text"] == "done by a"
    refused = client.event("tool_result")
    assert refused["is_error"]
    assert "guard says no" in refused["content"][0]["text"]
    client.event("done")
    assert not (machine.cwd / "unguarded").exists()


@pytest.mark.promise("S10")
def test_a_reload_tells_extensions_of_the_model_that_was_chosen_since(machine: Machine) -> None:
    install(machine, "a")
    client = machine.rpc()
    client.ask("set_model", model="other")
    client.ask("reload_ext")
    client.send({"type": "prompt", "message": "/heard-a"})
    heard_first = json.loads(client.until("ext_display")[-1]["text"])["frames"][0]
    assert (heard_first["type"], heard_first["model"]) == ("hello_ack", "other")


@pytest.mark.promise("S69")
def test_failures_of_a_reload_stay_until_clear_and_are_not_told_to_the_model(machine: Machine) -> None:
    install(machine, "a")
    client = machine.rpc().greet()
    session_id = opened(client, "a")
    install(machine, "a", "exits_7")
    (error,) = client.call("extension/reload", session_id=session_id)["errors"]
    assert "exited: exit status 7 before hello (log: " in error["message"]
    client.call("turn/start", session_id=session_id, text="hello")
    client.event("done")
    state = client.call("session/state", session_id=session_id)["session"]
    assert [note["text"] for note in state["notes"]] == [error["message"]]
    messages = client.call("session/messages", session_id=session_id)["messages"]
    assert "exit status 7" not in json.dumps(messages)
    client.call("session/clear", session_id=session_id)
    state = client.call("session/state", session_id=session_id)["session"]
    assert state["notes"] == []


def test_sessions_of_a_daemon_share_what_asks_for_it(machine: Machine) -> None:
    install(machine, "team", instances="workspace")
    install(machine, "mine")
    _, path = machine.listen()
    a, b = machine.connect(path).greet(), machine.connect(path).greet()
    one = opened(a, "team", "mine", cwd=str(machine.cwd))
    other = opened(b, "team", "mine", cwd=str(machine.cwd))
    assert heard(a, one, "mine")["pid"] != heard(b, other, "mine")["pid"]
    assert heard(a, one, "team")["pid"] == heard(b, other, "team")["pid"]
    frames = heard(b, other, "team")["frames"]
    assert [frame["session_id"] for frame in frames] == [one, one, other, other]


@pytest.mark.promise("S15", "S44", "S51")
@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "end of input"])
def test_extensions_get_shutdown_however_the_daemon_is_told_to_end(machine: Machine, end: str) -> None:
    farewell = machine.root / "farewell"
    os.mkfifo(farewell)
    install(machine, "a", leaving=str(farewell))
    client = machine.rpc()
    pid = heard(client.greet(), opened(client, "a"), "a")["pid"]
    words: list[str] = []
    listener = threading.Thread(target=lambda: words.append(farewell.read_text()), daemon=True)
    listener.start()
    if end == "end of input":
        client.hang_up()
    else:
        client.signal(signal.Signals[end])
    listener.join(LONG)
    assert words == ["bye"]
    assert client.exit_code() == 0
    assert gone(pid, LONG)


@pytest.mark.promise("S60")
def test_an_extension_of_one_run_is_kept_nowhere_and_dies_with_the_run(machine: Machine) -> None:
    folder = machine.root / "copy"
    install(machine, "a").rename(folder)
    client = machine.rpc("--provider", "scripted", "--ext", str(folder))
    pid = heard(client.greet(), opened(client, "a"), "a")["pid"]
    client.hang_up()
    assert client.exit_code() == 0
    assert gone(pid, LONG)
    assert not [*(machine.home / "extensions").iterdir()]
    assert (machine.run("--provider", "scripted", "-p", "/heard-a").stdout) == "You said: /heard-a\n"
