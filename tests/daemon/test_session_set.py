"""Another model for a session that is open: what clients are told, and what the model's side notices."""

from __future__ import annotations

import os
from typing import Any

from tests.clients import Client, Machine, types

NO_KEY = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}


def using(session: dict[str, Any]) -> tuple[str, str, str]:
    return session["provider"], session["model"], session["reasoning"]


def test_provider_model_and_reasoning_change_from_the_next_call_on(machine: Machine) -> None:
    os.mkfifo(machine.cwd / "pipe")
    call = {"tool_call": {"name": "bash", "args": {"command": "cat pipe"}}}
    client = machine.rpc(
        *machine.script({"match": "go", "reply": [call]}, {"reply": [{"text": "hi"}]})
    ).greet()
    session = client.session()

    def change(**params: Any) -> tuple[str, str, str]:
        answer = client.call("session/set", session_id=session, **params)["session"]
        told = client.event("session_changed")
        assert told["session"] == {
            **answer,
            "next_seq": told["seq"] + 1,
            "updated": told["session"]["updated"],
        }
        assert client.call("session/state", session_id=session)["session"] == told["session"]
        return using(answer)

    def fault(**params: Any) -> tuple[str, str]:
        error = client.error("session/set", session_id=session, **params)
        return error["data"]["kind"], error["message"]

    assert change(model="other") == ("scripted", "other", "")
    assert change(reasoning="maximum") == ("scripted", "other", "max")
    assert change(provider="local") == ("local", "smollm2", "max")
    assert client.call("session/state", session_id=session)["session"]["context"]["window"] == 8_192
    assert change(provider="scripted", model="third:500", reasoning="off") == ("scripted", "third:500", "")
    assert change(approval="auto") == ("scripted", "third:500", "")

    kind, message = fault(provider="scriptd")
    assert kind == "invalid_params"
    assert message.startswith("session/set: $.provider: unknown provider 'scriptd': did you mean 'scripted'?")
    assert message.endswith("There are: scripted, local, ollama, openai-compatible")
    assert fault(provider="local", model="nothing")[1].startswith(
        "session/set: $.model: unknown local model 'nothing': expected smollm2"
    )
    kind, message = fault(provider="openai-compatible", model="m")
    assert kind == "provider_auth"
    assert "OPENAI_API_KEY=KEY" in message
    assert fault(provider="ollama")[0] == "invalid_params"  # it has no first model of its own
    assert fault(approval="never")[0] == "invalid_params"
    assert fault(reasoning="much")[0] == "invalid_params"
    assert using(client.call("session/state", session_id=session)["session"]) == ("scripted", "third:500", "")

    # In the middle of a turn: the next call is another model's.
    turn = client.call("turn/start", session_id=session, text="go")["turn_id"]
    client.event("tool_call")
    assert change(provider="local") == ("local", "smollm2", "")
    (machine.cwd / "pipe").write_text("on")
    ended = client.call("turn/wait", session_id=session, turn_id=turn)
    assert ended["stop"] == "error"
    assert "there is no model file" in ended["error"]["message"]


def test_a_session_without_credentials_is_mended(machine: Machine) -> None:
    client = machine.rpc("--provider", "openai-compatible", "--model", "m", env=NO_KEY).greet()
    session = client.session()
    error = client.error("turn/start", session_id=session, text="hello")
    assert error["data"]["kind"] == "provider_auth"
    error = client.error("session/set", session_id=session, model="n")
    assert error["data"]["kind"] == "provider_auth"
    changed = client.call("session/set", session_id=session, provider="scripted")["session"]
    assert using(changed) == ("scripted", "scripted", "")
    turn = client.call("turn/start", session_id=session, text="hello")["turn_id"]
    assert client.call("turn/wait", session_id=session, turn_id=turn)["text"] == "You said: hello"


def test_a_key_and_an_address_stay_with_the_provider_they_were_given_for(machine: Machine) -> None:
    client = machine.rpc(env=NO_KEY).greet()
    given = {
        "provider": "openai-compatible",
        "model": "m",
        "api_key": "k",
        "base_url": "http://127.0.0.1:9/v1",
    }
    session = client.session(**given)

    def change(**params: Any) -> tuple[str, str, str]:
        return using(client.call("session/set", session_id=session, **params)["session"])

    assert change(provider="ollama", model="o") == ("ollama", "o", "")
    assert change(provider="scripted") == ("scripted", "scripted", "")
    assert change(provider="openai-compatible", model="n") == ("openai-compatible", "n", "")
    turn = client.call("turn/start", session_id=session, text="hello")["turn_id"]
    ended = client.call("turn/wait", session_id=session, turn_id=turn)
    assert "127.0.0.1:9" in ended["error"]["message"]


def test_zot_clients_get_their_answer_and_then_the_news(machine: Machine) -> None:
    client: Client = machine.rpc()
    client.ask("get_state")
    client.send({"type": "set_model", "model": "other"})
    client.send({"type": "set_reasoning", "reasoning": "low"})
    frames = [client.next() for _ in range(4)]
    assert types(frames) == ["response", "session_changed", "response", "session_changed"]
    assert using(frames[1]["session"]) == ("scripted", "other", "")
    assert using(frames[3]["session"]) == ("scripted", "other", "low")
