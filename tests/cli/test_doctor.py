"""`zotd doctor`: each broken thing is named with what to do about it, and a bundle holds no secret."""

from __future__ import annotations

import io
import json
import os
import socket
import stat
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Machine

PLANTED = "hunter2-planted-value"


def doctor(machine: Machine, *argv: str, env: dict[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """The report, and the exit code."""
    done = machine.run("doctor", "--json", *argv, env=env)
    assert done.stderr == ""
    return json.loads(done.stdout), done.returncode


def findings(report: dict[str, Any], check: str) -> list[tuple[str, str, str]]:
    """Level, text and mend of what a check found."""
    [found] = [each for each in report["checks"] if each["check"] == check]
    assert found["looked_at"]
    return [(one["level"], one["text"], one.get("mend", "")) for one in found["findings"]]


def put(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_fresh_home_has_no_errors_and_is_left_as_it_was(machine: Machine) -> None:
    path = f"{machine.program.parent}:{machine.env['PATH']}"
    report, code = doctor(machine, env={"PATH": path, "ZOTD_PROVIDER": "scripted"})
    assert (report["level"], code) == ("ok", 0), report
    assert list(machine.home.iterdir()) == list(machine.cwd.iterdir()) == []
    text = machine.run("doctor", env={"PATH": path, "ZOTD_PROVIDER": "scripted"}).stdout
    assert text.endswith("all is well\n")
    assert "\x1b" not in text
    missing, code = doctor(machine, env={"ZOT_HOME": str(machine.root / "none")})
    assert "it is made when something is saved" in findings(missing, "home")[0][1]
    assert code == 0
    put(machine.home / "logs" / "zotd.log", "x", 0o644)
    text = machine.run("doctor", env={"PATH": path, "ZOTD_PROVIDER": "scripted"}).stdout
    assert text.endswith("\n0 errors, 1 warning\n")


def break_badly(m: Machine) -> None:
    put(m.home / "config.json", "{")
    put(m.home / "auth.json", "{}", 0o644)
    put(m.home / "models.json", '{"providers": []}')
    put(m.home / "permissions.json", '{"rules": [{"tool": 1}]}')
    put(m.home / "trusted.json", '{"folders": {"/gone": 1}}')
    put(m.home / "extensions" / "bare" / "extension.json", '{"name": "bare"}')
    put(m.home / "extensions" / "lost" / "extension.json", '{"name": "lost", "exec": "nonesuch"}')
    put(m.root / ".config/systemd/user/zotd.service", "[Service]\nExecStart=/gone/zotd daemon run\n")
    (m.home / "run").mkdir()
    (m.home / "run").chmod(0o755)
    (m.home / "sessions").symlink_to("sessions")
    (m.home / "logs").symlink_to(m.root)


BAD = (
    ("config", "config.json: expected JSON", "correct the file"),
    ("auth", "has mode 0644: other users can read your keys", "chmod 600 "),
    ("models", "models.json: $.providers: expected an object", "correct the file"),
    ("permissions", "$.rules[0]", "correct the file"),
    ("trust", 'folders["/gone"]: expected true or false', "correct the file"),
    ("extensions", "extension.json: exec: expected a program to run", "correct the manifest"),
    ("extensions", "lost: cannot start nonesuch: nonesuch is not on PATH", "listed as failed"),
    ("service", "zotd.service starts /gone/zotd, which is not there", "zotd service install"),
    ("run directory", "is open to other users", "no daemon is joined"),
    ("sessions", "sessions is not a directory: no session can be saved", "move it away"),
    ("log", "logs is not a directory: no daemon is started", "logs away"),
)


def break_a_little(m: Machine) -> None:
    put(m.cwd / ".zot" / "config.json", '{"api_key": "x", "modle": "y"}')
    put(m.home / "trusted.json", '{"folders": {"/gone": true}}')
    for folder in ("one", "two"):
        put(m.home / "extensions" / folder / "extension.json", '{"name": "twin", "exec": "sh"}')
    put(m.cwd / ".zot" / "extensions" / "new" / "extension.json", '{"name": "new", "exec": "sh"}')
    put(m.home / "skills" / "odd" / "SKILL.md", "---\nname: [\n---\n")
    put(m.home / "themes" / "odd.json", "{")
    put(m.home / "sessions" / "0123456789abcdef" / "x.jsonl", "no session\n")
    put(m.home / "sessions" / "0123456789abcdef" / ".x.jsonl.part", "{}")
    put(m.home / "logs" / "zotd.log", "x", 0o644)
    m.home.chmod(0o777)


DOUBTFUL = (
    ("config", "$.api_key: is not used", "correct the file"),
    ("config", "$.modle: is unknown and not used: did you mean model?", "docs/configuration.md"),
    ("trust", "/gone is trusted and not there", "zotd trust --remove /gone"),
    ("extensions", "twin in", "rename one of the two"),
    ("extensions", "its folder is not trusted", "zotd trust "),
    ("skills", "SKILL.md", "correct the file"),
    ("themes", "odd.json", "correct the file"),
    ("sessions", "x.jsonl", "move the file away"),
    ("sessions", "1 copies of sessions were never finished", "remove them"),
    ("log", "other users can read", "chmod 600 "),
    ("home", "others may write in", "chmod go-w "),
)


@pytest.mark.parametrize(
    ("break_it", "level", "wanted"), [(break_badly, "error", BAD), (break_a_little, "warn", DOUBTFUL)]
)
def test_what_is_broken_is_named_with_what_mends_it(
    machine: Machine,
    break_it: Callable[[Machine], None],
    level: str,
    wanted: Sequence[tuple[str, str, str]],
) -> None:
    break_it(machine)
    report, code = doctor(machine)
    for check, text, mend in wanted:
        matching = [one for one in findings(report, check) if one[0] == level and text in one[1]]
        assert matching, (text, findings(report, check))
        assert mend in matching[0][2]
    assert (report["level"], code) == (level, 1 if level == "error" else 0)


def test_what_the_environment_names_wrongly_is_named_and_no_value_is_shown(machine: Machine) -> None:
    env = {
        "HTTPS_PROXY": f"http://user:{PLANTED}@",
        "ALL_PROXY": f"socks5://user:{PLANTED}@host:1",
        "SSL_CERT_FILE": "/gone/ca.pem",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "OPENAI_API_KEY": PLANTED,
        "ZOTD_MODEL": "some",
        "OLLAMA_HOST": f"a:{PLANTED}@b:c",
    }
    report, code = doctor(machine, env=env)
    assert code == 1
    assert ("error", "SSL_CERT_FILE names /gone/ca.pem, which is not there") in [
        one[:2] for one in findings(report, "network")
    ]
    assert [one[1] for one in findings(report, "network")][:2] == [
        "HTTPS_PROXY names no host that a proxy could be on",
        "ALL_PROXY names a proxy that does not speak HTTP",
    ]
    assert findings(report, "terminal")[0][0] == "warn"
    assert [one[1] for one in findings(report, "model")] == [
        "openai-compatible has a key, from OPENAI_API_KEY",
        "a run that names no model asks openai-compatible, some, its key from OPENAI_API_KEY",
    ]
    assert PLANTED not in json.dumps(report)


def test_a_home_in_which_nothing_can_be_written_is_an_error(machine: Machine) -> None:
    report, code = doctor(machine, env={"ZOT_HOME": "/proc"})
    [(level, text, mend)] = [one for one in findings(report, "home") if one[0] == "error"]
    assert text.startswith("nothing can be written in /proc: ")
    assert (level, code) == ("error", 1)
    assert "set ZOT_HOME elsewhere" in mend
    report, _ = doctor(machine, env={"ZOT_HOME": str(put(machine.root / "file", ""))})
    assert "is not a directory" in findings(report, "home")[0][1]


def test_another_zotd_on_the_path_is_named(machine: Machine) -> None:
    other = put(machine.root / "bin" / "zotd", "#!/bin/sh\n", 0o755)
    report, _ = doctor(machine, env={"PATH": f"{other.parent}:{machine.env['PATH']}"})
    assert findings(report, "program")[0][0] == "warn"
    assert f"{other} is another zotd than this one" in findings(report, "program")[0][1]


def test_a_socket_whose_path_is_too_long_is_named(machine: Machine) -> None:
    report, code = doctor(machine, env={"XDG_RUNTIME_DIR": f"/tmp/{'x' * 110}"})
    assert "a socket's has 107 at most" in findings(report, "run directory")[0][1]
    assert code == 1


def test_pipes_in_the_place_of_files_hold_nobody(machine: Machine) -> None:
    names = ("config.json", "auth.json", "models.json", "permissions.json", "trusted.json")
    for name in names:
        os.mkfifo(machine.home / name)
    report, code = doctor(machine)
    assert code == 1
    for check in ("config", "auth", "models", "permissions", "trust"):
        assert findings(report, check)[0][0] == "error"


def test_a_running_daemon_tells_of_itself_and_goes_on(machine: Machine) -> None:
    path = machine.home / "run" / "zotd.sock"
    path.parent.mkdir(mode=0o700)
    daemon = machine.rpc("--listen", f"unix:{path}", "--provider", "scripted")
    client = machine.connect(machine.appears(path, daemon)).greet()
    report, _ = doctor(machine)
    [(level, text, _)] = findings(report, "daemon")
    assert level == "ok"
    assert f"pid {daemon.popen.pid}" in text
    assert text.endswith(", sessions: 0, other clients: 1")
    assert findings(report, "run directory") == [("ok", f"{path} is yours alone", "")]
    client.call("ping")


def test_a_socket_that_nobody_serves_or_answers_on_is_told_apart(machine: Machine) -> None:
    path = machine.home / "run" / "zotd.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o600)
        report, code = doctor(machine)
        assert findings(report, "daemon")[0][0] == "warn"
        assert code == 0
        listening.listen()
        report, code = doctor(machine)
        assert code == 1
        assert findings(report, "daemon")[0][1].startswith("the daemon does not answer: ")
        assert findings(report, "daemon")[0][2] == "zotd daemon restart"


def test_names_that_a_terminal_would_act_upon_are_shown_harmless(machine: Machine) -> None:
    put(machine.home / "extensions" / "a\x1b[31mb" / "extension.json", "{")
    done = machine.run("doctor")
    assert "\x1b" not in done.stdout
    assert "a\\x1b[31mb" in done.stdout
    assert done.returncode == 1


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        members = archive.getmembers()
        return {one.name: (archive.extractfile(one) or io.BytesIO()).read().decode() for one in members}


def test_a_bundle_holds_what_helps_and_nothing_secret(machine: Machine) -> None:
    script = machine.script({"reply": [{"text": f"answer {PLANTED}"}]})
    made = machine.run("--json", f"prompt {PLANTED}", *script)
    session_id = json.loads(made.stdout.splitlines()[-1])["session_id"]
    assert machine.run("sessions", "rename", session_id, f"title {PLANTED}").returncode == 0
    put(machine.home / "auth.json", json.dumps({"openai": {"api_key": f"{PLANTED}-of-auth"}}), 0o600)
    put(machine.home / "config.json", json.dumps({"provider": "scripted", "api_key": PLANTED}))
    put(
        machine.cwd / ".zot" / "config.json",
        json.dumps({"model": "mine", "system_prompt": PLANTED, "base_url": f"http://u:{PLANTED}@host"}),
    )
    put(
        machine.home / "models.json",
        json.dumps({"providers": {"p": {"baseUrl": "http://hunter2", "models": [{"id": "big"}]}}}),
    )
    put(
        machine.home / "permissions.json",
        json.dumps({"rules": [{"tool": "bash", "exact": "curl hunter2", "decision": "allow"}]}),
    )
    put(
        machine.home / "extensions" / "a" / "extension.json",
        json.dumps({"name": "weather", "exec": "sh", "args": ["--key", PLANTED], "description": PLANTED}),
    )
    put(machine.home / "logs" / "ext-weather.log", PLANTED)
    log = f"started home={machine.root}/x api_key={PLANTED}-1 said {PLANTED}-of-auth and {PLANTED}-of-env\n"
    put(machine.home / "logs" / "zotd.log", log, 0o600)
    file = machine.root / "bundle.tar.gz"
    done = machine.run("doctor", "--bundle", file, env={"SOME_API_KEY": f"{PLANTED}-of-env", "ODD": PLANTED})
    assert done.returncode == 0, done.stdout + done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    files = unpacked(file)
    whole = "\n".join(files.values())
    assert "hunter2" not in whole + done.stdout + done.stderr
    assert str(machine.root) not in whole
    assert "started home=~/x" in files["zotd-support/zotd.log"]
    assert session_id in files["zotd-support/sessions.json"]
    for name, text in files.items():
        assert f"  {name.partition('/')[2]}, " in done.stdout
        assert not name.endswith(".json") or json.loads(text) is not None
    assert json.loads(files["zotd-support/environment.json"])["ODD"] is None
    [extension] = json.loads(files["zotd-support/extensions.json"])
    assert (extension["name"], extension["arguments"]) == ("weather", 2)
    assert '"model": "mine"' in files["zotd-support/files.json"]
    assert '"id": "big"' in files["zotd-support/files.json"]
    assert "Look at it before you send it" in done.stdout


def test_a_bundle_replaces_a_file_only_when_told_to_and_follows_no_link(machine: Machine) -> None:
    file, other = put(machine.root / "bundle", "mine"), put(machine.root / "other", "theirs")
    done = machine.run("doctor", "--bundle", file)
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert done.stderr == f"zotd: doctor: --bundle {file}: is there already: name another, or add --force\n"
    file.unlink()
    file.symlink_to(other)
    assert machine.run("doctor", "--bundle", file).returncode == 2
    assert machine.run("doctor", "--bundle", file, "--force").returncode == 0
    assert other.read_text() == "theirs"
    assert not file.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    nobody = machine.run("doctor", "--bundle", "~nobody-of-that-name/b")
    assert (nobody.returncode, nobody.stderr.count("there is no such user's home")) == (2, 1)
    gone = machine.run("doctor", "--bundle", machine.root / "gone" / "b")
    assert (gone.returncode, gone.stderr.count("No such file or directory")) == (2, 1)


@pytest.mark.parametrize("kind", ["pipe", "link", "hard link"])
def test_a_log_that_no_daemon_would_write_to_is_named(machine: Machine, kind: str) -> None:
    other = put(machine.root / "other", "theirs")
    log = machine.home / "logs" / "zotd.log"
    log.parent.mkdir()
    match kind:
        case "pipe":
            os.mkfifo(log)
        case "link":
            log.symlink_to(other)
        case _:
            log.hardlink_to(other)
    report, code = doctor(machine)
    [(level, text, mend)] = findings(report, "log")
    assert (level, code) == ("error", 1)
    assert text.startswith(str(log))
    assert mend == f"move {log} away"


@pytest.mark.parametrize(("argv", "why"), [(["--force"], "--force goes with --bundle"), (["--jsn"], "--jsn")])
def test_a_wrong_command_line_exits_2(machine: Machine, argv: list[str], why: str) -> None:
    done = machine.run("doctor", *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "usage: zotd doctor" in machine.run("doctor", "--help").stdout
