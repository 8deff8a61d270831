"""What extensions cost: ten that start, interceptors, the way of a note, a flood of notes."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.ways import PYTHON, ROOT, ZOTD, clean_environment

ENVIRONMENT = clean_environment()
PEER = str(ROOT / "bench" / "peer.py")
TOGETHER = 10
STARTS = 15
CALLS, CALL_RUNS = 200, 15
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

    def turn(self, session_id: str, text: str) -> None:
        self.send("turn/start", session_id=session_id, text=text)
        self.until(b'"method":"done"')

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


def interception() -> list[float]:
    """Median seconds that 1 and 5 interceptors add to a call of an extension's tool."""
    counts = (0, 1, 5)
    with tempfile.TemporaryDirectory() as root:
        directories = install(Path(root), "guard", max(counts))
        tool = install(Path(root), "tool", 1)
        calls = [{"tool_call": {"name": "echo", "args": {"path": "none"}}}] * CALLS
        script = Path(root) / "calls.json"
        script.write_text(json.dumps([{"times": 0, "reply": calls}]))
        with daemon("--script", str(script)) as running:
            sessions = [
                running.open([*tool, *directories[:count]], max_steps=1, tools=[]) for count in counts
            ]
            samples: list[list[float]] = [[] for _ in counts]
            for _ in range(CALL_RUNS + 1):
                for session_id, column in zip(sessions, samples, strict=True):
                    began = time.perf_counter()
                    running.turn(session_id, "go")
                    column.append(time.perf_counter() - began)
    none, *some = (statistics.median(column[1:]) for column in samples)
    return [(took - none) / CALLS for took in some]


def note_latency() -> float:
    """Median seconds from an extension's write to the client having parsed the event."""
    with tempfile.TemporaryDirectory() as root, daemon() as running:
        session_id = running.open(install(Path(root), "stamp", 1))
        waits = []
        for _ in range(NOTES):
            running.send("turn/start", session_id=session_id, text="/go-stamp0")
            event = json.loads(running.until(b'"method":"ext_notify"'))
            waits.append(time.monotonic_ns() - int(event["params"]["message"]))
            running.until(b'"method":"done"')
        return statistics.median(waits) / 1e9


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
