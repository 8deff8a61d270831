"""`zotd doctor`: each broken thing is named with what to do about it, and a bundle holds no secret."""

from __future__ import annotations

import io
import json
import os
import socket
import stat
import sys
import tarfile
from collections.abc import Callable
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


def trusted_twice(machine: Machine) -> None:
    put(machine.home / "trusted.json", '{"folders": {"/gone": 1}}')


def same_name(machine: Machine) -> None:
    manifest = json.dumps({"name": "twin", "exec": sys.executable})
    for folder in ("a", "b"):
        put(machine.home / "extensions" / folder / "extension.json", manifest)


BROKEN: dict[str, tuple[Callable[[Machine], object], str, str, str, str]] = {
    "a configuration that is no JSON": (
        lambda m: put(m.home / "config.json", "{"),
        *("config", "error", "config.json: expected JSON", "correct the file"),
    ),
    "a key in a project's configuration": (
        lambda m: put(m.cwd / ".zot" / "config.json", '{"api_key": "x"}'),
        *("config", "warn", "$.api_key: is not used", "correct the file"),
    ),
    "keys that others can read": (
        lambda m: put(m.home / "auth.json", "{}", 0o644),
        *("auth", "error", "has mode 0644: other users can read your keys", "chmod 600 "),
    ),
    "keys that are no JSON": (
        lambda m: put(m.home / "auth.json", "sk-secret", 0o600),
        *("auth", "error", "auth.json: expected JSON: it ends to be that at line 1", "correct the file"),
    ),
    "models that are none": (
        lambda m: put(m.home / "models.json", '{"providers": []}'),
        *("models", "error", "models.json: $.providers: expected an object", "correct the file"),
    ),
    "rules that do not fit": (
        lambda m: put(m.home / "permissions.json", '{"rules": [{"tool": 1}]}'),
        *("permissions", "error", "$.rules[0]", "correct the file"),
    ),
    "trust that does not fit": (
        trusted_twice,
        *("trust", "error", 'folders["/gone"]: expected true or false', "correct the file"),
    ),
    "a folder that is trusted and gone": (
        lambda m: put(m.home / "trusted.json", '{"folders": {"/gone": true}}'),
        *("trust", "warn", "/gone is trusted and not there", "zotd trust --remove /gone"),
    ),
    "a manifest that does not fit": (
        lambda m: put(m.home / "extensions" / "a" / "extension.json", '{"name": "a"}'),
        *("extensions", "error", "extension.json: exec: expected a program to run", "correct the manifest"),
    ),
    "an extension whose program is missing": (
        lambda m: put(m.home / "extensions" / "a" / "extension.json", '{"name": "a", "exec": "nonesuch"}'),
        *("extensions", "error", "a: cannot start nonesuch: nonesuch is not on PATH", "listed as failed"),
    ),
    "an extension that another one shadows": (
        same_name,
        *("extensions", "warn", "is shadowed: an earlier one has its name", "rename one"),
    ),
    "an extension that waits for trust": (
        lambda m: put(m.cwd / ".zot" / "extensions" / "a" / "extension.json", '{"name": "a", "exec": "sh"}'),
        *("extensions", "warn", "its folder is not trusted", "zotd trust "),
    ),
    "a skill without a name": (
        lambda m: put(m.home / "skills" / "a" / "SKILL.md", "---\nname: [\n---\n"),
        *("skills", "warn", "SKILL.md", "correct the file"),
    ),
    "a theme that is none": (
        lambda m: put(m.home / "themes" / "a.json", "{"),
        *("themes", "warn", "a.json", "correct the file"),
    ),
    "a session that is none": (
        lambda m: put(m.home / "sessions" / "0123456789abcdef" / "x.jsonl", "no session\n"),
        *("sessions", "warn", "x.jsonl", "move the file away"),
    ),
    "an import that was killed": (
        lambda m: put(m.home / "sessions" / "0123456789abcdef" / ".x.jsonl.part", "{}"),
        *("sessions", "warn", "1 copies of sessions were never finished", "remove them"),
    ),
    "a home that others can write": (
        lambda m: m.home.chmod(0o777),
        *("home", "warn", "others may write in", "chmod go-w "),
    ),
    "a log that others can read": (
        lambda m: put(m.home / "logs" / "zotd.log", "x", 0o644),
        *("log", "warn", "other users can read", "chmod 600 "),
    ),
    "a run directory that is open to others": (
        lambda m: (m.home / "run").mkdir() or (m.home / "run").chmod(0o755),
        *("run directory", "error", "is open to other users", "no daemon is joined"),
    ),
    "a service that starts what is gone": (
        lambda m: put(m.root / ".config/systemd/user/zotd.service", "[Service]\nExecStart=/gone/zotd x\n"),
        *("service", "error", "zotd.service starts /gone/zotd, which is not there", "zotd service install"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named_with_what_mends_it(machine: Machine, name: str) -> None:
    break_it, check, level, text, mend = BROKEN[name]
    break_it(machine)
    report, code = doctor(machine)
    matching = [one for one in findings(report, check) if one[0] == level and text in one[1]]
    assert matching, findings(report, check)
    assert mend in matching[0][2]
    assert code == (1 if level == "error" else 0)
    assert report["level"] == level


def test_what_the_environment_names_wrongly_is_named_and_no_value_is_shown(machine: Machine) -> None:
    env = {
        "HTTPS_PROXY": f"http://user:{PLANTED}@",
        "SSL_CERT_FILE": "/gone/ca.pem",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "OPENAI_API_KEY": PLANTED,
        "ZOTD_MODEL": "some",
    }
    report, code = doctor(machine, env=env)
    assert code == 1
    assert ("error", "SSL_CERT_FILE names /gone/ca.pem, which is not there") in [
        one[:2] for one in findings(report, "network")
    ]
    assert findings(report, "network")[0][1] == "HTTPS_PROXY names no host that a proxy could be on"
    assert findings(report, "terminal")[0][0] == "warn"
    assert [one[1] for one in findings(report, "model")] == [
        "openai-compatible has a key, from OPENAI_API_KEY",
        "a run that names no model asks openai-compatible, some, its key from OPENAI_API_KEY",
    ]
    assert PLANTED not in json.dumps(report)


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
        json.dumps({"providers": {"p": {"baseUrl": f"http://{PLANTED}", "models": [{"id": "big"}]}}}),
    )
    put(
        machine.home / "permissions.json",
        json.dumps({"rules": [{"tool": "bash", "exact": f"curl {PLANTED}", "decision": "allow"}]}),
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
    gone = machine.run("doctor", "--bundle", machine.root / "gone" / "b")
    assert (gone.returncode, gone.stderr.count("No such file or directory")) == (2, 1)


@pytest.mark.parametrize(("argv", "why"), [(["--force"], "--force goes with --bundle"), (["--jsn"], "--jsn")])
def test_a_wrong_command_line_exits_2(machine: Machine, argv: list[str], why: str) -> None:
    done = machine.run("doctor", *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "usage: zotd doctor" in machine.run("doctor", "--help").stdout
