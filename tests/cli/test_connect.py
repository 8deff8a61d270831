"""The forwarder's quick reading of a command line says the same as the careful one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.clients import LONG, ROOT
from tests.daemons import Shared
from zotd.cli.connect import Call, plain, preface
from zotd.cli.flags import parse
from zotd.cli.preface import call_of

PLAIN = [
    ["rpc", "--connect", "auto"],
    ["--mode", "rpc", "--connect", "/run/some.sock"],
    [
        "--rpc",
        "--connect",
        "auto",
        "--provider",
        "scripted",
        "--model",
        "m",
        "--base-url",
        "http://127.0.0.1:1",
    ],
    ["--connect", "auto", "rpc", "--api-key", "sk-1", "--system-prompt", "Be brief.", "-c"],
    ["rpc", "--connect", "auto", "--ext", "one", "-e", "../two", "--no-ext", "--no-skills", "--no-tools"],
    [
        "rpc",
        "--connect",
        "auto",
        "--append-system-prompt",
        "a",
        "--append-system-prompt",
        "b",
        "--no-session",
    ],
    ["rpc", "--connect", "auto", "--cwd", "tests", "--ext", "x", "-r"],
]
ODD = [
    ["-p", "--connect", "auto", "hello"],
    ["rpc", "--connect", ""],
    ["rpc", "--connect"],
    ["rpc", "--connect", "auto", "--cwd", "no-such-folder"],
    ["rpc", "--connect", "auto", "--cwd", "~"],
    ["rpc", "--connect", "auto", "--no-session", "--continue"],
    ["rpc", "--connect", "auto", "--reasoning", "high"],
    ["rpc", "--connect", "auto", "--model", "--provider"],
    ["rpc", "--connect", "auto", "words"],
    ["rpc", "--connect", "auto", "--help"],
    ["--mode", "json", "--connect", "auto"],
    ["--connect", "auto"],
]


@pytest.mark.parametrize("argv", PLAIN, ids=" ".join)
def test_a_plain_line_is_read_as_the_parser_reads_it(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    quick, careful = plain(argv), call_of(parse(argv))
    assert quick is not None
    assert (quick.address, Path(quick.cwd), quick.flags) == (
        careful.address,
        Path(careful.cwd),
        careful.flags,
    )


@pytest.mark.parametrize("argv", ODD, ids=" ".join)
def test_a_line_that_is_not_plain_is_left_to_the_parser(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert plain(argv) is None


def test_a_preface_is_one_line_of_json_whatever_the_environment_holds() -> None:
    flags = {"model": 'a"b\\c\n', "ext": ["/x", "/ü"], "no_tools": True, "max_steps": 3, "none": []}
    environ = {"PLAIN": "1", "LINES": "a\nb\x01\x7f\u2028", "LATIN": "caf\udce9"}
    line = preface(Call("auto", "/tmp/ö", flags), "/home/zot", environ)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    said = json.loads(line)
    assert said["env"] == {"PLAIN": "1", "LINES": "a\nb\x01\x7f\u2028"}
    assert said["flags"] == flags
    assert (said["zotd"], said["mode"], said["cwd"], said["home"]) == (1, "rpc", "/tmp/ö", "/home/zot")
    with pytest.raises(UnicodeEncodeError):
        preface(Call("auto", "/tmp/\udce9", {}), "/home/zot", {})


def test_the_forwarder_imports_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules)"
    code += "; import zotd.cli.connect, zotd.cli.rendezvous, zotd.base.places"
    report = "; print(*sorted(set(sys.modules) - before))"
    run = [sys.executable, "-c", code + report]
    loaded = set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    ours = {name for name in loaded if name.startswith("zotd")}
    assert ours == {
        "zotd",
        "zotd.base",
        "zotd.base.places",
        "zotd.cli",
        "zotd.cli.connect",
        "zotd.cli.rendezvous",
    }
    assert loaded - ours <= {"__future__", "_json", "_socket"}


@contextmanager
def peer(path: Path, *answers: bytes) -> Iterator[list[bytes]]:
    """Whoever connects is told the next answer, and that is all; the last of them is heard out and echoed.

    Gives what each has said first.
    """
    heard: list[bytes] = []

    def serve() -> None:
        for answer in answers:
            connected, _ = listening.accept()
            with connected, connected.makefile("rb") as lines, suppress(ConnectionError):
                heard.append(lines.readline())
                connected.sendall(answer)
                if answer is answers[-1]:
                    connected.sendall(lines.read())

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(LONG)
        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        thread.join(LONG)


WELCOME = b'{"zotd":1,"version":"0.1.0"}\n'
ENDING = b'{"zotd":1,"version":"0.1.0","draining":true}\n'
FULL = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"full","data":{"kind":"overloaded"}}}\n'
REFUSED = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"$.cwd: no",'
    b'"data":{"kind":"invalid_params","hint":"go"}}}\n'
)


def test_a_daemon_that_ends_or_is_full_is_tried_again_with_nothing_lost(shared: Shared) -> None:
    path = shared.runtime / "peer.sock"
    said = b"anything at all, cut anywhere: \xff\x00" * 10_000
    with peer(path, b"", ENDING, FULL, WELCOME + b"early\n") as heard:
        done = subprocess.run(
            [shared.machine.program, "rpc", "--connect", path],
            input=said,
            capture_output=True,
            env=shared.machine.env,
            cwd=shared.machine.cwd,
            timeout=LONG,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"early\n" + said
    assert len(set(heard)) == 1
    assert json.loads(heard[0])["cwd"] == str(shared.machine.cwd)


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (REFUSED, 2, "zotd: the daemon refuses: $.cwd: no; go\n"),
        (b"HTTP/1.1 400 Bad Request\r\n", 1, "what answers there is no zotd\n"),
        (b"[1]\n", 1, "what answers there is no zotd\n"),
        (b"x" * 100_000, 1, "what answers there is no zotd\n"),
    ],
)
def test_who_does_not_take_the_preface_is_told_of_in_one_line(
    shared: Shared, answer: bytes, code: int, words: str
) -> None:
    path = shared.runtime / "peer.sock"
    with peer(path, answer):
        done = shared.machine.run("rpc", "--connect", path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.endswith(words)
    assert done.stderr.count("\n") == 1


def test_a_daemon_that_hangs_up_behind_the_preface_is_followed_by_the_next_one_before_anything_was_said(
    shared: Shared,
) -> None:
    path = shared.runtime / "peer.sock"
    with peer(path, WELCOME, WELCOME, WELCOME + b"early\n") as heard:
        process = shared.machine.start("rpc", "--connect", path)
        assert process.popen.stdout is not None
        assert process._frames.get(timeout=LONG) == b"early"
        process.write(b"words\n")
        process.hang_up()
        assert process._frames.get(timeout=LONG) == b"words"
        assert process.exit_code() == 0
    assert len(heard) == 3


def test_a_daemon_that_always_hangs_up_behind_the_preface_is_given_up(shared: Shared) -> None:
    path = shared.runtime / "peer.sock"
    with peer(path, *[WELCOME] * 5, b"") as heard:
        process = shared.machine.start("rpc", "--connect", path)
        assert process.exit_code() == 1
        assert process.stderr.count("\n") == 1
        assert "the daemon ended this connection" in process.stderr
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(path))
    assert len(heard) == 6
