"""What a conversation costs over a socket: the first delta, a turn with a tool, a flood, many, a long one.

The scripted model takes next to no time, so that what is measured is what zotd adds to a model.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.ways import PYTHON, ROOT, ZOTD, clean_environment

ENVIRONMENT = clean_environment()
FLOOR = str(ROOT / "bench" / "floor_socket.py")
USAGE = {"input": 10, "output": 5}
"""Stated, for else the scripted model counts the words of the whole conversation."""
TURNS = 300
FLOODS, DELTAS = 5, 200_000
SESSIONS = 200
LENGTHS = (10, 1_000, 10_000)
ROUNDS = 15
PER_ROUND = 10
MIB = 1 << 20
DELTA, END = b'"method":"text_delta"', b'"method":"done"'
Answer = dict[str, Any]


class Client:
    """One end of a Unix socket; it reads a MiB at a time and parses only what it was asked for."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._unread = b""

    def write(self, frame: Answer) -> None:
        self._socket.sendall(json.dumps(frame).encode() + b"\n")

    def until(self, mark: bytes) -> bytes:
        """The next line that holds `mark`; what comes before it is dropped."""
        while True:
            line, end, rest = self._unread.partition(b"\n")
            if not end:
                self._unread += self._more()
            else:
                self._unread = rest
                if mark in line:
                    return line

    def count(self, mark: bytes) -> int:
        """How many lines come up to the one that holds `mark`, after which nothing comes by itself."""
        lines, tail = self._unread.count(b"\n"), self._unread
        while mark not in tail or not tail.endswith(b"\n"):
            data = self._more()
            lines += data.count(b"\n")
            tail = (tail + data)[-1024:]
        self._unread = b""
        return lines

    def _more(self) -> bytes:
        data = self._socket.recv(MIB)
        assert data, "the other end hung up"
        return data

    def close(self) -> None:
        self._socket.close()


class Rpc(Client):
    """A client that speaks JSON-RPC with zotd on `path`. pid: of zotd, for what its process costs."""

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(path)
        self.path = path
        self.pid = pid
        self.ask("initialize", protocol_version=1, client={"name": "bench", "version": "1"})

    def begin(self, method: str, **params: object) -> None:
        self.write({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def ask(self, method: str, **params: object) -> Answer:
        self.begin(method, **params)
        reply = json.loads(self.until(b'"id":1'))
        assert "result" in reply, reply
        result: Answer = reply["result"]
        return result

    def open(self, **params: object) -> str:
        opened = self.ask("session/new", discover_extensions=False, **params)
        return str(opened["session"]["session_id"])

    def turn(self, session_id: str, text: str, mark: bytes = END) -> float:
        """Seconds from the prompt to the line that holds `mark`; then it is read to its end."""
        began = time.perf_counter()
        self.begin("turn/start", session_id=session_id, text=text)
        self.until(mark)
        took = time.perf_counter() - began
        if mark != END:
            self.until(END)
        return took

    def cpu(self) -> float:
        """Seconds that zotd has computed so far, in all its threads. Linux names a process's clock so."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def resident(self) -> int:
        """Bytes of memory that zotd has."""
        rows = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return int(rows["VmRSS"].split()[0]) * 1024


@contextmanager
def listening(directory: Path, command: list[str]) -> Iterator[tuple[Path, int]]:
    """A program that listens on the socket whose path is its last argument; path and process id."""
    path = directory / f"{uuid.uuid4().hex[:8]}.sock"
    process = subprocess.Popen(
        [*command[:-1], command[-1].format(path)],
        env={**ENVIRONMENT, "ZOT_HOME": str(directory / "home")},
        cwd=directory,
        stdin=subprocess.DEVNULL,
    )
    try:
        while not _answers(path):
            assert process.poll() is None, f"{command} ended"
            time.sleep(0.01)
        yield path, process.pid
    finally:
        process.terminate()
        process.wait()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def daemon(directory: Path, script: list[Answer], words: tuple[str, ...] = ("rpc",)) -> Iterator[Rpc]:
    file = directory / f"{uuid.uuid4().hex[:8]}.json"
    file.write_text(json.dumps(script))
    command = [ZOTD, *words, "--provider", "scripted", "--script", str(file), "--listen", "unix:{}"]
    with listening(directory, command) as (path, pid):
        client = Rpc(path, pid)
        yield client
        client.close()


@contextmanager
def bare(directory: Path) -> Iterator[Client]:
    with listening(directory, [PYTHON, FLOOR, "{}"]) as (path, _):
        client = Client(path)
        yield client
        client.close()


@contextmanager
def beside(script: list[Answer]) -> Iterator[tuple[Rpc, Client]]:
    """A zotd and the floor, each with one client."""
    with tempfile.TemporaryDirectory() as root, ExitStack() as stack:
        directory = Path(root)
        (directory / "small.txt").write_text("one line\n")
        yield stack.enter_context(daemon(directory, script)), stack.enter_context(bare(directory))


def says(text: str, **more: object) -> Answer:
    return {"times": 0, "usage": USAGE, "reply": [{"text": text}], **more}


def calling(name: str, args: Answer) -> list[Answer]:
    """A script of turns with one call each."""
    call = {"usage": USAGE, "reply": [{"tool_call": {"name": name, "args": args}}]}
    words = {"usage": USAGE, "reply": [{"text": "done"}]}
    return [call, words] * (TURNS + 1)


def first_delta() -> tuple[float, float]:
    """Median seconds from a prompt to the first delta, and of one frame back from the floor."""
    with beside([says("two words")]) as (zotd, floor):
        session_id = zotd.open()
        pairs = [
            (zotd.turn(session_id, "hi", b'"method":"text_delta"'), one_frame(floor)) for _ in range(TURNS)
        ]
    return _medians(pairs)


def one_tool() -> tuple[float, float]:
    """Median seconds of a saved session's turn in which a file of one line is read, and of one frame."""
    with beside(calling("read", {"path": "small.txt"})) as (zotd, floor):
        session_id = zotd.open()
        zotd.turn(session_id, "once")
        pairs = [(zotd.turn(session_id, "again"), one_frame(floor)) for _ in range(TURNS)]
    return _medians(pairs)


def one_command() -> tuple[float, float]:
    """As `one_tool`, of the shell command `true`, beside the same command started from here."""
    with beside(calling("bash", {"command": "true"})) as (zotd, _):
        session_id = zotd.open()
        zotd.turn(session_id, "once")
        pairs = [(zotd.turn(session_id, "again"), _bare_command()) for _ in range(TURNS)]
    return _medians(pairs)


def _bare_command() -> float:
    began = time.perf_counter()
    subprocess.run(["bash", "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - began


def one_frame(floor: Client) -> float:
    began = time.perf_counter()
    floor.write({"frames": 1})
    floor.until(DELTA)
    return time.perf_counter() - began


def deltas_per_second() -> tuple[float, float]:
    """Deltas that reach one client in a second, every one of them, and what the floor sends; medians."""
    with beside([says("word " * DELTAS)]) as (zotd, floor):
        session_id = zotd.open()
        pairs = [(_zotd_flood(zotd, session_id), _bare_flood(floor)) for _ in range(FLOODS)]
    return _medians(pairs)


def _zotd_flood(zotd: Rpc, session_id: str) -> float:
    began = time.perf_counter()
    zotd.begin("turn/start", session_id=session_id, text="go")
    lines = zotd.count(END)
    took = time.perf_counter() - began
    assert DELTAS <= lines < DELTAS + 20, f"{lines} lines for {DELTAS} deltas"
    return DELTAS / took


def _bare_flood(floor: Client) -> float:
    began = time.perf_counter()
    floor.write({"frames": DELTAS})
    lines = 0
    while lines < DELTAS:
        lines += floor._more().count(b"\n")
    return DELTAS / (time.perf_counter() - began)


def bytes_per_session(*, ephemeral: bool) -> float:
    """Memory that one more session takes, each after one turn."""
    with tempfile.TemporaryDirectory() as root, daemon(Path(root), [says("hello")]) as zotd:

        def open_some(count: int) -> int:
            for _ in range(count):
                zotd.turn(zotd.open(ephemeral=ephemeral), "hi")
            return zotd.resident()

        before = open_some(20)
        return (open_some(SESSIONS) - before) / SESSIONS


def idle_bytes() -> tuple[int, int]:
    """Memory of a user's daemon and of what starts its programs, after one session with a command."""
    script, words = calling("bash", {"command": "true"}), ("daemon", "run", "--log-level", "error")
    with tempfile.TemporaryDirectory() as root, daemon(Path(root), script, words) as zotd:
        session_id = zotd.open()
        zotd.turn(session_id, "hi")
        zotd.ask("session/close", session_id=session_id)
        memory = zotd.ask("daemon/status")["memory"]
        return memory["resident_bytes"], memory["keeper_bytes"]


def history(directory: Path, messages: int) -> Path:
    """A saved session of so many messages."""
    path = directory / f"{messages}.jsonl"
    time_ = "2026-11-30T03:43:15.576Z"
    meta = {"id": str(uuid.uuid4()), "cwd": str(directory), "provider": "scripted", "model": "scripted"}
    rows: list[Answer] = [{"type": "meta", "meta": {**meta, "started": time_}}]
    for number in range(messages):
        text = f"message {number} of a conversation that has gone on for a while"
        message = {"role": ("user", "assistant")[number % 2], "content": [{"text": text}], "time": time_}
        rows.append({"type": "message", "message": message})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def by_length() -> dict[str, list[tuple[float, float]]]:
    """Median seconds on the clock and of computing in zotd, of each operation, for each length of history.

    Each length has a process of its own; they take turns.
    """
    found: dict[str, list[list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory() as root, ExitStack() as stack:
        directory = Path(root)
        daemons = []
        for length in LENGTHS:
            zotd = stack.enter_context(daemon(directory, [says("hello")]))
            loaded = zotd.ask("session/load", path=str(history(directory, length)))
            daemons.append((zotd, str(loaded["session"]["session_id"])))
        for _ in range(ROUNDS + 1):
            for at, (zotd, session_id) in enumerate(daemons):
                for name, act in _operations(zotd, session_id).items():
                    per_length = found.setdefault(name, [[] for _ in LENGTHS])
                    per_length[at].append(_both(zotd, act))
    return {name: [_medians(pairs[1:]) for pairs in lengths] for name, lengths in found.items()}


def _operations(zotd: Rpc, session_id: str) -> dict[str, Callable[[], object]]:
    return {
        "a turn": lambda: zotd.turn(session_id, "hi"),
        "session/state": lambda: zotd.ask("session/state", session_id=session_id),
        "session/attach": lambda: zotd.ask("session/attach", session_id=session_id),
    }


def _both(zotd: Rpc, act: Callable[[], object]) -> tuple[float, float]:
    began, computed = time.perf_counter(), zotd.cpu()
    for _ in range(PER_ROUND):
        act()
    return (time.perf_counter() - began) / PER_ROUND, (zotd.cpu() - computed) / PER_ROUND


def _medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    ours, theirs = zip(*pairs, strict=True)
    return statistics.median(ours), statistics.median(theirs)
