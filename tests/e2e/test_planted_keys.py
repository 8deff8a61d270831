"""Keys are planted wherever zotd takes one, used, quoted back by the server; then looked for everywhere."""

from __future__ import annotations

import json
import os
import signal
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Machine
from tests.daemons import Shared
from tests.model_server import ModelHandler, serving

PARAM = "planted-param-7f1c93aa"
FLAG = "planted flag/9e2b=11&7"  # with what is spelled another way in URLs and in JSON
VARIABLE = "planted-variable-c04d55e1"
ARGV = "planted-argv-5b1a77d2"
FORWARDED = "planted-forwarded-91c3e4f0"
PRINTED = "planted-printed-2d88b6a9"
STORED = "planted-stored-e7f0a1b3"
KEYS = (PARAM, FLAG, VARIABLE, ARGV, FORWARDED, PRINTED, STORED)
LISTENER = """
import json, os, sys
def say(**frame): print(json.dumps(frame), flush=True)
say(type="hello", name="listener", version="1", capabilities=[])
say(type="subscribe", events=["session_start", "turn_start", "turn_end", "tool_call", "assistant_message"])
say(type="ready")
for line in sys.stdin: print(line, file=sys.stderr, flush=True)
"""


class Rude(ModelHandler):
    """A server of models that quotes the key when it refuses it, in the ways that servers do."""

    protocol_version = "HTTP/1.1"
    seen: set[str]

    def reply(self, body: dict[str, Any]) -> None:
        key = self.headers["authorization"].removeprefix("Bearer ")
        type(self).seen.add(key)
        last = body["messages"][-1]
        if last["role"] == "user" and "run" in json.dumps(last["content"]):
            function = {"name": "bash", "arguments": json.dumps({"command": "echo up; sleep 60"})}
            call = {"index": 0, "id": "c1", "type": "function", "function": function}
            self.answer(
                200,
                "text/event-stream",
                "".join(
                    f"data: {json.dumps({'choices': [choice]})}\n\n"
                    for choice in (
                        {"delta": {"tool_calls": [call]}},
                        {"delta": {}, "finish_reason": "tool_calls"},
                    )
                )
                + "data: [DONE]\n\n",
            )
        elif "plain" in json.dumps(last["content"]):
            self.answer(400, "text/plain", f"bad request with Authorization: Bearer {key}")
        else:
            # Long, so that what is cut off could cut the key in two.
            said = "x" * 450 + f" Incorrect API key provided: {key}. Find yours."
            self.answer(401, "application/json", json.dumps({"error": {"message": said, "code": key}}))


@pytest.fixture
def url() -> Iterator[str]:
    Rude.seen = set()
    with serving(Rude) as url:
        yield f"{url}/v1"


def preface(client: Client, machine: Machine, **given: Any) -> Client:
    client.send({"zotd": 1, "cwd": str(machine.cwd), **given})
    assert client.raw()["zotd"] == 1
    return client.greet(client={"name": "editor", "version": "1"})


def use(client: Client, session_id: str) -> None:
    """One prompt that is refused in JSON, one in plain text, one that has a shell command run."""
    for text in ("hello", "plain"):
        turn = client.call("turn/start", session_id=session_id, text=text)
        ended = client.call("turn/wait", session_id=session_id, turn_id=turn["turn_id"])
        assert ended["stop"] == "error"
        assert text != "plain" or "***" in ended["error"]["message"]
    client.call("turn/start", session_id=session_id, text="run")
    client.event("tool_progress")


def told_to(client: Client) -> bytes:
    return json.dumps([client.events, client.replies], ensure_ascii=False).encode()


def files_under(*roots: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and path.name != "auth.json"
    }


def processes(file: str, but: set[int]) -> dict[str, bytes]:
    """What the system shows of every process: `cmdline` or `environ`."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) not in but:
            try:
                found[f"{entry}/{file}"] = (entry / file).read_bytes()
            except OSError:
                continue
    return found


def members(archive: Path) -> dict[str, bytes]:
    """All that is in a bundle, whatever its format."""
    data = archive.read_bytes()
    found = {str(archive): data}
    if zipfile.is_zipfile(BytesIO(data)):
        with zipfile.ZipFile(BytesIO(data)) as packed:
            found |= {f"{archive}!{name}": packed.read(name) for name in packed.namelist()}
    else:
        import tarfile

        with tarfile.open(fileobj=BytesIO(data)) as tape:
            for each in tape:
                if (held := tape.extractfile(each)) is not None:
                    found[f"{archive}!{each.name}"] = held.read()
    return found


def leaks(where: dict[str, bytes], keys: tuple[str, ...] = KEYS) -> list[str]:
    """Where a key is found, in any of its spellings; a half of one counts."""
    found = []
    for place, data in where.items():
        for key in keys:
            quoted = json.dumps(key)[1:-1]
            halves = {key[: len(key) - 4], quoted, key[:12]}
            found += [f"{key} in {place}" for each in halves if each.encode() in data]
    return found


def test_a_planted_key_is_found_nowhere(shared: Shared, url: str) -> None:
    machine = shared.machine
    (machine.home / "auth.json").write_text(json.dumps({"openai": {"type": "api_key", "key": STORED}}))
    (machine.home / "auth.json").chmod(0o600)
    folder = machine.extension("listener", LISTENER)
    model = {"provider": "openai-compatible", "model": "m", "base_url": url}
    flags = {**model, "ext": [str(folder)]}
    pid = shared.started()

    clients: dict[str, Client] = {}
    prefaces: dict[str, dict[str, Any]] = {
        "param": {"env": machine.env},
        "flag": {"env": machine.env, "flags": {**flags, "api_key": FLAG}},
        "variable": {"env": {**machine.env, "OPENAI_API_KEY": VARIABLE}, "flags": flags},
    }
    for name, given in prefaces.items():
        clients[name] = preface(machine.connect(shared.socket), machine, **given)
    sessions = {
        "param": clients["param"].session(
            cwd=str(machine.cwd), **model, api_key=PARAM, extensions=[str(folder)], env=machine.env
        ),
        "flag": clients["flag"].session(cwd=str(machine.cwd)),
        "variable": clients["variable"].session(cwd=str(machine.cwd)),
    }
    argv = ("--provider", "openai-compatible", "--model", "m", "--base-url", url, "--ext", str(folder))
    started = {
        "argv": machine.rpc(*argv, "--api-key", ARGV),
        "forwarded": machine.rpc("--connect", "auto", *argv, "--api-key", FORWARDED),
    }
    for name, process in started.items():
        clients[name] = process.greet(client={"name": name, "version": "1"})
        sessions[name] = process.session(cwd=str(machine.cwd))
    for name, session_id in sessions.items():
        use(clients[name], session_id)
    printed = [
        machine.run(*argv, "--api-key", PRINTED, *more, "hello")
        for more in (("-p",), ("--json",), ("--json", "--connect", "auto"))
    ]
    assert Rude.seen == {PARAM, FLAG, VARIABLE, ARGV, FORWARDED, PRINTED}

    where: dict[str, bytes] = {}
    for number, done in enumerate(printed):
        assert done.returncode == 5, done
        where[f"run {number}"] = (done.stdout + done.stderr).encode()
    for name, client in clients.items():
        status = client.call("daemon/status")
        assert [each["session_id"] for each in status["sessions"] if each["session_id"] == sessions[name]]
        where[f"status of {name}"] = json.dumps(status, ensure_ascii=False).encode()
        where[f"events of {name}"] = told_to(client)
        if name in started:
            where[f"stderr of {name}"] = started[name].stderr.encode()
        for form in ("jsonl", "markdown", "html"):
            exported = client.call("session/export", session_id=sessions[name], format=form)
            where[f"{form} of {name}"] = json.dumps(exported, ensure_ascii=False).encode()
    reader = machine.connect(shared.socket).greet(client={"name": "reader", "version": "1"})
    for name in ("param", "flag", "variable", "forwarded"):
        reader.call("session/attach", session_id=sessions[name], since=0)
    reader.call("ping")
    where["replay"] = told_to(reader)
    assert where["replay"].count(b'"error"') >= 8  # it is there, and of all four
    where["zotd daemon status"] = json.dumps(shared.status()).encode()

    own = {process.popen.pid for process in started.values()} | {os.getpid()}
    running = processes("cmdline", own)
    assert sum(line == b"sleep\x0060\x00" for line in running.values()) >= len(sessions)
    assert f"/proc/{pid}/cmdline" in running
    where |= running
    assert leaks(where) == []
    # The client's environment is what its session's children get: that is where its keys are meant to be.
    assert leaks(processes("environ", set()), tuple(key for key in KEYS if key != VARIABLE)) == []

    bundle = machine.root / "bundle.out"
    made = machine.run("doctor", "--bundle", bundle)
    where = {"doctor": (made.stdout + made.stderr).encode(), **members(bundle)}
    for client in clients.values():
        client.hang_up()
    assert shared.daemon("stop").returncode == 0
    where |= files_under(machine.root)
    log = (machine.home / "logs" / "zotd.log").read_bytes()
    events = {json.loads(line)["event"] for line in log.splitlines()}
    assert events >= {"listening", "connection opened", "request", "turn", "extension", "stopped"}
    assert leaks(where) == []


def test_a_key_in_the_environment_of_a_daemon_is_not_in_its_log(shared: Shared, url: str) -> None:
    machine = shared.machine
    process = machine.start(
        *("daemon", "run", "--log", "auto", "--log-level", "debug", "--base-url", url, "--model", "m"),
        env={"OPENAI_API_KEY": VARIABLE, "ZOTD_TOKEN": PARAM},
    )
    machine.appears(shared.socket, process)
    wrong = machine.connect(shared.socket)
    wrong.request("initialize", protocol_version=1, client={"name": "x", "version": "1"}, token=FLAG)
    assert "error" in wrong.raw()
    client = machine.connect(shared.socket).greet(client={"name": PARAM, "version": "1"}, token=PARAM)
    turn = client.call("turn/start", session_id=client.session(cwd=str(machine.cwd)), text="hello")
    client.event("done")
    assert turn["state"] == "started"
    process.signal(signal.SIGTERM)
    assert process.exit_code() == 0
    log = (machine.home / "logs" / "zotd.log").read_bytes()
    assert b'"event":"turn"' in log
    assert leaks({"log": log, "stderr": process.stderr.encode()}, (VARIABLE, PARAM, FLAG)) == []
