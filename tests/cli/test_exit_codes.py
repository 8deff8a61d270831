"""Every way `zotd -p` and `--json` can end, as a real process: the code, the result line, what is said."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.clients import LONG, Machine, text_of, types

SLOW = {"reply": [{"text": "one two three four five six seven eight nine ten", "delay_ms": 5000}]}
STEP = {"reply": [{"tool_call": {"name": "bash", "args": {"command": "true"}}}], "times": 0}
FAILS = {"error": {"status": 400, "message": "the model is ill"}}
CUT_SHORT = {"reply": [{"text": "half of"}], "stop": "length"}
FAILING_COMMAND = """
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name="fails", version="1", capabilities=["commands"])
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="register_command", name="fail", description="fails")
        send(type="ready")
    elif frame["type"] == "command_invoked":
        send(type="command_response", id=frame["id"], action="noop", error="it cannot be done")
    elif frame["type"] == "shutdown":
        break
"""


def test_an_answer_exits_0_and_stands_alone_on_stdout(machine: Machine) -> None:
    done = machine.run("--provider", "scripted", "-p", "hello", "there")
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hello there\n", "")


def test_json_mode_prints_the_events_and_the_result_last(machine: Machine) -> None:
    events, result, code = machine.json("--provider", "scripted", "hello")
    assert (code, result["ok"], result["stop"], result["text"]) == (0, True, "end_turn", "You said: hello")
    assert "error" not in result
    assert types(events)[-1] == "done"
    assert text_of(events) == "You said: hello"
    assert {event["session_id"] for event in events} == {result["session_id"]}
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_an_error_of_the_provider_exits_1(machine: Machine) -> None:
    script = machine.script(FAILS)
    done = machine.run(*script, "-p", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the model is ill" in done.stderr
    events, result, code = machine.json(*script, "hello")
    assert (code, result["ok"], result["stop"]) == (1, False, "error")
    assert "the model is ill" in result["error"]
    assert types(events)[-2:] == ["error", "done"]


def test_an_error_of_an_extensions_command_exits_1(machine: Machine) -> None:
    extension = machine.extension("fails", FAILING_COMMAND)
    done = machine.run("--provider", "scripted", "-e", extension, "-p", "/fail")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("it cannot be done") == 1
    _, result, code = machine.json("--provider", "scripted", "-e", str(extension), "/fail")
    assert (code, result["ok"], result["error"]) == (1, False, "it cannot be done")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--provder", "scripted", "-p", "x"], "unknown flag --provder: did you mean --provider"),
        (["--zzzzzzzz", "-p", "x"], "unknown flag --zzzzzzzz; zotd --help"),
        (["--timeout", "soon", "-p", "x"], "--timeout"),
        (["--timeout", "0", "-p", "x"], "number of seconds above 0"),
        (["--timeout", "nan", "-p", "x"], "number of seconds above 0"),
        (["--max-steps", "0", "-p", "x"], "whole number of at least 1"),
        (["--max-steps", "2.5", "-p", "x"], "--max-steps"),
        (["--reasoning", "much", "-p", "x"], "--reasoning"),
        (["--mode", "tui", "-p", "x"], "--mode"),
        (["--model"], "--model"),
        (["--session", "abcd", "-p", "x"], "no session 'abcd' is saved; none is; a file is named with"),
        (["--session=", "-p", "x"], "--session: expected a file or the id of a session, got nothing"),
        (["-c", "--session=abcd", "-p", "x"], "--continue and --session ask for different sessions"),
        (["--resume", "--no-session", "-p", "x"], "--continue and --no-session ask for different"),
        (["--cwd", ".", "sessions", "list"], "sessions comes first: zotd sessions --help"),
        (["--cwd", ".", "daemon", "status"], "daemon comes first: zotd daemon --help"),
        (["--connect=", "-p", "x"], "--connect: expected auto or the path of a socket, got nothing"),
        (["--no-yolo", "--approval=rules", "-p", "x"], "--no-yolo asks, --approval rules does not"),
        (["--provider", "scriptd", "-p", "x"], "unknown provider 'scriptd': did you mean 'scripted'"),
        (["--provider", "scripted", "--script", "gone.yaml", "-p", "x"], "gone.yaml"),
        (["--provider", "scripted", "--output-schema", "gone.json", "-p", "x"], "gone.json"),
        (["--provider", "scripted", "--cwd", "nowhere", "-p", "x"], "nowhere is not a directory"),
        (["--provider", "scripted", "-p"], "no prompt"),
        (["--provider", "scripted"], "say how to run"),
        (["hello"], "say how to run"),
        (["deamon", "start"], "deamon is no command: did you mean daemon?"),
        (["--listen", "unix:a", "-p", "x"], "--listen goes with rpc"),
        (["rpc", "--listen", "tcp:1"], "expected unix:PATH or ws://127.0.0.1:PORT"),
        (["rpc", "hello"], "rpc takes no prompt"),
        (["ext", "list"], "zotd ext is not there yet: put an extension's folder into"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_exits_2_and_names_what_is_wrong(
    machine: Machine, argv: list[str], said: str
) -> None:
    done = machine.run(*argv, stdin=None)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_limit_of_steps_exits_4(machine: Machine) -> None:
    flags = [*machine.script(STEP), "--max-steps", "2"]
    done = machine.run(*flags, "-p", "go on")
    assert done.returncode == 4
    assert "steps" in done.stderr
    events, result, code = machine.json(*flags, "go on")
    assert (code, result["ok"], types(events).count("turn_start")) == (4, False, 2)
    assert "steps" in result["error"]
    assert types(events)[-1] == "done"


def test_an_answer_cut_at_the_models_limit_exits_4_and_is_shown(machine: Machine) -> None:
    script = machine.script(CUT_SHORT)
    done = machine.run(*script, "-p", "hello")
    assert (done.returncode, done.stdout) == (4, "half of\n")
    assert "cut" in done.stderr
    _, result, code = machine.json(*script, "hello")
    assert (code, result["ok"], result["stop"], result["text"]) == (4, False, "length", "half of")
    assert result["error"]


def test_missing_credentials_exit_5_and_the_ways_to_get_them_are_listed(machine: Machine) -> None:
    for mode in ("-p", "--json"):
        done = machine.run(mode, "hello")
        assert (done.returncode, done.stdout) == (5, "")
        for way in ("OPENAI_API_KEY", "--base-url", "zotd model install", "ollama"):
            assert way in done.stderr


def test_a_timeout_exits_124(machine: Machine) -> None:
    flags = [*machine.script(SLOW), "--timeout", "0.3"]
    done = machine.run(*flags, "-p", "hello")
    assert (done.returncode, done.stdout) == (124, "")
    assert "--timeout is over" in done.stderr
    events, result, code = machine.json(*flags, "hello")
    assert (code, result["ok"], result["stop"]) == (124, False, "aborted")
    assert "--timeout" in result["error"]
    assert [event["stop"] for event in events[-2:]] == ["aborted", "aborted"]


def test_an_interruption_in_the_middle_of_a_turn_exits_130(machine: Machine) -> None:
    client = machine.start("--json", *machine.script(SLOW), "hello")
    client.hang_up()
    client.until("text_delta")
    client.signal(signal.SIGINT)
    frames = client.rest()
    assert types(frames) == ["assistant_message", "turn_end", "done", "result"]
    assert (frames[-1]["ok"], frames[-1]["stop"], frames[-1]["error"]) == (False, "aborted", "interrupted")
    assert client.exit_code() == 130


@pytest.mark.parametrize("module", ["zotd.cli.flags", "zotd.cli.app", "zotd.cli.oneshot"])
def test_an_interruption_before_a_run_begins_exits_130_and_says_nothing(
    machine: Machine, module: str
) -> None:
    """Python tells which module it has read; then the prompt is awaited, which never comes."""
    with subprocess.Popen(
        [machine.program, "--json", "--provider", "scripted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**machine.env, "PYTHONPROFILEIMPORTTIME": "1"},
        cwd=machine.cwd,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not process.stderr.readline().endswith(b" " + module.encode() + b"\n"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(LONG) == 130
        assert process.stdout.read() == b""
        assert all(line.startswith(b"import time:") for line in process.stderr)


def test_an_interrupted_command_is_gone_before_zotd_is(machine: Machine) -> None:
    call = {"name": "bash", "args": {"command": "echo up; exec sleep 300"}}
    client = machine.start("--json", *machine.script({"reply": [{"tool_call": call}]}), "hello")
    client.hang_up()
    client.until("tool_progress")
    client.signal(signal.SIGINT)
    assert client.exit_code() == 130
    assert machine.left_running() == []


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WRONG = {"reply": [{"text": '{"n": "one"}'}]}
RIGHT = {"reply": [{"text": '```json\n{"n": 1}\n```'}]}


@pytest.fixture
def number(machine: Machine) -> Path:
    path = machine.root / "schema.json"
    path.write_text(json.dumps(NUMBER))
    return path


def test_an_answer_that_fits_the_schema_is_printed_bare(machine: Machine, number: Path) -> None:
    done = machine.run(*machine.script(RIGHT, WRONG), "--output-schema", number, "-p", "count")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"n": 1})


def test_an_answer_that_misses_the_schema_gets_one_repair(machine: Machine, number: Path) -> None:
    events, result, code = machine.json(
        *machine.script(WRONG, RIGHT), "--output-schema", str(number), "count"
    )
    assert (code, result["ok"], json.loads(result["text"])) == (0, True, {"n": 1})
    asked = [event["content"][0]["text"] for event in events if event["type"] == "user_message"]
    assert len(asked) == 2
    assert "$.n" in asked[1]


def test_a_second_miss_of_the_schema_exits_1(machine: Machine, number: Path) -> None:
    script = machine.script(WRONG, WRONG, RIGHT)
    done = machine.run(*script, "--output-schema", number, "-p", "count")
    assert done.returncode == 1
    assert done.stderr.startswith("zotd: the answer does not fit the schema: $.n")
    events, result, code = machine.json(*script, "--output-schema", str(number), "count")
    assert (code, result["ok"], types(events).count("done")) == (1, False, 2)
    assert "$.n" in result["error"]


def test_a_file_that_is_no_schema_exits_2(machine: Machine, number: Path) -> None:
    for text in ("{", '{"type": "nothing"}', "3"):
        number.write_text(text)
        done = machine.run("--provider", "scripted", "--output-schema", number, "-p", "count")
        assert done.returncode == 2, text
        assert "Traceback" not in done.stderr


GATE = """
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name="gate", version="1")
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="subscribe", intercept=["turn_start", "tool_call"])
        send(type="ready")
    elif frame["type"] == "event_intercept":
        block = frame["event"] == "tool_call" or frame["step"] == STEP
        send(type="event_intercept_response", id=frame["id"], block=block, reason="closed at night")
    elif frame["type"] == "shutdown":
        break
"""


@pytest.mark.promise("S28")
def test_a_turn_that_an_extension_blocked_exits_3_and_says_why_once(machine: Machine) -> None:
    gate = machine.extension("gate", GATE.replace("STEP", "1"))
    done = machine.run("--provider", "scripted", "--ext", gate, "-p", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "[gate] warn: closed at night\n")
    events, result, code = machine.json("--provider", "scripted", "--ext", str(gate), "hello")
    assert (code, result["ok"], result["stop"], result["error"]) == (3, False, "error", "closed at night")
    of_turn = [event["type"] for event in events if not event["type"].startswith("ext_")]
    assert of_turn == ["user_message", "turn_start", "turn_end", "done"]
    (end,) = [event for event in events if event["type"] == "turn_end"]
    assert (end["stop"], end["error"]) == ("error", "closed at night")


@pytest.mark.promise("S28")
def test_a_later_step_that_is_blocked_exits_3_too(machine: Machine) -> None:
    gate = machine.extension("gate", GATE.replace("STEP", "2"))
    _, result, code = machine.json(*machine.script(STEP), "--ext", str(gate), "hello")
    assert (code, result["error"]) == (3, "closed at night")


@pytest.mark.promise("S27")
def test_a_call_that_an_extension_refused_exits_0_once_the_model_has_answered(machine: Machine) -> None:
    gate = machine.extension("gate", GATE.replace("STEP", "0"))
    script = machine.script({**STEP, "times": 1}, {"reply": [{"text": "so be it"}]})
    events, result, code = machine.json(*script, "--ext", str(gate), "hello")
    assert (code, result["text"]) == (0, "so be it")
    (refused,) = [event for event in events if event["type"] == "tool_result"]
    assert (refused["is_error"], refused["content"][0]["text"]) == (True, "closed at night")


MORTAL = """
import json, os, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name=NAME, version="1")
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="register_tool", name="jump", description="off a cliff")
        send(type="subscribe", intercept=DECIDES)
        send(type="ready")
    elif frame["type"] == "tool_call":
        os._exit(4)
"""


@pytest.mark.parametrize("decides", [[], ["assistant_message"]])
def test_an_extension_that_dies_while_the_prompt_runs_is_told_of(
    machine: Machine, decides: list[str]
) -> None:
    source = MORTAL.replace("NAME", '"mortal"').replace("DECIDES", repr(decides))
    mortal = machine.extension("mortal", source)
    call = {"reply": [{"tool_call": {"name": "jump", "args": {}}}], "times": 1}
    script = machine.script(call, {"reply": [{"text": "so be it"}]})
    done = machine.run(*script, "--ext", mortal, "-p", "hello")
    died, *more = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, "so be it\n")
    assert died.startswith("[mortal] error: extension mortal exited: exit status 4 (log: ")
    loss = "extension mortal exited: exit status 4: it no longer decides on assistant_message"
    assert more == [f"[mortal] warn: {loss}"] * len(decides)
