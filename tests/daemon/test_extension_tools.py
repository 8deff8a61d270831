"""Tools of extensions in a whole zotd: what the model's server is told, and what clients see."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine, types

MISBEHAVE = Path(__file__).parent.parent / "extensions" / "misbehave.py"
BUILT_IN = ["read", "write", "edit", "bash"]


class ModelServer(ThreadingHTTPServer):
    """Answers requests for chat completions with `answers` in order, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Frame] = []
        self.asked: list[Frame] = []

    def flags(self) -> list[str]:
        url = f"http://127.0.0.1:{self.server_port}/v1"
        return ["--provider", "openai-compatible", "--base-url", url, "--model", "m"]

    def call(self, name: str, **args: Any) -> None:
        """Answer the next request with a call of a tool."""
        function = {"name": name, "arguments": json.dumps(args)}
        calls = [{"index": 0, "id": f"call_{len(self.answers)}", "type": "function", "function": function}]
        self.answers.append({"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"})

    def say(self, text: str) -> None:
        self.answers.append({"delta": {"content": text}, "finish_reason": "stop"})

    @property
    def tools(self) -> list[list[str]]:
        """The names of the tools in each request."""
        return [[tool["function"]["name"] for tool in body.get("tools", [])] for body in self.asked]


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        chunk = {"choices": [{"index": 0, **self.server.answers.pop(0)}]}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """The test reads `asked`."""


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def extension(machine: Machine, name: str, *offers: Frame, **manifest: Any) -> list[str]:
    """The flags that load an extension with these tools."""
    folder = machine.root / name
    folder.mkdir()
    args = ["-S", str(MISBEHAVE), "tools"]
    whole = {"name": name, "version": "1", "exec": sys.executable, "args": args, "offers": offers, **manifest}
    (folder / "extension.json").write_text(json.dumps(whole))
    return ["--ext", str(folder)]


def offer(name: str, **more: Any) -> Frame:
    return {"name": name, "description": f"does {name}", **more}


def answer(text: str, **more: Any) -> Frame:
    return {"type": "tool_result", "content": [{"type": "text", "text": text}], **more}


def prompt(client: Client, session: str, text: str = "go") -> Frame:
    turn = client.call("turn/start", session_id=session, text=text)["turn_id"]
    ended: Frame = client.call("turn/wait", session_id=session, turn_id=turn)
    return ended


@pytest.mark.promise("S19", "S20")
def test_the_models_server_is_told_of_a_tool_as_it_was_registered_beside_the_built_in_ones(
    machine: Machine, model: ModelServer
) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    flags = extension(machine, "sky", offer("bash"), offer("weather", schema=schema))
    model.say("fine")
    client = machine.rpc(*model.flags(), *flags).greet()
    assert prompt(client, client.session())["text"] == "fine"
    assert model.tools == [[*BUILT_IN, "weather"]]
    assert model.asked[0]["tools"][-1] == {
        "type": "function",
        "function": {"name": "weather", "description": "does weather", "parameters": schema},
    }
    assert "does bash" not in json.dumps(model.asked)


@pytest.mark.promise("S20")
def test_a_built_in_name_stays_out_of_reach_when_the_session_goes_without_the_tool(
    machine: Machine, model: ModelServer
) -> None:
    flags = extension(machine, "sky", offer("bash"), offer("weather"))
    model.call("bash", say=[answer("gotcha")])
    model.say("fine")
    client = machine.rpc(*model.flags(), *flags, "--no-tools").greet()
    prompt(client, client.session())
    assert model.tools == [["weather"], ["weather"]]
    result = client.event("tool_result")
    assert result["is_error"]
    assert "no tool is named 'bash'" in result["content"][0]["text"]


@pytest.mark.promise("S12", "S22", "S25")
def test_what_a_turn_registers_and_activates_is_in_its_next_request_and_clients_are_told(
    machine: Machine, model: ModelServer
) -> None:
    flags = extension(machine, "sky", offer("loader"), offer("weather", deferred=True))
    late = {"type": "register_tool", **offer("tides")}
    model.call("loader", say=[late, answer("loaded", activate_tools=["weather", "nobody's"])])
    model.call("weather", city="Berlin")
    model.say("fine")
    client = machine.rpc(*model.flags(), *flags).greet()
    assert prompt(client, client.session())["text"] == "fine"
    first, *later = model.tools
    assert first == [*BUILT_IN, "loader"]
    assert [sorted(names) for names in later] == [sorted([*BUILT_IN, "loader", "weather", "tides"])] * 2
    while "done" not in types(client.events):
        client.take()
    registered = [event["tools"] for event in client.events if event["type"] == "ext_registered"]
    assert registered[-1] == ["loader", "weather", "tides"]
    results = [event for event in client.events if event["type"] == "tool_result"]
    assert [event["details"] for event in results] == [
        {"extension": "sky", "tool": "loader"},
        {"extension": "sky", "tool": "weather"},
    ]
    assert json.loads(results[1]["content"][0]["text"]) == {"name": "weather", "args": {"city": "Berlin"}}
    heard = [row["content"] for row in model.asked[2]["messages"] if row["role"] == "tool"]
    assert heard == ["loaded", results[1]["content"][0]["text"]]


@pytest.mark.promise("S46")
def test_aborting_a_turn_ends_a_tool_call_at_once_and_calls_it_off(machine: Machine) -> None:
    flags = extension(machine, "sky", offer("weather"), says=["tool_cancel"])
    call = {"name": "weather", "args": {"say": [{"type": "notify", "message": "hanging"}]}}
    script = machine.script({"reply": [{"tool_call": call}]}, {"reply": [{"text": "after"}]})
    client = machine.rpc(*script, *flags).greet()
    session = client.session()
    turn = client.call("turn/start", session_id=session, text="go")["turn_id"]
    assert client.event("ext_notify")["message"] == "hanging"
    client.call("turn/abort", session_id=session)
    assert client.call("turn/wait", session_id=session, turn_id=turn)["stop"] == "aborted"
    result = client.event("tool_result")
    assert (result["is_error"], result["details"]["extension"]) == (True, "sky")
    assert client.event("ext_notify")["message"].startswith("called off: ")
    assert prompt(client, session)["text"] == "after"


ASKING = {"reply": [{"tool_call": {"name": "ask_user", "args": {"say": [answer("yes")]}}}]}


@pytest.mark.parametrize("can", [True, False])
def test_a_tool_that_needs_a_person_runs_only_where_a_client_shows_panels(
    machine: Machine, can: bool
) -> None:
    flags = extension(machine, "sky", offer("ask_user", interactive=True))
    client = machine.rpc(*machine.script(ASKING, {"reply": [{"text": "fine"}]}), *flags)
    client.greet(capabilities={"panels": can})
    prompt(client, client.session())
    result = client.event("tool_result")
    assert result["is_error"] is not can
    said = result["content"][0]["text"]
    assert said == "yes" if can else "tool ask_user of extension sky needs a person at a panel" in said


@pytest.mark.parametrize("mode", ["--print", "--json"])
def test_a_tool_that_needs_a_person_is_refused_in_print_mode_and_in_json_mode(
    machine: Machine, model: ModelServer, mode: str
) -> None:
    flags = extension(machine, "sky", offer("ask_user", interactive=True))
    model.call("ask_user", say=[answer("yes")])
    model.say("without an answer, then")
    done = machine.run(mode, *model.flags(), *flags, "go")
    assert done.returncode == 0
    assert "without an answer, then" in done.stdout
    (heard,) = [row["content"] for row in model.asked[1]["messages"] if row["role"] == "tool"]
    assert "tool ask_user of extension sky needs a person at a panel" in heard
