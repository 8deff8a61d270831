"""Which model flags and environment choose, and what is said when they choose none."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from zotd.base.secret import Secret
from zotd.providers.catalog import BadChoice, Choice, NoCredentials, choose, models

HOME = Path("/home/u/.zot")


def chosen(environ: dict[str, str] | None = None, **flags: Any) -> Choice:
    given = {"provider": "", "model": "", "base_url": "", "api_key": None, **flags}
    return choose(environ=environ or {}, home=HOME, **given)


def test_scripted_needs_nothing() -> None:
    choice = chosen(provider="scripted")
    assert (choice.provider, choice.model, choice.tools) == ("scripted", "scripted", True)


@pytest.mark.parametrize(
    ("model", "window"),
    [("scripted:8000", 8000), ("scripted", 0), ("any:thing", 0), (":8000", 0), ("a:" + "9" * 5_000, 0)],
)
def test_the_scripted_model_has_the_window_that_its_name_ends_in(model: str, window: int) -> None:
    choice = chosen(provider="scripted", model=model)
    assert (choice.model, choice.window) == (model, window)


def test_local_is_the_known_small_model_and_calls_no_tools() -> None:
    choice = chosen(provider="local")
    assert choice.model == "smollm2"
    assert choice.weights == HOME / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert (choice.tools, choice.images, choice.window) == (False, False, 8192)
    assert choice == chosen(provider="local", model="smollm2")


@pytest.mark.parametrize("provider", ["", "local"])
def test_a_model_file_is_local_and_starts_at_the_given_directory(provider: str) -> None:
    choice = chosen(provider=provider, model="x/my.GGUF", cwd=Path("/p"))
    assert (choice.provider, choice.weights, choice.tools) == ("local", Path("/p/x/my.GGUF"), False)
    assert chosen(model="/abs/my.gguf", cwd=Path("/p")).weights == Path("/abs/my.gguf")


def test_openai_is_implied_by_its_key() -> None:
    choice = chosen({"OPENAI_API_KEY": "sk"}, model="gpt")
    assert (choice.provider, choice.base_url) == ("openai-compatible", "https://api.openai.com/v1")
    assert choice.api_key == Secret("sk")
    assert choice.key_source == "OPENAI_API_KEY"


def test_a_base_url_implies_a_compatible_server_and_needs_no_key() -> None:
    by_flag = chosen(base_url="http://h:8000/v1/", model="m")
    by_environment = chosen({"OPENAI_BASE_URL": "http://h:8000/v1"}, model="m")
    assert by_flag == by_environment
    assert (by_flag.base_url, by_flag.api_key) == ("http://h:8000/v1", None)


def test_flags_win_over_the_environment() -> None:
    environ = {"OPENAI_API_KEY": "env", "OPENAI_BASE_URL": "http://env/v1"}
    choice = chosen(environ, model="m", base_url="http://flag/v1", api_key=Secret("flag"))
    assert (choice.base_url, choice.api_key, choice.key_source) == (
        "http://flag/v1",
        Secret("flag"),
        "--api-key",
    )


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("box:5000", "http://box:5000/v1"),
        (":5000", "http://127.0.0.1:5000/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box/ollama/", "https://box:443/ollama/v1"),
        ("[::1]:5000", "http://[::1]:5000/v1"),
    ],
)
def test_ollama_is_found_where_its_own_variable_says(host: str, url: str) -> None:
    assert chosen({"OLLAMA_HOST": host}, provider="ollama", model="m").base_url == url


def test_nothing_chosen_and_no_key_lists_every_way() -> None:
    with pytest.raises(NoCredentials) as caught:
        chosen()
    for way in (
        "OPENAI_API_KEY",
        "--api-key",
        "--base-url",
        "ollama",
        "zotd model install smollm2",
        "scripted",
    ):
        assert way in str(caught.value)


def test_nothing_falls_back_to_another_model_in_silence() -> None:
    with pytest.raises(NoCredentials):
        chosen(model="gpt")
    with pytest.raises(NoCredentials, match=r"api\.openai\.com/v1 needs a key"):
        chosen(provider="openai-compatible", model="gpt")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"provider": "openai"}, "unknown provider 'openai': did you mean 'openai-compatible'"),
        ({"provider": "olama"}, "did you mean 'ollama'"),
        ({"provider": "Scripted"}, "did you mean 'scripted'"),
        ({"provider": "ollama"}, "needs a model, --model NAME or `model` over RPC"),
        (
            {"provider": "openai-compatible", "base_url": "http://h"},
            "needs a model, --model NAME or `model` over RPC",
        ),
        ({"provider": "local", "model": "llama"}, "unknown local model 'llama': expected smollm2"),
        ({"base_url": "h:8000", "model": "m"}, "--base-url must begin with http://"),
        ({"provider": "scripted", "base_url": "http://h"}, "means nothing to provider scripted"),
        (
            {"provider": "ollama", "model": "m", "environ": {"OLLAMA_HOST": "ftp://x"}},
            "OLLAMA_HOST must look like",
        ),
    ],
)
def test_a_wrong_choice_names_what_was_expected(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(BadChoice, match=message):
        chosen(**flags)


def test_the_list_has_what_can_be_named_and_files_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in ("SmolLM2-135M-Instruct.Q4_1.gguf", "mine.gguf"):
        (tmp_path / "models" / name).touch()
    listed = [(row.provider, row.model, row.source) for row in models(tmp_path)]
    assert listed == [
        ("scripted", "scripted", "catalog"),
        ("local", "smollm2", "catalog"),
        ("local", str(tmp_path / "models" / "mine.gguf"), "user"),
    ]


def test_a_key_shows_up_nowhere() -> None:
    choice = chosen(base_url="http://h", model="m", api_key=Secret("sk-very-secret"))
    assert "sk-very-secret" not in f"{choice} {choice!r} {choice.api_key} {choice.api_key!r:>10}"
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(choice.api_key)
