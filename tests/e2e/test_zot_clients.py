"""Programs that people wrote for `zot rpc` run against zotd, spawned by the name `zot`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import LONG, ZOTD, Machine, judge_line, node, types

PYTHON_CLIENT = """
import json, subprocess
zot = subprocess.Popen(["zot", "rpc", "--provider", "scripted"], stdin=subprocess.PIPE,
                       stdout=subprocess.PIPE, text=True, bufsize=1)
def ask(**command):
    zot.stdin.write(json.dumps(command) + "\\n")
ask(type="hello", id="h")
assert json.loads(zot.stdout.readline())["data"]["protocol_version"] == 1
ask(type="prompt", id="1", message="hi from Python")
for line in zot.stdout:
    frame = json.loads(line)
    if frame["type"] == "text_delta":
        print(frame["delta"], end="")
    if frame["type"] == "done":
        break
zot.stdin.close()
print("", zot.wait())
"""

NODE_CLIENT = """
const { spawn } = require("child_process");
const zot = spawn("zot", ["rpc", "--provider", "scripted"], { stdio: ["pipe", "pipe", "inherit"] });
const lines = require("readline").createInterface({ input: zot.stdout });
let text = "";
lines.on("line", (line) => {
  const frame = JSON.parse(line);
  if (frame.type === "text_delta") text += frame.delta;
  if (frame.type === "done") zot.stdin.end();
});
zot.on("close", (code) => console.log(text, code));
zot.stdin.write(JSON.stringify({ type: "prompt", id: 7, message: "hi from Node" }) + "\\n");
"""


@pytest.fixture
def zot(machine: Machine) -> Machine:
    """The machine with a `zot` in its path that is zotd."""
    programs = machine.root / "bin"
    programs.mkdir()
    (programs / "zot").symlink_to(ZOTD)
    machine.env["PATH"] = f"{programs}:{machine.env['PATH']}"
    return machine


def run(machine: Machine, *argv: str | Path) -> str:
    done = subprocess.run(
        argv, cwd=machine.cwd, env=machine.env, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("end", ["\n", ""], ids=["with a newline", "without a newline"])
def test_one_prompt_piped_in_prints_the_response_the_events_and_done(machine: Machine, end: str) -> None:
    prompt = '{"type":"prompt","message":"hi","id":"1"}' + end
    done = machine.run("rpc", "--provider", "scripted", stdin=prompt.encode())
    frames = [judge_line(json.loads(line)) for line in done.stdout.splitlines()]
    assert frames[0] == {
        "type": "response",
        "command": "prompt",
        "success": True,
        "id": "1",
        "data": {"started": True},
    }
    assert types(frames[1:]) == [
        "user_message",
        "turn_start",
        "assistant_start",
        "text_delta",
        "text_delta",
        "text_delta",
        "usage",
        "assistant_message",
        "turn_end",
        "done",
    ]
    assert [frame["seq"] for frame in frames[1:]] == list(range(1, len(frames)))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_shell_pipe_with_jq_reads_the_answer(zot: Machine) -> None:
    line = (
        """echo '{"type":"prompt","message":"hi from a shell","id":"1"}' | zot rpc --provider scripted"""
        """ | jq -rj 'select(.type == "text_delta").delta'"""
    )
    assert run(zot, "bash", "-o", "pipefail", "-c", line) == "You said: hi from a shell"


def test_a_python_line_reader_reads_the_answer(zot: Machine) -> None:
    assert run(zot, sys.executable, "-c", PYTHON_CLIENT) == "You said: hi from Python 0\n"


def test_a_node_line_reader_reads_the_answer(zot: Machine) -> None:
    assert run(zot, node(), "-e", NODE_CLIENT) == "You said: hi from Node 0\n"


def test_a_client_that_sends_no_ids_gets_answers_without_ids(zot: Machine) -> None:
    zot.program = zot.root / "bin" / "zot"
    client = zot.rpc()
    for name in ("hello", "get_state", "set_reasoning", "ping"):
        answer = client.ask(name, **({"reasoning": "low"} if name == "set_reasoning" else {}))
        assert (answer["command"], answer["success"], "id" in answer) == (name, True, False)
    client.send({"type": "prompt", "message": "hi"})
    frames = client.until("done")
    assert frames[0]["success"]
    assert all("id" not in frame for frame in frames)
    client.hang_up()
    assert client.exit_code() == 0
