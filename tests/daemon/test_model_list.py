"""Which models and providers a client is told of, and whether they can be used as things are."""

from __future__ import annotations

from typing import Any

from tests.clients import Client, Machine

NO_KEY = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}


def providers(client: Client, **params: Any) -> dict[str, tuple[bool, str | None]]:
    rows = client.call("provider/list", **params)["providers"]
    assert all(row["name"] for row in rows)
    return {row["id"]: (row["authenticated"], row.get("source")) for row in rows}


def models(client: Client, **params: Any) -> dict[tuple[str, str], dict[str, Any]]:
    rows = client.call("model/list", **params)["models"]
    assert len({(row["provider"], row["id"]) for row in rows}) == len(rows)
    return {(row["provider"], row["id"]): row for row in rows}


def test_what_a_session_s_environment_and_key_allow(machine: Machine) -> None:
    (machine.home / "models").mkdir()
    mine = machine.home / "models" / "mine.gguf"
    mine.write_bytes(b"GGUF")
    client = machine.rpc(env=NO_KEY).greet()
    free = {"scripted": (True, None), "local": (True, None), "ollama": (True, None)}
    assert providers(client) == {**free, "openai-compatible": (False, None)}
    known = models(client)
    assert list(known) == [("scripted", "scripted"), ("local", "smollm2"), ("local", str(mine))]
    assert known["scripted", "scripted"] == {
        "provider": "scripted",
        "id": "scripted",
        "name": "Scripted answers",
        "context_window": 0,
        "max_output": 0,
        "reasoning": False,
        "images": True,
        "tools": True,
        "available": True,
    }
    small = known["local", "smollm2"]
    assert (small["context_window"], small["tools"], small["available"]) == (8_192, False, False)

    named = {"provider": "openai-compatible", "model": "m"}
    without = client.session(**named)
    assert providers(client, session_id=without)["openai-compatible"] == (False, None)
    assert ("openai-compatible", "m") not in models(client, session_id=without)
    by_variable = client.session(**named, env={"OPENAI_API_KEY": "sk-secret"})
    assert providers(client, session_id=by_variable)["openai-compatible"] == (True, "OPENAI_API_KEY")
    assert models(client, session_id=by_variable)["openai-compatible", "m"]["available"]
    by_key = client.session(**named, api_key="sk-secret")
    assert providers(client, session_id=by_key)["openai-compatible"] == (True, "--api-key")
    by_address = client.session(**named, base_url="http://127.0.0.1:9")
    assert providers(client, session_id=by_address)["openai-compatible"] == (True, None)
    client.call("session/set", session_id=by_key, provider="scripted")
    listed = models(client, session_id=by_key)
    assert list(listed) == list(known)
    assert providers(client, session_id=by_key)["openai-compatible"] == (True, "--api-key")
    error = client.error("model/list", session_id="x")
    assert error["data"]["kind"] == "session_not_found"


def test_what_is_left_empty_is_as_it_would_be_without(machine: Machine) -> None:
    client = machine.rpc("--provider", "ollama", "--model", "qwen", "--api-key", "k").greet()
    empty = {"provider": "", "model": "", "api_key": "", "base_url": ""}
    session = client.call("session/new", **empty)["session"]
    assert (session["provider"], session["model"]) == ("ollama", "qwen")
    assert providers(client, session_id=session["session_id"])["ollama"] == (True, "--api-key")
    session = client.call("session/set", session_id=session["session_id"], provider="", model="")["session"]
    assert (session["provider"], session["model"]) == ("ollama", "qwen")


def test_a_new_session_s_model_is_listed_when_only_the_flags_know_it(machine: Machine) -> None:
    client = machine.rpc("--provider", "ollama", "--model", "qwen", "--api-key", "k").greet()
    assert list(models(client)) == [("scripted", "scripted"), ("local", "smollm2"), ("ollama", "qwen")]
    assert providers(client)["ollama"] == (True, "--api-key")
