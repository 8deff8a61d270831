"""Reading configuration: what counts, what is refused, and what a person is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from zotd.base import settings

ROOT = Path(__file__).resolve().parents[2]
FILE: dict[str, Any] = {
    "provider": "ollama",
    "model": "llama3",
    "base_url": "http://127.0.0.1:1",
    "reasoning": "high",
    "tools": ["read", "bash"],
    "skills": ["pdf"],
    "system_prompt": "Be brief.",
    "append_system_prompt": ["one, two"],
    "max_steps": 7,
    "approval": "rules",
    "idle_timeout": 1.5,
    "log_level": "debug",
}
VALUES = {key: tuple(value) if isinstance(value, list) else value for key, value in FILE.items()}


def user(home: Path, content: Any) -> settings.Layer:
    """What a user's file says. content: its text, or a value."""
    settings.user_file(home).write_text(content if isinstance(content, str) else json.dumps(content))
    return settings.of_user(home)


def project(cwd: Path, content: Any) -> settings.Layer:
    (cwd / ".zot").mkdir()
    settings.project_file(cwd).write_text(json.dumps(content))
    return settings.of_project(cwd)


def texts(layer: settings.Layer) -> list[str]:
    return [str(fault) for fault in layer.faults]


def test_every_key_is_read_from_the_users_file_and_from_its_variable(tmp_path: Path) -> None:
    assert list(FILE) == [setting.key for setting in settings.SETTINGS]
    read = user(tmp_path, "\ufeff" + json.dumps({**FILE, "$schema": "x", "_note": "y"}))
    assert (read.values, read.faults) == (VALUES, [])
    environ = {
        f"ZOTD_{key.upper()}": ",".join(value) if isinstance(value, list) else str(value)
        for key, value in FILE.items()
    }
    read = settings.of_environment(environ)
    assert (read.values, read.faults) == (VALUES, [])


def test_nothing_is_said_by_no_file_by_null_and_by_an_empty_variable(tmp_path: Path) -> None:
    assert settings.of_user(tmp_path) == settings.of_project(tmp_path) == settings.NOTHING
    assert user(tmp_path, {"model": None}).values == {}
    assert settings.of_environment({"ZOTD_MODEL": " ", "ZOTD_TOKEN": "t"}) == settings.NOTHING


def test_a_project_can_set_neither_addresses_nor_approval_nor_what_concerns_the_program(
    tmp_path: Path,
) -> None:
    read = project(tmp_path, FILE)
    refused = [one.key for one in settings.SETTINGS if one.not_of_projects]
    assert refused == ["base_url", "approval", "idle_timeout", "log_level"]
    assert read.values == {key: value for key, value in VALUES.items() if key not in refused}
    file = tmp_path / ".zot" / "config.json"
    for text, key in zip(texts(read), refused, strict=True):
        assert text.startswith(f"{file}: $.{key}: a project cannot set this: ")
        assert text.endswith("; set it in $ZOT_HOME/config.json")


@pytest.mark.parametrize("key", ["api_key", "api-key", "token", "openai_api_key"])
def test_a_key_in_any_file_is_not_used_and_not_shown(tmp_path: Path, key: str) -> None:
    for read in (user(tmp_path, {key: "sk-planted", "model": "m"}), project(tmp_path, {key: "sk-planted"})):
        [text] = texts(read)
        assert f"config.json: $.{key}: is not used: keys do not belong in a configuration file" in text
        assert "OPENAI_API_KEY" in text
        assert "sk-planted" not in text
        assert key not in read.values


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("trusted", "trust is given by the user alone, with zotd trust DIR"),
        ("permissions", "trust is given by the user alone, with $ZOT_HOME/permissions.json"),
        ("modle", "is unknown and not used: did you mean model?"),
        ("zzz", "is unknown and not used; there are: provider, model, "),
    ],
)
def test_other_keys_are_passed_over_and_told_of(tmp_path: Path, key: str, why: str) -> None:
    read = user(tmp_path, {key: True, "model": "m"})
    assert read.values == {"model": "m"}
    [fault] = read.faults
    assert f"$.{key}: " in fault.text
    assert why in fault.text
    assert not fault.wrong


@pytest.mark.parametrize(
    ("key", "value", "where", "expected"),
    [
        ("model", 3, "$.model", "expected a string, got a number"),
        ("tools", ["read", 1], "$.tools[1]", "expected a string, got a number"),
        ("max_steps", 0, "$.max_steps", "expected a whole number of at least 1"),
        ("idle_timeout", -1, "$.idle_timeout", "expected a number of more than 0"),
        ("approval", "never", "$.approval", "expected auto, ask, rules"),
        ("reasoning", "hi", "$.reasoning", "expected off, minimum, low"),
    ],
)
def test_a_value_that_does_not_fit_is_named_and_the_others_count(
    tmp_path: Path, key: str, value: Any, where: str, expected: str
) -> None:
    read = user(tmp_path, {key: value, "system_prompt": "s"})
    assert read.values == {"system_prompt": "s"}
    [fault] = read.faults
    assert fault.text.startswith(f"{tmp_path / 'config.json'}: {where}: {expected}")
    assert fault.wrong


def test_a_variable_that_does_not_fit_is_named(tmp_path: Path) -> None:
    read = settings.of_environment({"ZOTD_MAX_STEPS": "many", "ZOTD_MODEL": "m"})
    assert texts(read) == ["ZOTD_MAX_STEPS: expected a whole number, got a string"]
    assert read.values == {"model": "m"}
    user(tmp_path, {"model": "of file", "log_level": "warn"})
    both = settings.of_process({"ZOTD_MODEL": "of variable"}, tmp_path)
    assert both.values == {"model": "of variable", "log_level": "warn"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "expected JSON: "),
        ("[]", "$: expected an object"),
        ('{"a":' + "9" * settings.CONFIG_BYTES + "}", f"expected at most {settings.CONFIG_BYTES} bytes"),
    ],
)
def test_a_file_that_is_no_configuration_says_so(tmp_path: Path, content: str, why: str) -> None:
    read = user(tmp_path, content)
    assert read.values == {}
    [fault] = read.faults
    assert fault.text.startswith(f"{tmp_path / 'config.json'}: {why}")
    assert fault.wrong


def test_a_pipe_in_the_place_of_the_file_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(settings.user_file(tmp_path))
    [text] = texts(settings.of_user(tmp_path))
    assert text == f"{tmp_path / 'config.json'}: cannot be read: expected a regular file"


def test_the_page_of_documentation_has_each_key_its_variable_and_its_values() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    wanted = []
    for one in settings.SETTINGS:
        projects = "no" if one.not_of_projects else "yes"
        wanted.append(f"| `{one.key}` | `{one.variable}` | {one.values} | {projects} | {one.about} |")
    assert rows == wanted
