"""Answers have all that the protocol promises, and refusals say where, why and what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine, types
from tests.daemon.puppets import flags, response

LIVE = {"epoch", "next_seq", "busy", "queue", "context", "notes", "panels", "pending_approvals", "extensions"}
"""Members of a session that rows of a list lack. Those that may be absent are not among them."""


def send(peer: Client, method: str, **params: Any) -> Frame:
    """As a client asks that sends what the schema has no room for."""
    peer.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
    return peer.reply(method)


def test_a_session_has_every_member_and_its_row_all_that_are_not_live(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted").greet()
    state = client.call("session/new", ephemeral=True)["session"]
    assert [state[name] for name in ("queue", "notes", "panels", "pending_approvals", "extensions")] == [
        []
    ] * 5
    assert state["last_message_id"] == 0
    saved = client.session(reasoning="high")
    turn = client.call("turn/start", session_id=saved, text="hi")["turn_id"]
    client.call("turn/wait", session_id=saved, turn_id=turn)
    state = client.call("session/state", session_id=saved)["session"]
    rows = {row["session_id"]: row for row in client.call("session/list")["sessions"]}
    assert [row["ephemeral"] for row in rows.values()] == [False, True]
    assert {name: rows[saved].get(name) for name in state if name not in LIVE} == {
        name: value for name, value in state.items() if name not in LIVE
    }
    client.call("workspace/trust", cwd=str(machine.cwd), trusted=True)
    client.call("session/close", session_id=saved)
    closed = {row["session_id"]: row for row in client.call("session/list")["sessions"]}[saved]
    assert closed == {**rows[saved], "open": False, "trusted": True, "updated": closed["updated"]}
    hint = client.error("session/state", session_id=saved)["data"]["hint"]
    assert "session/attach" in hint
    assert "session/load" in hint
    renamed = client.call("session/rename", session_id=saved, title="t")["session"]
    assert (renamed["epoch"], renamed["trusted"], renamed["title"]) == ("", True, "t")


@pytest.mark.parametrize("dialect", ["jsonrpc", "zot"])
def test_who_shares_a_session_is_told_that_it_ended_and_how(machine: Machine, dialect: str) -> None:
    _, socket = machine.listen("--provider", "scripted")
    client, other = machine.connect(socket).greet(), machine.connect(socket)
    for method, reason in (("session/close", "closed"), ("session/delete", "deleted")):
        session = client.session()
        client.call("turn/start", session_id=session, text="hi")
        seq = client.event("done")["seq"]
        if dialect == "zot":
            assert other.ask("attach", session_id=session)["success"]
        else:
            other = machine.connect(socket).greet()
            other.call("session/attach", session_id=session)
        client.call(method, session_id=session)
        last = other.event("session_closed") if dialect == "jsonrpc" else other.until("session_closed")[-1]
        assert (last["reason"], last["session_id"], last["seq"]) == (reason, session, seq + 1)
        assert client.event("session_closed") == last
    if dialect == "zot":
        refused = other.ask("get_state")
        assert (refused["success"], "attach" in refused["error"]) == (False, True)
        assert other.ask("attach", session_id=client.session())["success"]
        assert other.ask("get_state")["success"]
    else:
        assert other.error("session/state", session_id=session)["data"]["kind"] == "session_not_found"


def test_what_is_wrong_with_params_is_said_with_its_place(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted").greet()
    session = client.session()
    for method, params, path in (
        ("session/new", {"tools": ["bash", "zz"]}, "$.tools[1]"),
        ("session/new", {"provider": "zz"}, "$.provider"),
        ("session/new", {"provider": "openai-compatible", "model": "m", "base_url": "x"}, "$.base_url"),
        ("session/new", {"base_url": "http://127.0.0.1:1"}, "$.base_url"),
        ("session/new", {"provider": "openai-compatible", "base_url": "http://127.0.0.1:1"}, "$.model"),
        ("session/new", {"model": "zz", "provider": "local"}, "$.model"),
        ("session/new", {"env": {"A": "\0"}}, "$.env.A"),
        ("session/new", {"env": {"A": None}}, "$.env.A"),
        ("session/new", {"cwd": "/nowhere"}, "$.cwd"),
        ("session/new", {"max_steps": 0}, "$.max_steps"),
        ("session/new", {"approval": "maybe"}, "$.approval"),
        ("session/new", {"cwd": 7}, "$.cwd"),
        ("session/new", {"extensions": ["/x", 7]}, "$.extensions[1]"),
        ("session/set", {"session_id": session, "provider": "zz"}, "$.provider"),
        ("session/messages", {"session_id": session, "limit": 0}, "$.limit"),
        ("session/messages", {"session_id": session, "limit": -5}, "$.limit"),
        ("session/messages", {"session_id": session, "since": -1}, "$.since"),
        ("session/messages", {}, "$.session_id"),
        ("session/list", {"limit": 0}, "$.limit"),
        ("session/list", {"cursor": "seven"}, "$.cursor"),
        ("session/list", {"cwd": "x"}, "$.cwd"),
        ("session/load", {}, "$"),
        ("session/load", {"latest": True, "cwd": "x"}, "$.cwd"),
        ("session/import", {}, "$"),
        ("session/rename", {"session_id": session, "title": "x" * 1000}, "$.title"),
        ("session/export", {"session_id": session, "format": "html", "path": "x"}, "$.path"),
        ("turn/start", {"session_id": session, "text": " "}, "$.text"),
        (
            "turn/start",
            {"session_id": session, "text": "x", "images": [{"mime_type": "image/png"}]},
            "$.images[0]",
        ),
        ("workspace/trust", {"cwd": "\0", "trusted": True}, "$.cwd"),
        ("initialize", {"protocol_version": 9}, "$.protocol_version"),
    ):
        error = send(client, method, **params).get("error", {"code": 0, "message": "", "data": {}})
        assert (error["code"], error["data"].get("path")) == (-32602, path), (method, params, error)
        assert f"{path}: " in error["message"], error


def test_null_counts_as_absent_wherever_it_stands(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted")
    said = {"client": {"name": "x", "version": None}, "capabilities": {"panels": None, "insert": True}}
    assert "result" in send(client, "initialize", protocol_version=1, **said)
    context = [{"type": "text", "text": "t", "path": None, "start": None}]
    started = send(client, "turn/start", session_id=client.session(), text="hi", context=context, images=None)
    assert started["result"]["state"] == "started"


@pytest.mark.parametrize("method", ["$/cancelRequest", "$/cancel_request"])
def test_a_cancellation_with_an_id_is_answered_and_listed(machine: Machine, method: str) -> None:
    client = machine.rpc(*machine.script({"reply": [{"text": "one two", "delay_ms": 60_000}]}))
    introduced = client.call("initialize", protocol_version=1)
    assert method in introduced["capabilities"]["methods"]
    assert method in [row["name"] for row in client.call("rpc.discover")["methods"]]
    session = client.session()
    turn = client.call("turn/start", session_id=session, text="hi")["turn_id"]
    waiting = client.request("turn/wait", session_id=session, turn_id=turn)
    assert client.call(method, id=waiting) == {}
    assert client.reply(waiting)["error"]["code"] == -32800
    assert client.call(method, id=waiting) == {}
    assert client.call("turn/abort", session_id=session)["aborted"]


def test_a_wrong_token_ends_a_private_daemon_as_in_the_zot_dialect(machine: Machine) -> None:
    client = machine.rpc(env={"ZOTD_TOKEN": "right"})
    assert client.error("initialize", protocol_version=1, token="wrong")["data"]["kind"] == "auth"
    assert client.exit_code() == 1
    assert client.stderr == "zotd: invalid token\n"


def test_a_text_for_the_prompt_that_no_client_can_take_is_sent_and_the_log_says_so(machine: Machine) -> None:
    remark = "[zotd] no attached client says that it takes the text of /pup into its prompt"
    _, socket = machine.listen(*flags(machine, "pup"))
    for capabilities in ({"panels": True}, {"insert": True}):
        client = machine.connect(socket).greet(capabilities=capabilities)
        session = client.session()
        args = json.dumps([response("insert", insert="text")])
        client.call("command/run", session_id=session, name="pup", args=args)
        assert client.event("ext_insert")["text"] == "text"
        log = client.call("extension/log", session_id=session, name="pup")["text"]
        assert log.count(remark) == 1  # one log of one home: the second one adds none


def test_a_queued_summary_is_of_whoever_asked_for_it(machine: Machine) -> None:
    client = machine.rpc(*machine.script({"reply": [{"text": "one two", "delay_ms": 60_000}], "times": 0}))
    client.greet(client={"name": "nvim"})
    session = client.session()
    client.call("turn/start", session_id=session, text="hi")
    client.call("command/run", session_id=session, name="compact")
    (row,) = client.call("turn/queue", session_id=session)["turns"]
    assert (row["text"], row["client"]) == ("/compact", "nvim")
    client.call("turn/abort", session_id=session, clear_queue=True)
    assert "session was opened" in client.error("turn/wait", session_id=session, turn_id="x")["data"]["hint"]


def test_a_session_without_a_file_is_attached_by_the_beginning_of_its_id(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted").greet()
    session = client.session(ephemeral=True)
    for method in ("session/attach", "session/load"):
        assert client.call(method, session_id=session[:8])["session"]["session_id"] == session
        assert client.error(method, session_id=session[:3])["data"]["kind"] == "session_not_found"


def test_a_reload_waits_for_a_built_in_tool_that_runs(machine: Machine) -> None:
    go = machine.root / "go"
    go_on = {"name": "bash", "args": {"command": f"echo on; while [ ! -e {go} ]; do :; done; echo off"}}
    argv = flags(machine, "pup", script=[{"reply": [{"tool_call": go_on}]}, {"reply": [{"text": "end"}]}])
    client = machine.rpc(*argv).greet()
    session = client.session()
    client.call("turn/start", session_id=session, text="go")
    client.event("tool_progress")
    client.events.clear()
    reloading = client.request("extension/reload", session_id=session)
    client.call("ping")
    assert "ext_state" not in types(client.events)
    go.touch()
    assert client.reply(reloading)["result"]["ready"] == ["pup"]
    kinds = types(client.events)
    assert kinds.index("tool_result") < kinds.index("ext_state")
