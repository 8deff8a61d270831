"""The forwarder's quick reading of a command line says the same as the careful one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import ROOT
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
