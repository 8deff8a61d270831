"""What extensions cost: ten that start, interceptors, the way of a note, a flood of notes."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from bench.ways import PYTHON, ROOT, ZOTD, clean_environment
from zotd.base.limits import Limits
from zotd.base.tasks import Independent
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.protocol.content import ToolCall
from zotd.providers.registry import Providers

ENVIRONMENT = clean_environment()
PEER = str(ROOT / "bench" / "peer.py")
RELAY = str(ROOT / "bench" / "floor_relay.py")
TOGETHER = 10
STARTS = 15
CALLS = 2_000
QUESTION = (
    b'{"type":"event_intercept","id":"1","event":"tool_call",'
    b'"tool_id":"1","tool_name":"read","tool_args":{"path":"none"}}\n'
)
NOTES, FLOODS, FLOOD = 1_000, 5, 200_000


def install(root: Path, kind: str, count: int) -> list[str]:
    """Extensions `KIND0`, `KIND1`, … under `root`; returns their directories."""
    directories = []
    for number in range(count):
        directory = root / f"{kind}{number}"
        directory.mkdir()
        manifest = {"name": directory.name, "exec": PYTHON, "args": [PEER, directory.name, kind]}
        (directory / "extension.json").write_text(json.dumps(manifest))
        directories.append(str(directory))
    return directories


class Daemon:
    """A `zotd rpc` that speaks JSON-RPC; frames are read as lines."""

    def __init__(self, *flags: str) -> None:
        self.process = subprocess.Popen(
            [ZOTD, "rpc", "--provider", "scripted", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            cwd=ENVIRONMENT["HOME"],
        )
        self.ask("initialize", protocol_version=1, client={"name": "bench", "version": "1"})

    def send(self, method: str, **params: object) -> None:
        assert self.process.stdin is not None
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> bytes:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "zotd ended"
        return line

    def until(self, mark: bytes) -> bytes:
        while mark not in (line := self.line()):
            pass
        return line

    def ask(self, method: str, **params: object) -> dict[str, object]:
        self.send(method, **params)
        reply = json.loads(self.until(f'"id":"{method}"'.encode()))
        assert "result" in reply, reply
        result: dict[str, object] = reply["result"]
        return result

    def open(self, directories: list[str], **params: object) -> str:
        """A session with these extensions, all of them ready."""
        session = self.ask("session/new", extensions=directories, discover_extensions=False, **params)[
            "session"
        ]
        ready = 0
        while ready < len(directories):
            ready += b'"state":"ready"' in self.until(b"ext_state")
        assert isinstance(session, dict)
        return str(session["session_id"])

    def end(self) -> None:
        self.process.communicate()


@contextmanager
def daemon(*flags: str) -> Iterator[Daemon]:
    running = Daemon(*flags)
    try:
        yield running
    finally:
        running.end()


def ten_bare() -> float:
    """Seconds for ten interpreters that import json and print a line, started together."""
    command = [PYTHON, "-c", "import json; print(json.dumps({}))"]
    began = time.perf_counter()
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=ENVIRONMENT["HOME"])
        for _ in range(TOGETHER)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline()
    took = time.perf_counter() - began
    for process in started:
        process.communicate()
    return took


def ten_ready(directories: list[str]) -> float:
    """Seconds from `session/new` to the last of ten extensions being ready, in a daemon that runs."""
    with daemon() as running:
        began = time.perf_counter()
        running.open(directories)
        return time.perf_counter() - began


def start_ratio() -> tuple[float, float]:
    """Median seconds of ten extensions and of ten bare interpreters, side by side."""
    with tempfile.TemporaryDirectory() as root:
        directories = install(Path(root), "ready", TOGETHER)
        pairs = [(ten_ready(directories), ten_bare()) for _ in range(STARTS + 1)][1:]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


class Bare:
    """Extensions at the end of plain pipes, asked one after the other by blocking writes and reads."""

    def __init__(self, directories: list[str]) -> None:
        names = [Path(directory).name for directory in directories]
        self._processes = [
            subprocess.Popen([PYTHON, PEER, name, "guard"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for name in names
        ]
        self.ask(b"")  # each says hello

    def ask(self, question: bytes = QUESTION) -> float:
        """Seconds until all have answered, in turn."""
        began = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None and process.stdout is not None
            os.write(process.stdin.fileno(), question)
            process.stdout.readline()
        return time.perf_counter() - began

    def end(self) -> None:
        for process in self._processes:
            process.communicate()


async def deciding(directories: list[str], home: Path) -> tuple[float, float]:
    """Median seconds that a tool call waits for its interceptors in a session, and that bare ones take."""
    limits = Limits()
    spec = SessionSpec(
        cwd=home,
        home=home,
        user_home=home,
        environ=ENVIRONMENT,
        provider="scripted",
        extensions=tuple(Path(directory) for directory in directories),
        discover_extensions=False,
    )
    call = ToolCall(id="1", name="read", args={"path": "none"})
    ours, theirs = [], []
    async with Independent() as tasks:
        sessions = Sessions(limits, tasks, Providers(limits))
        session = sessions.open(spec)
        await session.loaded()
        assert session.host is not None
        bare = Bare(directories)
        for _ in range(CALLS):
            began = time.perf_counter()
            await session.host.hooks.tool_call(call)
            ours.append(time.perf_counter() - began)
            theirs.append(bare.ask())
        bare.end()
        await sessions.close_all()
    return statistics.median(ours), statistics.median(theirs)


def interception(count: int) -> tuple[float, float]:
    """As `deciding`, for a number of interceptors, on the daemon's event loop."""
    with tempfile.TemporaryDirectory() as root:
        directories = install(Path(root), "guard", count)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(deciding(directories, Path(root)))


def note_latency() -> tuple[float, float]:
    """Median seconds from an extension's write to a client having parsed it, by zotd and by a plain relay."""
    with tempfile.TemporaryDirectory() as root, daemon() as running:
        directories = install(Path(root), "stamp", 1)
        session_id = running.open(directories)
        relay = subprocess.Popen(
            [PYTHON, RELAY, PYTHON, PEER, "stamp0", "stamp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert relay.stdin is not None and relay.stdout is not None
        relay.stdout.readline()
        ours, theirs = [], []
        for _ in range(NOTES):
            running.send("turn/start", session_id=session_id, text="/go-stamp0")
            event = json.loads(running.until(b'"method":"ext_notify"'))
            ours.append(time.monotonic_ns() - int(event["params"]["message"]))
            running.until(b'"method":"done"')
            os.write(relay.stdin.fileno(), b'{"type":"command_invoked","id":"1","name":"go","args":""}\n')
            note = json.loads(relay.stdout.readline())
            theirs.append(time.monotonic_ns() - int(note["message"]))
            relay.stdout.readline()
        relay.communicate()
    return statistics.median(ours) / 1e9, statistics.median(theirs) / 1e9


def notes_per_second() -> float:
    """Notes of a flood that reach a client that reads, every one of them; median of floods."""
    rates = []
    with tempfile.TemporaryDirectory() as root, daemon() as running:
        session_id = running.open(install(Path(root), "flood", 1))
        for _ in range(FLOODS):
            began = time.perf_counter()
            running.send("turn/start", session_id=session_id, text=f"/go-flood0 {FLOOD}")
            count = 0
            while b'"method":"done"' not in (line := running.line()):
                count += b'"method":"ext_notify"' in line
            rates.append(count / (time.perf_counter() - began))
            assert count == FLOOD, f"{count} notes of {FLOOD} arrived"
    return statistics.median(rates)
