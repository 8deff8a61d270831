"""A run with `--connect` is the run that it is without: the same output, words and exit code."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_exit_codes import CUT_SHORT, FAILING_COMMAND, FAILS, GATE, MORTAL, RIGHT, STEP, WRONG
from tests.clients import LONG, Frame, Machine, gone, judge_line, types
from tests.daemon.puppets import SOURCE, response, words
from tests.daemons import Shared

SLOW = {"reply": [{"text": "one two three four five six seven eight nine ten", "delay_ms": 5000}]}
STEPS = {"reply": [{"text": "one two three four five six", "delay_ms": 100}]}
BUSY = {"reply": [{"tool_call": {"name": "bash", "args": {"command": "echo up; exec sleep 300"}}}]}
ONCE = {**STEP, "times": 1}
SO_BE_IT = {"reply": [{"text": "so be it"}]}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
JUMP = {"reply": [{"tool_call": {"name": "jump", "args": {}}}], "times": 1}
LATER = {"type": "submit_slash", "text": words("pup", response("display", display="later"))}
ASKS = {"type": "submit_slash", "text": words("pup", response("prompt", prompt="and then"))}

SCRIPTS: dict[str, list[Frame]] = {
    "FAILS": [FAILS],
    "CUT": [CUT_SHORT],
    "STEP": [STEP],
    "REFUSED": [ONCE, SO_BE_IT],
    "REPAIRED": [WRONG, RIGHT],
    "MISSED": [WRONG, WRONG],
    "SLOW": [SLOW],
    "JUMP": [JUMP, SO_BE_IT],
}
EXTENSIONS = {
    "fails": FAILING_COMMAND,
    "gate": GATE.replace("STEP", "1"),
    "fence": GATE.replace("STEP", "0"),
    "mortal": MORTAL.replace("NAME", '"mortal"').replace("DECIDES", "[]"),
    "pup": SOURCE,
}
PLAIN = "--provider scripted"

RUNS: dict[str, tuple[str, int]] = {
    "an answer": (f"{PLAIN} hello there", 0),
    "an error of the provider": ("--script FAILS hello", 1),
    "an answer that is cut": ("--script CUT hello", 4),
    "too many steps": ("--script STEP --max-steps 2 go on", 4),
    "a blocked turn": (f"{PLAIN} --ext gate hello", 3),
    "a refused call": ("--script REFUSED --ext fence hello", 0),
    "a call that would be asked about": ("--script REFUSED --no-yolo hello", 3),
    "a command that fails": (f"{PLAIN} --ext fails /fail", 1),
    "an extension that dies": ("--script JUMP --ext mortal hello", 0),
    "a missing extension": (f"{PLAIN} --ext nowhere hello", 0),
    "an answer that is repaired": ("--script REPAIRED --output-schema number.json count", 0),
    "an answer that is not": ("--script MISSED --output-schema number.json count", 1),
    "no time": ("--script SLOW --timeout 0.4 hello", 124),
    "no credentials": ("hello", 5),
    "an unknown provider": ("--provider scriptd hello", 2),
    "an unknown tool": (f"{PLAIN} --tools saw hello", 2),
    "no script": (f"{PLAIN} --script gone.yaml hello", 2),
    "no prompt": (PLAIN, 2),
    "no folder": (f"{PLAIN} --cwd nowhere hello", 2),
    "an unknown session": (f"{PLAIN} --session abcd hello", 2),
    "nothing saved": (f"{PLAIN} --no-session --system-prompt short --no-tools --no-skill hello", 0),
}
AS_JSON = [
    "a blocked turn",
    "a refused call",
    "a call that would be asked about",
    "a command that fails",
    "an answer that is repaired",
    "no time",
]
"""Others differ in nothing that printing would not show."""


QUICK = (
    "an answer",
    "an error of the provider",
    "a refused call",
    "a call that would be asked about",
    "a command that fails",
    "an answer that is repaired",
    "no time",
    "no credentials",
    "an unknown tool",
    "an unknown session",
)
"""Those that differ most from each other."""


class Pair:
    """A daemon, and one machine for runs beside it and in it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.daemon, self.path = machine.listen(
            "--with-skills"
        )  # nothing that its runs would have by themselves
        (machine.cwd / "number.json").write_text(json.dumps(NUMBER))
        self._known = {name: machine.script(*entries) for name, entries in SCRIPTS.items()}
        self._extensions = {name: machine.extension(name, source) for name, source in EXTENSIONS.items()}

    def argv(self, line: str) -> list[str]:
        """The words of a line, with scripts and extensions under the names they have here."""
        said: list[str] = []
        for word in line.split():
            if word in self._known:
                said[-1:] = self._known[word]
            else:
                said.append(str(self._extensions.get(word, word)))
        return said

    def both(self, *argv: str) -> list[tuple[int, Any, str]]:
        """Exit code, output and errors of the same run here and there."""
        ways = [argv, (*argv, "--connect", str(self.path))]
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda way: seen(self.machine.run(*way, stdin=None)), ways))


def seen(done: subprocess.CompletedProcess[str]) -> tuple[int, Any, str]:
    """What a run did, without what differs from run to run."""
    assert "Traceback" not in done.stderr
    output: Any = done.stdout
    if output.startswith("{"):
        lines = [json.loads(line) for line in output.splitlines()]
        output = lines if "seq" in lines[0] else output
    if isinstance(output, list):
        ids: dict[str, str] = {}
        output = [plain(judge_line(line), ids) for line in output]
    return done.returncode, output, re.sub(r"\bpid \d+", "pid N", done.stderr)


def plain(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [plain(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: plain(item, ids) for key, item in value.items() if key not in ("time", "duration_ms")}
    for name in ("session_id", "turn_id"):
        if name in kept:
            kept[name] = ids.setdefault(kept[name], f"{name} {len(ids)}")
    return kept


def same(here: tuple[int, Any, str], there: tuple[int, Any, str]) -> None:
    """Fail at the first line that differs."""
    if isinstance(here[1], list) and isinstance(there[1], list):
        for line, other in zip(here[1], there[1], strict=False):
            assert other == line
    assert there == here


def chosen(names: list[str]) -> list[Any]:
    """A few of them, and the others for those who have the time."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    machine = Machine(tmp_path_factory.mktemp("pair"))
    yield Pair(machine)
    machine.clear_away()


@pytest.mark.parametrize("name", chosen(list(RUNS)))
def test_it_prints_the_same(pair: Pair, name: str) -> None:
    line, code = RUNS[name]
    here, there = pair.both("-p", *pair.argv(line))
    same(here, there)
    assert there[0] == code


@pytest.mark.parametrize("name", chosen(AS_JSON))
def test_it_has_the_same_events_in_their_order(pair: Pair, name: str) -> None:
    line, code = RUNS[name]
    here, there = pair.both("--json", *pair.argv(line))
    same(here, there)
    assert there[0] == code


def test_what_it_makes_extensions_do_is_waited_for_as_well(pair: Pair) -> None:
    text = words("pup", ASKS, response("prompt", prompt="first"))
    here, there = pair.both("-p", *pair.argv(f"{PLAIN} --ext pup"), text)
    assert there == here == (0, "You said: first\nYou said: and then\n", "")
    text = words("pup", LATER, response("display", display="now"))
    code, output, said = pair.both("-p", *pair.argv(f"{PLAIN} --ext pup"), text)[1]
    assert (code, sorted(output.splitlines()), said) == (0, ["later", "now"], "")


def test_it_is_saved_where_the_daemon_is_and_can_be_gone_on_with_from_either_side(pair: Pair) -> None:
    machine = pair.machine
    folder = machine.cwd / "empty"
    folder.mkdir()
    joined = ("--connect", str(pair.path), *PLAIN.split(), "--cwd", str(folder))
    begun = machine.run("-p", *joined, "-c", "one")
    assert begun.stderr == f"zotd: no session of {folder} is saved: a new one begins\n"
    for way in (joined, joined[2:], joined):
        events, result, code = machine.json(*way, "-c", "again")
        assert (code, result["ok"]) == (0, True), result
        (said,) = [event for event in events if event["type"] == "user_message"]
        assert said["message_id"] > 1
    path = folder / "mine.jsonl"
    assert machine.run("-p", *joined, "--session", str(path), "two").returncode == 0
    assert "two" in path.read_text()


def test_input_that_is_piped_in_is_part_of_the_prompt(pair: Pair) -> None:
    done = pair.machine.run("-p", *PLAIN.split(), "--connect", pair.path, "look at", stdin=b"this\n")
    assert (done.returncode, done.stdout) == (0, "You said: look at\n\nthis\n")


def sessions(pair: Pair) -> list[str]:
    """Ids of the sessions that the daemon has open."""
    client = pair.machine.connect(pair.path).greet()
    status = client.call("daemon/status")
    client.hang_up()
    return [each["session_id"] for each in status["sessions"]]


def test_an_interruption_ends_the_turn_and_the_session_and_exits_130(pair: Pair) -> None:
    run = pair.machine.start("--json", *pair.argv("--script SLOW"), "--connect", pair.path, "hello")
    run.hang_up()
    begun = run.until("text_delta")
    run.signal(signal.SIGINT)
    frames = run.rest()
    assert types(frames)[:3] == ["assistant_message", "turn_end", "done"]
    assert (frames[-1]["ok"], frames[-1]["stop"], frames[-1]["error"]) == (False, "aborted", "interrupted")
    assert run.exit_code() == 130
    assert begun[0]["session_id"] not in sessions(pair)


def test_an_interrupted_command_of_a_shell_is_gone(pair: Pair) -> None:
    script = pair.machine.script(BUSY)
    run = pair.machine.start("--json", *script, "--connect", pair.path, "hello")
    run.hang_up()
    run.until("tool_progress")
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 130
    assert not any("sleep 300" in line for line in pair.machine.left_running())


def test_a_session_that_somebody_else_sees_is_left_to_them(pair: Pair) -> None:
    machine = pair.machine
    script = machine.script(STEPS)
    run = machine.start("--json", *script, "--connect", pair.path, "hello")
    run.hang_up()
    session_id = run.until("text_delta")[0]["session_id"]
    client = machine.connect(pair.path).greet()
    client.call("session/attach", session_id=session_id)
    assert types(run.rest())[-1] == "result"
    assert run.exit_code() == 0
    assert session_id in sessions(pair)
    client.call("session/state", session_id=session_id)
    joined = machine.run("-p", *PLAIN.split(), "--connect", pair.path, "--session", session_id[:8], "more")
    assert (joined.returncode, joined.stderr) == (0, "")
    assert client.event("done")["session_id"] == session_id
    assert session_id in sessions(pair)
    client.call("session/close", session_id=session_id)
    client.hang_up()


def test_an_interruption_leaves_the_turn_of_another_client_alone(pair: Pair) -> None:
    machine = pair.machine
    client = machine.connect(pair.path).greet()
    *_, path = machine.script(SLOW)
    argv = ["--provider", "scripted", "--script", path, "--connect", str(pair.path)]
    argv += ["--session", str(machine.cwd / "shared.jsonl")]
    first = machine.start("--json", *argv, "mine")
    first.hang_up()
    session_id = first.until("text_delta")[0]["session_id"]
    second = machine.start("--json", *argv, "theirs")
    second.hang_up()
    second.until("queue")
    second.signal(signal.SIGINT)
    assert second.exit_code() == 130
    assert client.call("session/attach", session_id=session_id)["session"]["busy"]
    first.signal(signal.SIGINT)
    assert first.exit_code() == 130
    client.call("session/close", session_id=session_id)
    client.hang_up()


def test_a_turn_that_is_aborted_elsewhere_does_not_end_the_run_in_silence(pair: Pair) -> None:
    run = pair.machine.start("--json", *pair.argv("--script SLOW"), "--connect", pair.path, "hello")
    run.hang_up()
    session_id = run.until("text_delta")[0]["session_id"]
    client = pair.machine.connect(pair.path).greet()
    client.call("turn/abort", session_id=session_id)
    client.hang_up()
    result = run.rest()[-1]
    assert (run.exit_code(), result["ok"], result["stop"]) == (1, False, "aborted")
    assert (
        result["error"]
        == "the turn was aborted from elsewhere: by another client, or as the daemon was stopped"
    )


def test_two_at_once_have_sessions_of_their_own(pair: Pair) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(pair.machine.json, *pair.argv(PLAIN), "--connect", str(pair.path), word)
            for word in ("one", "two")
        ]
        results = [run.result() for run in runs]
    assert [(result["text"], code) for _, result, code in results] == [
        ("You said: one", 0),
        ("You said: two", 0),
    ]
    for events, result, _ in results:
        assert {event["session_id"] for event in events} == {result["session_id"]}
    assert results[0][1]["session_id"] != results[1][1]["session_id"]


def wait_for(pair: Pair, event: Frame) -> None:
    """Until the turn of an event is over in the daemon."""
    client = pair.machine.connect(pair.path).greet()
    client.call("turn/wait", session_id=event["session_id"], turn_id=event["turn_id"])
    client.hang_up()


def test_a_reader_that_is_slow_gets_every_event_of_a_long_answer(pair: Pair) -> None:
    text = " ".join(f"word{n}" for n in range(20_000))
    script = pair.machine.script({"reply": [{"text": text}]})
    with subprocess.Popen(
        [pair.machine.program, "--json", *script, "--connect", pair.path, "hello"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=pair.machine.env,
        cwd=pair.machine.cwd,
    ) as run:
        assert run.stdout is not None
        first = run.stdout.readline()
        try:
            wait_for(pair, json.loads(first))  # from then on it is the reader alone who is waited for
        except BaseException:
            run.kill()
            raise
        lines = [json.loads(line) for line in (first, *run.stdout)]
        assert run.wait(LONG) == 0
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert "".join(line["delta"] for line in lines if line["type"] == "text_delta") == text
    assert lines[-1]["text"] == text


def test_a_reader_that_leaves_ends_the_run_quietly(pair: Pair) -> None:
    run = pair.machine.start("--json", *pair.argv("--script SLOW"), "--connect", pair.path, "hello")
    run.hang_up()
    session_id = run.until("text_delta")[0]["session_id"]
    run.break_off()
    assert run.exit_code() == 1
    assert run.stderr == ""
    assert session_id not in sessions(pair)


KEY = "sk-planted-0123456789abcdef"


def test_a_key_on_its_command_line_is_nowhere_in_the_daemon(machine: Machine) -> None:
    log = machine.root / "stderr-0"
    daemon, path = machine.listen("--with-skills")
    script = machine.script(BUSY)
    run = machine.start("--json", *script, "--api-key", KEY, "--connect", path, "hello")
    run.hang_up()
    seen = run.until("tool_progress")
    others = [entry for entry in Path("/proc").glob("[0-9]*") if entry.name != str(run.popen.pid)]
    for entry in others:
        for name in ("cmdline", "environ"):
            try:
                assert KEY.encode() not in (entry / name).read_bytes(), entry
            except OSError:
                continue
    run.signal(signal.SIGINT)
    frames = [*seen, *run.rest()]
    assert run.exit_code() == 130
    assert KEY not in json.dumps(frames)
    daemon.signal(signal.SIGTERM)
    assert daemon.exit_code() == 0
    assert KEY not in log.read_text()
    kept = [file for file in machine.home.rglob("*") if file.is_file()]
    assert any(file.suffix == ".jsonl" for file in kept)
    assert not [file for file in kept if KEY.encode() in file.read_bytes()]


def test_a_daemon_that_is_killed_in_the_middle_is_told_of_and_the_rest_can_be_gone_on_with(
    machine: Machine,
) -> None:
    daemon, path = machine.listen("--with-skills")
    run = machine.start("--json", *machine.script(SLOW), "--connect", path, "hello")
    run.hang_up()
    session_id = run.until("text_delta")[0]["session_id"]
    daemon.signal(signal.SIGKILL)
    assert run.exit_code() == 1
    *_, result = run.rest()
    assert (result["type"], result["ok"]) == ("result", False)
    assert "the daemon is gone in the middle of the run" in result["error"]
    assert f"zotd --session {session_id[:8]} goes on with what is saved of it" in result["error"]
    again = machine.run("-p", *PLAIN.split(), "--session", session_id[:8], "and now")
    assert (again.returncode, again.stdout) == (0, "You said: and now\n")


def test_nobody_there_is_one_line_that_says_so(machine: Machine) -> None:
    done = machine.run("-p", *PLAIN.split(), "--connect", machine.root / "gone.sock", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"zotd: {machine.root}/gone.sock: there is no socket")
    assert done.stderr.count("\n") == 1


def test_a_token_of_the_daemon_comes_from_the_environment(machine: Machine) -> None:
    token = {"ZOTD_TOKEN": "sesame"}
    _, path = machine.listen("--with-skills", env=token)
    argv = ["-p", *PLAIN.split(), "--connect", str(path), "hello"]
    assert machine.run(*argv, env=token).stdout == "You said: hello\n"
    strange = machine.run(*argv)
    assert (strange.returncode, strange.stdout) == (2, "")
    assert "invalid token" in strange.stderr
    assert "ZOTD_TOKEN" in strange.stderr


class Wire:
    """A socket in front of a daemon's, whose connections can be cut."""

    def __init__(self, path: Path, daemon: Path) -> None:
        self._daemon = daemon
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._ends: list[socket.socket] = []
        self.calls = 0
        self.heard = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            callee = socket.socket(socket.AF_UNIX)
            callee.connect(str(self._daemon))
            self.calls += 1
            self._ends += [caller, callee]
            for one, other in ((caller, callee), (callee, caller)):
                threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()


@pytest.fixture
def wire(pair: Pair, tmp_path: Path) -> Iterator[tuple[Wire, Path]]:
    path = tmp_path / "wire.sock"
    made = Wire(path, pair.path)
    yield made, path
    made.close()


def test_a_connection_that_breaks_is_made_anew_without_a_gap_and_without_a_double(
    pair: Pair, wire: tuple[Wire, Path]
) -> None:
    link, path = wire
    run = pair.machine.start("--json", *pair.machine.script(STEPS), "--connect", path, "hello")
    run.hang_up()
    seen = run.until("text_delta")
    link.cut()
    frames = [*seen, *run.rest()]
    assert run.exit_code() == 0, run.stderr
    assert link.calls == 2
    assert [frame["seq"] for frame in frames[:-1]] == list(range(1, len(frames)))
    assert frames[-1]["text"] == "one two three four five six"


def test_a_connection_that_breaks_again_ends_it(pair: Pair, wire: tuple[Wire, Path]) -> None:
    link, path = wire
    run = pair.machine.start("--json", *pair.machine.script(STEPS), "--connect", path, "hello")
    run.hang_up()
    for _ in range(2):
        run.until("text_delta")
        link.cut()
    *_, result = run.rest()
    assert (run.exit_code(), result["ok"]) == (1, False)
    assert "the daemon is gone in the middle of the run (it hung up)" in result["error"]


def test_the_users_daemon_is_started_and_joined_and_has_nothing_open_afterwards(shared: Shared) -> None:
    argv = ("-p", *PLAIN.split(), "--connect", "auto")
    for word in ("one", "two"):
        done = shared.machine.run(*argv, word, stdin=None)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"You said: {word}\n", "")
    assert len(shared.running()) == 1
    assert shared.status()["sessions"] == []


def test_a_turn_is_finished_in_a_daemon_that_drains(shared: Shared) -> None:
    script = shared.machine.script(STEPS)
    run = shared.machine.start("--json", *script, "--connect", "auto", "hello")
    run.hang_up()
    run.until("text_delta")
    pid = shared.status()["pid"]
    assert shared.daemon("stop", "--drain").returncode == 0
    *_, result = run.rest()
    assert (run.exit_code(), result["text"]) == (0, "one two three four five six")
    assert gone(pid)


@pytest.mark.long
def test_a_daemon_that_stands_still_holds_no_run_up_beyond_its_time(machine: Machine) -> None:
    daemon, path = machine.listen("--with-skills")
    argv = [*machine.script(SLOW), "--timeout", "2", "--connect", str(path)]
    run = machine.start("--json", *argv, "hello")
    run.hang_up()
    run.until("text_delta")
    daemon.signal(signal.SIGSTOP)
    try:
        *_, result = run.rest()
        assert (run.exit_code(), result["stop"]) == (124, "aborted")
        late = machine.run("-p", *argv, "hello", stdin=None)
        assert (late.returncode, late.stdout) == (1, "")
        assert "did not answer within" in late.stderr
    finally:
        daemon.signal(signal.SIGCONT)


MUTE = """
import sys
print('{"type":"hello","name":"mute","version":"1"}', flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["here", "there"])
def test_an_interruption_while_extensions_load_asks_no_model(pair: Pair, tmp_path: Path, way: str) -> None:
    (tmp_path / "main.py").write_text(MUTE)
    manifest = {"name": "mute", "version": "1", "exec": sys.executable, "args": ["main.py"]}
    (tmp_path / "extension.json").write_text(json.dumps(manifest))
    joined = ["--connect", str(pair.path)] if way == "there" else []
    run = pair.machine.start("--json", *pair.argv(PLAIN), "--ext", tmp_path, *joined, "hello")
    run.hang_up()
    run.until("ext_state")
    run.signal(signal.SIGINT)
    frames = run.rest()
    assert run.exit_code() == 130
    assert "turn_start" not in types(frames)
    assert (frames[-1]["stop"], frames[-1]["error"]) == ("aborted", "interrupted")


class Ending:
    """A daemon's socket on which the first callers meet one that ends: what they ask for is refused."""

    def __init__(self, path: Path, daemon: Path, refuses: str, *, times: int) -> None:
        """refuses: the method that it does not do any more; "" to hang up behind the preface."""
        self._daemon, self._refuses, self._times = daemon, refuses, times
        self.asked: list[str] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listening.accept()
                callee = socket.socket(socket.AF_UNIX)
                callee.connect(str(self._daemon))
                ends, self._times = self._times > 0, self._times - 1
                back = threading.Thread(target=self._copy, args=(callee, caller), daemon=True)
                with caller, callee, caller.makefile("rb") as lines, suppress(OSError):
                    callee.sendall(lines.readline())
                    if ends and not self._refuses:
                        caller.sendall(callee.recv(1 << 16))
                        continue
                    back.start()
                    for line in lines:
                        self._pass(json.loads(line), line, caller, callee, ends=ends)
                    callee.shutdown(socket.SHUT_WR)
                    back.join()

    def _pass(
        self, frame: Frame, line: bytes, caller: socket.socket, callee: socket.socket, *, ends: bool
    ) -> None:
        self.asked.append(frame["method"])
        if not ends or frame["method"] != self._refuses:
            callee.sendall(line)
            return
        error = {"code": -32000, "message": "it ends", "data": {"kind": "draining", "hint": "again"}}
        caller.sendall(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "error": error}).encode() + b"\n")

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.mark.parametrize("refuses", ["", "session/new", "turn/start"])
def test_a_run_that_meets_a_daemon_which_ends_goes_to_the_next_one(
    pair: Pair, tmp_path: Path, refuses: str
) -> None:
    saved = pair.machine.run("--json", *PLAIN.split(), "--connect", str(pair.path), "first")
    session_id = json.loads(saved.stdout.splitlines()[-1])["session_id"]
    path = tmp_path / "ending.sock"
    ending = Ending(path, pair.path, refuses, times=2)
    argv = ("-p", *PLAIN.split(), "--session", session_id, "--connect", str(path), "hello")
    done = pair.machine.run(*argv, stdin=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hello\n", "")
    assert ending.asked.count("turn/start") == (3 if refuses == "turn/start" else 1)
    ending.close()


def test_a_run_that_meets_nothing_but_daemons_which_end_says_so(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "ending.sock"
    ending = Ending(path, pair.path, "turn/start", times=100)
    done = pair.machine.run("-p", *PLAIN.split(), "--connect", str(path), "hello", stdin=None)
    assert (done.returncode, done.stdout) == (1, "")
    assert "it ends" in done.stderr
    assert ending.asked.count("turn/start") == 5
    ending.close()
