"""A daemon without descriptors or processes, or that somebody has stopped: it says so, and goes on."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children import descendants
from tests.clients import LONG, Client, Frame, Machine, Process, gone
from tests.daemons import Shared
from zotd.base.limits import Limits

EXTENSION = """
import json, sys
print(json.dumps({"type": "hello", "name": "plain", "version": "1"}), flush=True)
print(json.dumps({"type": "ready"}), flush=True)
for line in sys.stdin:
    pass
"""
CALLS = [
    {"tool_call": {"name": "bash", "args": {"command": "echo from the shell"}}},
    {"tool_call": {"name": "read", "args": {"path": "a.txt"}}},
]
SCRIPT: list[Frame] = [
    {"match": "^tool", "times": 0, "reply": CALLS},
    {"match": "^bash", "times": 0, "reply": CALLS[:1]},
    {
        "match": "^write",
        "times": 0,
        "reply": [{"tool_call": {"name": "write", "args": {"path": "b.txt", "content": "bb"}}}],
    },
    {"match": "^slow", "times": 0, "reply": [{"text": "one two three four", "delay_ms": 100}]},
    {"times": 0, "reply": [{"text": "ok"}]},
]
# The model sees the same last text after a tool: each turn with a tool ends at the limit of its steps.
ONE_STEP = ("--max-steps", "1")


def daemon(shared: Shared, *argv: str) -> tuple[Process, Client]:
    process = shared.machine.start("daemon", "run", *shared.machine.script(*SCRIPT), *ONE_STEP, *argv)
    shared.machine.appears(shared.socket, process)
    return process, shared.machine.connect(shared.socket).greet()


def turn(client: Client, session: str, text: str) -> list[str]:
    """What the tools of a turn answered; of one without tools, its text."""
    client.events.clear()
    accepted = client.call("turn/start", session_id=session, text=text)
    ended = client.call("turn/wait", session_id=session, turn_id=accepted["turn_id"])
    results = [event for event in client.events if event["type"] == "tool_result"]
    return [event["content"][0]["text"] for event in results] or [ended["text"]]


def stops(process: Process) -> None:
    """Fail unless SIGTERM ends a daemon in time, and with it all that it has started."""
    below = descendants(process.popen.pid)
    began = time.monotonic()
    process.signal(signal.SIGTERM)
    assert process.exit_code() == 0
    assert time.monotonic() - began < Limits().drain_s
    assert [pid for pid in below if not gone(pid, 2)] == []
    assert "Traceback" not in process.stderr
    assert "mistake of ours" not in process.stderr


# Descriptors


def only(process: Process, spare: int) -> None:
    """Leave a process so many descriptors more than it has open."""
    pid = process.popen.pid
    opened = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    free = (number for number in range(len(opened) + spare + 1) if number not in opened)
    most = [next(free) for _ in range(spare + 1)][-1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))


def plenty(process: Process) -> None:
    resource.prlimit(process.popen.pid, resource.RLIMIT_NOFILE, (1024, 1024))


def cpu_s(process: Process) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("used", ["never", "before"])
def test_without_descriptors_work_fails_in_words_and_goes_on_with_them(shared: Shared, used: str) -> None:
    machine = shared.machine
    (machine.cwd / "a.txt").write_text("what a.txt has\n")
    plain = machine.extension("plain", EXTENSION)
    process, client = daemon(shared, "--log", "auto")
    session = client.session(cwd=str(machine.cwd))
    assert turn(client, session, "hello") == ["ok"]
    if used == "before":
        assert "from the shell" in turn(client, session, "tool")[0]
    for spare in (0, 1, 2, 4, 6):
        only(process, spare)
        assert turn(client, session, "hello") == ["ok"]
        shell, read = turn(client, session, "tool")
        assert "from the shell" in shell or "ulimit -n" in shell, shell
        assert "what a.txt has" in read or "Too many open files" in read, read
        for method, params in (
            ("session/new", {"cwd": str(machine.cwd), "extensions": [str(plain)], "ephemeral": True}),
            ("session/export", {"session_id": session, "format": "html"}),
            ("session/fork", {"session_id": session, "message_id": 1}),
            ("workspace/trust", {"cwd": str(machine.cwd), "trusted": True}),
            ("daemon/status", {}),
            ("session/list", {}),
            ("theme/list", {}),
            ("skill/list", {}),
        ):
            reply = client.reply(client.request(method, **params))
            problem = reply.get("error", {"data": {"kind": "none"}})
            assert problem["data"]["kind"] != "internal", (method, spare)
            if "error" in reply:
                assert "descriptors" in str(problem) or "Too many open files" in str(problem), problem
        for event in client.events:
            if event["type"] == "ext_state" and event["state"] == "failed":
                assert "ulimit -n" in event["error"]
    only(process, 0)
    waiting = machine.connect(shared.socket)
    before = cpu_s(process)
    assert not gone(process.popen.pid, 1.0)
    assert cpu_s(process) - before < 0.3
    plenty(process)
    assert waiting.raw()["error"]["code"] == -32001
    later = machine.connect(shared.socket).greet()
    fresh = later.session(cwd=str(machine.cwd), extensions=[str(plain)])
    assert later.event("ext_registered")["extension"] == "plain"
    for each, owner in ((session, client), (fresh, later)):
        shell, read = turn(owner, each, "tool")
        assert "from the shell" in shell
        assert "what a.txt has" in read
    only(process, 0)
    if used == "never":
        stops(process)
        return
    for _ in range(5):  # whether it hangs up before or after it is spoken to
        drained = shared.daemon("stop", "--drain")  # it cannot be told that, and is not to abort its turns
        assert drained.returncode == 1
        assert "no file descriptors left" in drained.stderr
    assert shared.daemon("stop").stdout == f"stopped: process {process.popen.pid}\n"
    assert process.exit_code() == 0


# Processes


LODGER = 54_321
"""A uid that nobody else has: the system counts processes by it, and never refuses root one."""
CAPABILITIES = "+dac_override,+dac_read_search"
"""What somebody needs who is to run what only root may read."""


@pytest.fixture
def open_machine() -> Iterator[Machine]:
    """A machine in a place that everybody may look into: pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="zd-") as root:
        Path(root).chmod(0o755)
        machine = Machine(Path(root))
        try:
            yield machine
        finally:
            machine.clear_away()


def lodge(machine: Machine) -> list[str]:
    """Have the programs of a machine run as somebody who is not root; words before a command of theirs."""
    if os.geteuid() != 0:
        return []
    become = ["setpriv", f"--reuid={LODGER}", f"--regid={LODGER}", "--clear-groups"]
    may = [f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}"]
    for path in (machine.root, machine.home, machine.cwd):
        os.chown(path, LODGER, LODGER)
    program = machine.root / "lodged"
    program.write_text(f'#!/bin/sh\nexec {" ".join((*become, *may))} "{machine.program}" "$@"\n')
    program.chmod(0o755)
    machine.program = program
    return become


def processes(become: list[str], process: Process, most: int) -> None:
    """Bound the processes and threads that a process and all below it may add to those of their user."""
    for pid in (process.popen.pid, *descendants(process.popen.pid)):
        subprocess.run([*become, "prlimit", f"--pid={pid}", f"--nproc={most}:"], check=True, timeout=LONG)


@pytest.mark.parametrize("used", ["never", "before"])
def test_without_processes_and_threads_work_fails_in_words_and_goes_on_with_them(
    open_machine: Machine, used: str
) -> None:
    machine = open_machine
    become = lodge(machine)
    (machine.cwd / "a.txt").write_text("what a.txt has\n")
    plain = machine.extension("plain", EXTENSION)
    process = machine.start("daemon", "run", *machine.script(*SCRIPT), *ONE_STEP)
    path = machine.appears(machine.home / "run" / "zotd.sock", process)
    client = machine.connect(path).greet()
    session = client.session(cwd=str(machine.cwd))
    assert turn(client, session, "write") == [f"made {machine.cwd}/b.txt (2 bytes)"]
    if used == "before":
        assert "from the shell" in turn(client, session, "tool")[0]
    processes(become, process, 1)
    for _ in range(2):
        shell, read = turn(client, session, "tool")
        assert "ulimit -u" in shell
        assert read == "what a.txt has\n"
        assert turn(client, session, "write") == [f"replaced {machine.cwd}/b.txt (2 bytes)"]
        for method, params in (
            ("session/export", {"session_id": session, "format": "html"}),
            ("workspace/trust", {"cwd": str(machine.cwd), "trusted": True}),
            ("daemon/status", {}),
            ("session/list", {}),
        ):
            client.call(method, **params)
        client.session(cwd=str(machine.cwd), extensions=[str(plain)], ephemeral=True)
        while (told := client.event("ext_state"))["state"] != "failed":
            assert told["state"] == "starting"
        assert "ulimit -u" in told["error"]
        assert machine.connect(path).greet().call("ping") == {}
    processes(become, process, 1_000)
    fresh = client.session(cwd=str(machine.cwd), extensions=[str(plain)])
    assert client.event("ext_registered")["extension"] == "plain"
    for each in (session, fresh):
        assert "from the shell" in turn(client, each, "tool")[0]
    processes(become, process, 1)
    stops(process)


# Stopped


def test_a_stopped_daemon_has_all_wait_and_nobody_misses_anything(shared: Shared) -> None:
    process, client = daemon(shared)
    session = client.session(cwd=str(shared.machine.cwd))
    accepted = client.call("turn/start", session_id=session, text="slow")
    first = client.event("text_delta")
    process.signal(signal.SIGSTOP)
    ping = client.request("ping")
    newcomer = shared.forward()
    greeting = newcomer.request("initialize", protocol_version=1)
    assert not gone(newcomer.popen.pid, 1.0)
    process.signal(signal.SIGCONT)
    assert client.reply(ping)["result"] == {}
    assert "result" in newcomer.reply(greeting)
    assert newcomer.call("daemon/status")["pid"] == process.popen.pid
    ended = client.call("turn/wait", session_id=session, turn_id=accepted["turn_id"])
    assert ended["text"] == "one two three four"
    seqs = [first["seq"], *(event["seq"] for event in client.events)]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    process.signal(signal.SIGSTOP)
    began = time.monotonic()
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGCONT)
    assert process.exit_code() == 0
    assert time.monotonic() - began < Limits().drain_s


@pytest.mark.long
def test_a_forwarder_that_meets_a_stopped_daemon_says_so_in_time(shared: Shared) -> None:
    process, _ = daemon(shared)
    process.signal(signal.SIGSTOP)
    began = time.monotonic()
    forwarder = shared.forward()
    assert forwarder.exit_code() == 1
    assert time.monotonic() - began < Limits().preface_s + 2
    assert f"kill -CONT {process.popen.pid}" in forwarder.stderr
    process.signal(signal.SIGCONT)
    assert shared.forward().greet().call("daemon/status")["pid"] == process.popen.pid
