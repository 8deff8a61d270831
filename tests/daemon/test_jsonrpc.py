"""JSON-RPC on both framings and both transports, against a real process."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine, fits, gone, text_of, types

SLOW = {"reply": [{"text": "one two three four five", "delay_ms": 60_000}], "times": 0}
Open = Callable[..., Client]


def bash(command: str) -> Frame:
    return {"reply": [{"tool_call": {"name": "bash", "args": {"command": command}}}]}


@pytest.fixture(params=["stdio", "socket"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["lines", "headers"])
def open_client(request: pytest.FixtureRequest, transport: str, machine: Machine) -> Open:
    """Starts zotd with the given flags and gives a client of it."""
    headers = request.param == "headers"

    def connect(*argv: str, env: dict[str, str] | None = None) -> Client:
        if transport == "stdio":
            return machine.rpc(*argv, headers=headers, env=env)
        _, path = machine.listen(*argv, env=env)
        return machine.connect(path, headers=headers)

    return connect


def start(client: Client, session: str, text: str, **more: Any) -> str:
    turn_id: str = client.call("turn/start", session_id=session, text=text, **more)["turn_id"]
    return turn_id


# On every way in


def test_a_turn_is_answered_before_its_events_which_are_numbered_by_one(open_client: Open) -> None:
    client = open_client().greet(client={"name": "test", "version": "1"})
    session = client.session()
    assert client.events == []
    number = client.request("turn/start", session_id=session, text="hi")
    accepted = client.reply(number)["result"]
    assert client.events == []
    assert accepted["state"] == "started"
    ended = client.call("turn/wait", session_id=session, turn_id=accepted["turn_id"])
    assert (ended["stop"], ended["text"]) == ("end_turn", "You said: hi")
    assert ended["usage"]["output"] > 0
    while "done" not in types(client.events):
        client.take()
    assert types(client.events)[0] == "user_message"
    assert text_of(client.events) == "You said: hi"
    assert {event["turn_id"] for event in client.events} == {accepted["turn_id"]}
    assert {event["session_id"] for event in client.events} == {session}
    assert [event["seq"] for event in client.events] == list(range(1, len(client.events) + 1))
    assert client.call("turn/wait", session_id=session, turn_id=accepted["turn_id"]) == ended


def test_a_turn_is_aborted_in_the_middle_of_a_command(machine: Machine, open_client: Open) -> None:
    client = open_client(*machine.script(bash("echo $$; exec sleep 300"))).greet()
    session = client.session()
    turn = start(client, session, "go")
    pid = int(client.event("tool_progress")["text"].splitlines()[-1])
    queued = client.call("turn/start", session_id=session, text="later")
    assert (queued["state"], queued["position"]) == ("queued", 1)
    state = client.call("session/state", session_id=session)["session"]
    assert (state["busy"], state["active_turn"]) == (True, turn)
    assert [row["text"] for row in state["queue"]] == ["later"]
    aborted = client.call("turn/abort", session_id=session, clear_queue=True)
    assert aborted == {"aborted": True, "unqueued": ["later"]}
    assert client.call("turn/wait", session_id=session, turn_id=turn)["stop"] == "aborted"
    assert client.call("turn/wait", session_id=session, turn_id=queued["turn_id"])["stop"] == "aborted"
    assert gone(pid)
    assert client.call("turn/abort", session_id=session) == {"aborted": False, "unqueued": []}


def test_before_initialize_only_ping_is_answered(open_client: Open) -> None:
    client = open_client()
    assert client.call("ping") == {}
    error = client.error("session/new")
    assert (error["code"], error["data"]["kind"]) == (-32002, "not_initialized")
    wrong = client.error("initialize", protocol_version=999)
    assert (wrong["code"], wrong["data"]["kind"]) == (-32602, "protocol_version")
    assert "update" in wrong["data"]["hint"]
    assert client.error("session/new")["code"] == -32002
    greeted = client.call("initialize", protocol_version=1)
    assert greeted["server"]["name"] == "zotd"
    assert "turn/start" in greeted["capabilities"]["methods"]
    assert client.session()


def test_what_is_wrong_is_answered_with_its_code_and_the_next_request_is_served(open_client: Open) -> None:
    client = open_client().greet()
    assert client.error("no/such")["code"] == -32601
    wrong: list[tuple[str, Frame, str]] = [
        ("turn/start", {"session_id": 3, "text": "x"}, "$.session_id"),
        ("turn/start", {"session_id": "x"}, "text"),
        ("session/new", {"tools": ["read", 3]}, "$.tools[1]"),
        ("session/new", {"max_steps": 0}, "$.max_steps"),
        ("session/new", {"provider": "nobody"}, "nobody"),
    ]
    for method, params, path in wrong:
        error = client.error(method, **params)
        assert (error["code"], error["data"]["kind"]) == (-32602, "invalid_params")
        assert path in error["message"]
    assert client.error("session/state", session_id="x")["data"]["kind"] == "session_not_found"
    session = client.session()
    gone_turn = client.error("turn/wait", session_id=session, turn_id="x")
    assert gone_turn["data"]["kind"] == "turn_not_found"
    assert client.error("turn/start", session_id=session, text=" ")["code"] == -32602
    assert client.call("ping") == {}


def test_a_missing_or_wrong_token_closes_the_connection(open_client: Open) -> None:
    client = open_client("--provider", "scripted", env={"ZOTD_TOKEN": "secret"})
    error = client.error("initialize", protocol_version=1, token="wrong")
    assert error["data"]["kind"] == "auth"
    assert client.raw() is None


def test_the_right_token_opens_it(open_client: Open) -> None:
    client = open_client("--provider", "scripted", env={"ZOTCORE_RPC_TOKEN": "secret"})
    assert client.error("session/new")["code"] == -32002
    assert client.greet(token="secret").session()


# Once is enough


def test_messages_come_in_pages(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted")
    client.greet()
    session = client.session()
    for text in ("a", "b"):
        client.call("turn/wait", session_id=session, turn_id=start(client, session, text))
    pages, since = [], None
    while True:
        page = client.call("session/messages", session_id=session, limit=3, since=since)
        pages.append([row["message_id"] for row in page["messages"]])
        if (since := page.get("next")) is None:
            break
    assert pages == [[1, 2, 3], [4]]
    whole = client.call("session/messages", session_id=session)["messages"]
    assert [row["role"] for row in whole] == ["user", "assistant"] * 2
    assert whole[1]["content"] == [{"type": "text", "text": "You said: a"}]
    assert client.call("session/messages", session_id=session, since=4)["messages"] == []
    assert client.call("session/state", session_id=session)["session"]["message_count"] == 4


def test_params_may_be_absent_null_or_empty(machine: Machine) -> None:
    client = machine.rpc()
    several: list[Frame] = [{}, {"params": None}, {"params": {}}, {"params": []}]
    for number, params in enumerate(several):
        client.send({"jsonrpc": "2.0", "id": number, "method": "ping", **params})
        assert client.reply(number)["result"] == {}


def test_an_id_comes_back_as_it_was_sent(machine: Machine) -> None:
    client = machine.rpc()
    for given in (0, -1, 2**53, "seven", ""):
        client.send({"jsonrpc": "2.0", "id": given, "method": "ping"})
        assert client.raw() == {"jsonrpc": "2.0", "id": given, "result": {}}


def test_unknown_members_and_meta_are_ignored(machine: Machine) -> None:
    client = machine.rpc()
    assert client.call("initialize", protocol_version=1, _meta={"x": 1}, later=True)


@pytest.mark.parametrize("line", [b"{", b'{"jsonrpc":', b"\xff", b"nonsense"])
def test_what_is_no_json_gets_a_parse_error_and_the_next_line_is_served(
    machine: Machine, line: bytes
) -> None:
    client = machine.rpc()
    for _ in range(2):  # before the dialect is known, and after
        client.write(line + b"\n")
        error = client.raw()
        assert (error["id"], error["error"]["code"]) == (None, -32700)
        assert client.call("ping") == {}


@pytest.mark.parametrize(
    "value", [{"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "1.0", "id": 1, "method": "ping"}, [], 3, "x"]
)
def test_what_is_no_request_gets_invalid_request(machine: Machine, value: Any) -> None:
    client = machine.rpc()
    client.call("ping")
    client.send(value)
    error = client.raw()
    assert error["error"]["code"] == -32600
    assert client.call("ping") == {}


def test_a_batch_is_answered_as_one_array(machine: Machine) -> None:
    client = machine.rpc()
    batch = [
        {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {"protocol_version": 1}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 99}},
        {"jsonrpc": "2.0", "id": "b", "method": "ping"},
        {"jsonrpc": "2.0", "id": "c", "method": "no/such"},
        3,
    ]
    client.send(batch)
    replies = client.raw()
    by_id = {reply["id"]: reply for reply in replies}
    assert set(by_id) == {"a", "b", "c", None}
    fits(by_id["a"]["result"], "Initialized")
    assert by_id["b"]["result"] == {}
    assert by_id["c"]["error"]["code"] == -32601
    assert by_id[None]["error"]["code"] == -32600
    client.send([{"jsonrpc": "2.0", "method": "$/unknown"}])
    assert client.call("ping") == {}


def test_a_first_batch_need_not_begin_with_a_request(machine: Machine) -> None:
    client = machine.rpc()
    client.send([1, {"jsonrpc": "2.0", "id": "p", "method": "ping"}])
    refusal, answer = client.raw()
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    assert (answer["id"], answer["result"]) == ("p", {})


def test_a_turn_started_in_a_batch_is_answered_before_its_events(machine: Machine) -> None:
    client = machine.rpc()
    client.greet()
    session = client.session()
    params = {"session_id": session, "text": "hi"}
    client.send([{"jsonrpc": "2.0", "id": "t", "method": "turn/start", "params": params}])
    (reply,) = client.raw()
    assert reply["result"]["state"] == "started"
    assert client.event("done")["turn_id"] == reply["result"]["turn_id"]


def test_a_batch_with_a_wrong_token_is_answered_before_its_client_is_hung_up_on(machine: Machine) -> None:
    client = machine.rpc(env={"ZOTD_TOKEN": "right"})
    params = {"protocol_version": 1, "token": "wrong"}
    client.send(
        [
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        ]
    )
    kinds = {reply["id"]: reply["error"]["data"]["kind"] for reply in client.raw()}
    assert kinds == {0: "auth", 1: "not_initialized"}
    assert client.raw() is None
    assert client.exit_code() == 1


def test_what_a_batch_began_does_not_wait_for_its_last_answer(machine: Machine) -> None:
    client = machine.rpc(
        *machine.script({"match": "slow", **SLOW}, {"reply": [{"text": "quick"}], "times": 0})
    )
    client.greet()
    here, there = client.session(), client.session()
    slow = start(client, there, "slow")
    prompt = {"session_id": here, "text": "hi", "if_busy": "reject"}
    client.send(
        [
            {"jsonrpc": "2.0", "id": "a", "method": "turn/start", "params": prompt},
            {"jsonrpc": "2.0", "id": "b", "method": "turn/start", "params": prompt},
            {
                "jsonrpc": "2.0",
                "id": "w",
                "method": "turn/wait",
                "params": {"session_id": there, "turn_id": slow},
            },
        ]
    )
    done = client.event("done")
    assert done["session_id"] == here
    abort = {"jsonrpc": "2.0", "method": "turn/abort", "params": {"session_id": there}}
    client.send({"id": "x", **abort})
    while not isinstance(answer := client.raw(), list):
        assert "method" in answer or answer["id"] == "x"
    accepted, busy, ended = sorted(answer, key=lambda reply: str(reply["id"]))
    assert accepted["result"] == {"turn_id": done["turn_id"], "state": "started"}
    assert busy["error"]["data"]["kind"] == "busy"
    assert ended["result"]["stop"] == "aborted"


@pytest.mark.parametrize("method", ["$/cancelRequest", "$/cancel_request"])
def test_a_wait_can_be_cancelled_and_the_turn_goes_on(machine: Machine, method: str) -> None:
    client = machine.rpc(*machine.script(SLOW))
    client.greet()
    session = client.session()
    turn = start(client, session, "go")
    waiting = client.request("turn/wait", session_id=session, turn_id=turn)
    client.send({"jsonrpc": "2.0", "method": method, "params": {"id": waiting}})
    error = client.reply(waiting)["error"]
    assert (error["code"], error["data"]["kind"]) == (-32800, "cancelled")
    assert client.call("session/state", session_id=session)["session"]["busy"]
    assert client.call("turn/abort", session_id=session)["aborted"]
    assert client.call("turn/wait", session_id=session, turn_id=turn)["stop"] == "aborted"


def test_requests_beyond_64_in_flight_are_refused_with_a_time_to_wait(machine: Machine) -> None:
    client = machine.rpc(*machine.script(SLOW))
    client.greet()
    session = client.session()
    turn = start(client, session, "go")
    waits = [client.request("turn/wait", session_id=session, turn_id=turn) for _ in range(64)]
    error = client.error("ping")
    assert (error["code"], error["data"]["kind"]) == (-32001, "overloaded")
    assert error["data"]["retry_after_ms"] > 0
    client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": waits[0]}})
    client.reply(waits[0])
    assert client.call("turn/abort", session_id=session)["aborted"]
    assert {client.reply(wait)["result"]["stop"] for wait in waits[1:]} == {"aborted"}


def test_a_prompt_that_will_not_queue_is_refused_while_a_turn_runs(machine: Machine) -> None:
    client = machine.rpc(*machine.script(SLOW))
    client.greet()
    session = client.session()
    start(client, session, "go")
    error = client.error("turn/start", session_id=session, text="x", if_busy="reject")
    assert error["data"]["kind"] == "busy"


def test_a_failed_turn_says_why(machine: Machine) -> None:
    client = machine.rpc(*machine.script({"error": {"status": 400, "message": "ill"}}))
    client.greet()
    session = client.session()
    ended = client.call("turn/wait", session_id=session, turn_id=start(client, session, "go"))
    assert ended["stop"] == "error"
    assert ended["error"]["kind"]
    assert "ill" in ended["error"]["message"]


def test_without_credentials_the_error_says_so_and_the_connection_lives_on(machine: Machine) -> None:
    client = machine.rpc("--model", "gpt-5")
    client.greet()
    error = client.error("turn/start", session_id=client.session(), text="hi")
    assert error["data"]["kind"] == "provider_auth"
    assert "OPENAI_API_KEY" in error["message"]
    assert client.session(provider="scripted")


def test_a_session_has_the_folder_and_the_environment_it_asked_for(machine: Machine) -> None:
    (machine.cwd / "deep").mkdir()
    script = machine.script(bash("pwd; echo $COLOUR.$HOME.$ZOT_HOME"), {"reply": [{"text": "end"}]})
    client = machine.rpc(*script)
    client.greet()
    env = {"PATH": machine.env["PATH"], "COLOUR": "green"}
    session = client.session(cwd=str(machine.cwd / "deep"), env=env)
    start(client, session, "go")
    text = client.event("tool_result")["content"][0]["text"]
    assert f"{machine.cwd}/deep\ngreen..{machine.home}\n" in text
    assert client.error("session/new", cwd="/no/such/folder")["code"] == -32602


def test_a_huge_frame_is_refused_and_the_stream_stays_in_step(machine: Machine) -> None:
    client = machine.rpc()
    client.call("ping")
    client.write(b'{"x":"' + b"y" * (17 << 20) + b'"}\n')
    assert client.raw()["error"]["code"] in (-32700, -32600)
    assert client.call("ping") == {}


def test_frames_cut_anywhere_and_characters_of_all_kinds_come_through(machine: Machine) -> None:
    client = machine.rpc()
    client.greet()
    session = client.session()
    text = "é ‑ 漢字 😀 \u2028 \u2029 \x00 end"
    params = {"session_id": session, "text": text}
    frame = {"jsonrpc": "2.0", "id": "t", "method": "turn/start", "params": params}
    for byte in json.dumps(frame, ensure_ascii=False).encode() + b"\n":
        client.write(bytes([byte]))
    turn = client.reply("t")["result"]["turn_id"]
    ended = client.call("turn/wait", session_id=session, turn_id=turn)
    assert ended["text"] == f"You said: {text}"


def test_at_the_end_of_input_the_turn_is_finished_and_waits_are_answered(machine: Machine) -> None:
    slow = {"reply": [{"text": "one two three", "delay_ms": 100}]}
    client = machine.rpc(*machine.script(slow))
    client.greet()
    session = client.session()
    turn = start(client, session, "go")
    waiting = client.request("turn/wait", session_id=session, turn_id=turn)
    client.hang_up()
    assert client.reply(waiting)["result"]["text"] == "one two three"
    assert client.exit_code() == 0


def test_sigterm_ends_a_running_turn_and_exits_0(machine: Machine) -> None:
    client = machine.rpc(*machine.script(SLOW))
    client.greet()
    start(client, client.session(), "go")
    client.event("text_delta")
    client.signal(signal.SIGTERM)
    assert client.popen.wait(5) == 0
    assert client.stderr == ""
