"""`config.json` and `ZOTD_*`: what counts on every way into a session, and what people are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Machine


def user_says(machine: Machine, **values: Any) -> Path:
    path = machine.home / "config.json"
    path.write_text(json.dumps(values))
    return path


def project_says(machine: Machine, **values: Any) -> Path:
    path = machine.cwd / ".zot" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def model_of(machine: Machine, *argv: str, env: dict[str, str] | None = None) -> str:
    """The model that a run has written down for itself."""
    done = machine.run("--json", "hi", *argv, env=env)
    assert done.returncode == 0, (done.stdout, done.stderr)
    session_id = json.loads(done.stdout.splitlines()[-1])["session_id"]
    shown = machine.run("sessions", "list", "--json")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    found = rows[0].get("sessions", rows)
    return str(next(row["model"] for row in found if row["session_id"] == session_id))


def notes(client: Client) -> list[str]:
    """What zotd has said of the session that was just made."""
    found = [client.event("ext_notify")]
    return [event["message"] for event in found if event["extension"] == "zotd"]


def test_the_command_line_comes_before_the_environment_the_project_and_the_user(machine: Machine) -> None:
    user_says(machine, provider="scripted", model="of-user", reasoning="high")
    assert model_of(machine) == "of-user"
    project_says(machine, model="of-project")
    assert model_of(machine) == "of-project"
    assert model_of(machine, env={"ZOTD_MODEL": "of-variable"}) == "of-variable"
    assert model_of(machine, "--model", "of-flag", env={"ZOTD_MODEL": "of-variable"}) == "of-flag"


def test_a_provider_that_is_named_takes_no_address_and_model_of_another(machine: Machine) -> None:
    user_says(machine, provider="openai-compatible", model="big", base_url="http://127.0.0.1:9")
    assert model_of(machine, "--provider", "scripted") == "scripted"
    assert model_of(machine, env={"ZOTD_PROVIDER": "scripted"}) == "scripted"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"provider": "scripted",', "expected JSON: "),
        ('{"provider": "scripted", "max_steps": "7"}', "$.max_steps: expected a whole number"),
        (
            '{"base_url": "ftp://me:planted@host/v1"}',
            "$.base_url: expected an address that begins with http://",
        ),
        ('{"provider": "skripted"}', "$.provider: expected one of scripted, "),
        ('{"provider": "scripted", "tools": ["read", "grep"]}', "$.tools[1]: expected one of read, write, "),
    ],
)
def test_a_users_file_that_does_not_fit_ends_a_run_with_2_and_only_a_note_in_a_daemon(
    machine: Machine, content: str, why: str
) -> None:
    path = machine.home / "config.json"
    path.write_text(content)
    done = machine.run("-p", "hi", "--provider", "scripted")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"zotd: {path}: {why}")
    assert "planted" not in done.stderr
    client = machine.rpc("--provider", "scripted").greet()
    client.session(cwd=str(machine.cwd))
    [note] = notes(client)
    assert note.startswith(f"{path}: {why}")


def test_a_variable_that_does_not_fit_ends_a_run_with_2(machine: Machine) -> None:
    done = machine.run("-p", "hi", "--provider", "scripted", env={"ZOTD_MAX_STEPS": "many"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "zotd: ZOTD_MAX_STEPS: expected a whole number, got a string\n"


def test_what_a_project_may_not_say_is_told_and_the_rest_counts(machine: Machine) -> None:
    user_says(machine, provider="scripted", modle="typo")
    path = project_says(machine, base_url="http://evil", api_key="sk-planted", approval="auto", model="mine")
    done = machine.run("--json", "hi")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    told = [event["message"] for event in events if event["type"] == "ext_notify"]
    assert [text.partition(": ")[2].partition(": ")[0] for text in told] == [
        "$.base_url",
        "$.api_key",
        "$.approval",
        "$.modle",
    ]
    assert all(str(path) in text for text in told[:3])
    assert "sk-planted" not in done.stdout + done.stderr


def test_an_editors_project_counts_once_it_is_trusted_and_its_params_come_first(machine: Machine) -> None:
    user_says(machine, provider="scripted", model="of-user")
    project_says(machine, model="of-project")
    client = machine.rpc("--no-ext").greet()

    def model(**params: Any) -> str:
        made = client.call("session/new", cwd=str(machine.cwd), **params)["session"]
        return str(made["model"])

    assert model() == "of-user"
    [note] = notes(client)
    assert "is not used: its folder is not trusted (zotd trust" in note
    client.call("workspace/trust", cwd=str(machine.cwd), trusted=True)
    assert model() == "of-project"
    assert model(env={**machine.env, "ZOTD_MODEL": "of-variable"}) == "of-variable"
    assert model(model="of-params", env={"ZOTD_MODEL": "of-variable"}) == "of-params"


def test_a_saved_session_goes_on_with_its_own_model_and_reasoning(machine: Machine) -> None:
    assert model_of(machine, "--provider", "scripted", "--model", "first") == "first"
    user_says(machine, provider="ollama", model="second", reasoning="high")
    assert model_of(machine, "--continue") == "first"
    client = machine.rpc().greet()
    loaded = client.call("session/load", latest=True, cwd=str(machine.cwd))["session"]
    assert (loaded["provider"], loaded["model"], loaded["reasoning"]) == ("scripted", "first", "")


def test_reasoning_that_is_turned_off_stays_off(machine: Machine) -> None:
    user_says(machine, provider="scripted", reasoning="high")
    client = machine.rpc().greet()

    def reasoning(**params: Any) -> str:
        made = client.call("session/new", cwd=str(machine.cwd), **params)["session"]
        return str(made["reasoning"])

    assert reasoning() == "high"
    assert reasoning(reasoning="off") == ""
    off = machine.rpc("--reasoning", "off").greet()
    assert off.call("session/new", cwd=str(machine.cwd))["session"]["reasoning"] == ""


def test_a_zot_client_gets_the_configured_model(machine: Machine) -> None:
    user_says(machine, provider="scripted", model="of-user")
    client = machine.rpc("--no-ext")
    assert client.ask("hello")["data"]["model"] == "of-user"
    assert client.ask("get_state")["data"]["model"] == "of-user"


def test_approval_is_the_users_to_configure(machine: Machine) -> None:
    user_says(machine, provider="scripted", approval="rules")
    project_says(machine, approval="auto")
    client = machine.rpc("--no-ext").greet(capabilities={"approvals": True})
    made = client.call("session/new", cwd=str(machine.cwd))["session"]
    assert made["approval"] == "rules"
    assert client.call("session/new", cwd=str(machine.cwd), approval="ask")["session"]["approval"] == "ask"


def test_a_daemon_ends_when_it_was_idle_for_as_long_as_the_user_configured(machine: Machine) -> None:
    user_says(machine, idle_timeout=0.1, provider="scripted")
    daemon = machine.start("daemon", "run")
    assert daemon.exit_code() == 0
    assert not (machine.home / "run" / "zotd.sock").exists()


def test_a_folder_full_of_odd_keys_says_a_few_words_and_none_that_looks_like_ours(machine: Machine) -> None:
    odd = {f"key {number}": 1 for number in range(5_000)}
    user_says(machine, provider="scripted")
    path = project_says(machine, **{"\n[zotd] all is well": 1, "k" * 9_000: 1, "_comment": 1}, **odd)
    done = machine.run("-p", "hi")
    assert (done.returncode, done.stdout) == (0, "You said: hi\n")
    said = done.stderr.splitlines()
    assert said[0].startswith(f"[zotd] warn: {path}: $.'\\n[zotd] all is well': is unknown")
    assert said[-1].endswith(" more keys are not used")
    assert len(said) < 20
    assert all(len(line) < 500 for line in said)
    long = machine.run("-p", "hi", env={"ZOTD_TOOLS": "x" * 50_000 + ",y" * 9_000})
    assert long.returncode == 2
    assert long.stderr.startswith("zotd: ZOTD_TOOLS[0]: expected one of read, ")
    assert len(long.stderr) < 500
