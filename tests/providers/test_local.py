"""The embedded model's child: real processes, a small server for llama.cpp, and once the real model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from zotd.agent.ports import Finish, ModelRequest, ProviderError, Tool, ToolOutcome
from zotd.base.limits import Limits
from zotd.protocol.content import Message, Text, ToolCall
from zotd.protocol.events import TextDelta
from zotd.providers.catalog import Choice, choose
from zotd.providers.registry import Providers

# What `import xllamacpp` finds in the child: it answers with its pid and what it was asked.
DOUBLE = """
import http.server, json, os, sys, threading, types

class CommonParams(types.SimpleNamespace):
    def __init__(self):
        super().__init__(model=types.SimpleNamespace(), cpuparams=types.SimpleNamespace(),
                         cpuparams_batch=types.SimpleNamespace())

class Server:
    def __init__(self, params):
        word = open(params.model.path).read()
        if word == "broken":
            raise RuntimeError("not a model")
        if word == "dies":
            os._exit(3)
        if word == "slow":
            threading.Event().wait()
        print("noise on standard output")
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.headers["authorization"] != "Bearer " + params.api_keys[0]:
                    return self.send_error(401)
                facts = {"pid": os.getpid(), "keys": sorted(body)}
                facts["secret"] = params.api_keys[0] in str(sys.argv)
                chunk = {"choices": [{"delta": {"content": json.dumps(facts)}, "finish_reason": "stop"}]}
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\ndata: [DONE]\\n\\n")
            def log_message(self, *args):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = "http://127.0.0.1:%d" % server.server_port
"""


class Nothing:
    name = "nothing"
    description = ""
    schema: dict[str, object] = {}  # noqa: RUF012

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        return ToolOutcome([])


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    (tmp_path / "m.gguf").write_text("fine")
    return tmp_path / "m.gguf"


@asynccontextmanager
async def providers(tmp_path: Path, package: str = DOUBLE, start_s: float = 20) -> AsyncIterator[Providers]:
    (tmp_path / "xllamacpp.py").write_text(package)
    made = Providers(Limits(local_start_s=start_s), environ={**os.environ, "PYTHONPATH": str(tmp_path)})
    try:
        yield made
    finally:
        await made.close()


async def answer(made: Providers, weights: Path, tools: tuple[Tool, ...] = ()) -> str:
    provider = made.open(Choice("local", "m", weights=weights, window=512, max_output=64, tools=False))
    request = ModelRequest("m", "", [Message("user", [Text("hi")], "")], tools, "high")
    return "".join([one.delta async for one in provider.stream(request) if isinstance(one, TextDelta)])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_one_child_answers_for_a_file_and_ends_with_us(tmp_path: Path, weights: Path) -> None:
    async with providers(tmp_path) as made:
        first, second = await asyncio.gather(answer(made, weights), answer(made, weights, (Nothing(),)))
        assert first == second
        facts = json.loads(first)
        assert "tools" not in facts["keys"]
        assert "reasoning_effort" not in facts["keys"]
        assert not facts["secret"]
        assert alive(facts["pid"])
    assert not alive(facts["pid"])


async def test_a_child_that_was_killed_is_started_again(tmp_path: Path, weights: Path) -> None:
    async with providers(tmp_path) as made:
        pid = json.loads(await answer(made, weights))["pid"]
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(10):
            while alive(pid):
                await asyncio.to_thread(os.sched_yield)
        assert json.loads(await answer(made, weights))["pid"] != pid


@pytest.mark.parametrize(
    ("word", "message"),
    [("broken", "m.gguf: cannot be loaded: not a model"), ("dies", "the process that loads it died")],
)
async def test_a_file_that_is_no_model_is_named(
    tmp_path: Path, weights: Path, word: str, message: str
) -> None:
    weights.write_text(word)
    async with providers(tmp_path) as made:
        with pytest.raises(ProviderError, match=message) as caught:
            await answer(made, weights)
        assert "GGUF" in caught.value.hint
        assert caught.value.kind == "provider_error"


async def test_a_model_that_never_loads_is_given_up(tmp_path: Path, weights: Path) -> None:
    weights.write_text("slow")
    async with providers(tmp_path, start_s=0.5) as made:
        with pytest.raises(ProviderError, match=r"not loaded within 0\.5 s"):
            await answer(made, weights)


async def test_a_missing_package_names_the_command_that_installs_it(tmp_path: Path, weights: Path) -> None:
    async with providers(tmp_path, "raise ImportError('gone')") as made:
        with pytest.raises(ProviderError, match="needs the package xllamacpp") as caught:
            await answer(made, weights)
        assert caught.value.hint == "pip install 'zotd[local]'"
        assert caught.value.kind == "configuration"


async def test_missing_weights_name_the_command_that_fetches_them(tmp_path: Path) -> None:
    choice = choose("local", "", "", None, {}, tmp_path)
    made = Providers(Limits())
    request = ModelRequest("m", "", [Message("user", [Text("hi")], "")], ())
    with pytest.raises(ProviderError, match="there is no model file") as caught:
        async for _ in made.open(choice).stream(request):
            pass
    assert caught.value.hint == "run: zotd model install smollm2"
    assert caught.value.kind == "configuration"
    await made.close()


async def test_a_path_to_no_model_file_is_a_matter_of_configuration(tmp_path: Path) -> None:
    made = Providers(Limits())
    with pytest.raises(ProviderError, match=r"there is no model file .*gone\.gguf") as caught:
        await answer(made, tmp_path / "gone.gguf")
    assert caught.value.kind == "configuration"
    await made.close()


@pytest.mark.long
async def test_the_real_model_is_installed_and_streams_a_greeting(tmp_path: Path) -> None:
    environ = {**os.environ, "ZOT_HOME": str(tmp_path)}
    code = "import sys; from zotd.cli.model import main; sys.exit(main(['install', 'smollm2']))"
    install = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=environ)
    async with asyncio.timeout(300):
        assert await install.wait() == 0
    made = Providers(Limits())
    choice = choose("local", "", "", None, {}, tmp_path)
    request = ModelRequest(choice.model, "", [Message("user", [Text("Say hello to me.")], "")], ())
    events = [one async for one in made.open(choice).stream(request)]
    await made.close()
    deltas = [one.delta for one in events if isinstance(one, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas).strip()  # what so small a model says is its own affair
    assert isinstance(events[-1], Finish)
    assert events[-1].usage.output > 1
