"""JSON-RPC both ways: what is asked, answered, taken back, and what is no request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.wire.peer import (
    CANCELLED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    OVERLOADED,
    PARSE_ERROR,
    Batch,
    Cancel,
    Invalid,
    Notification,
    Request,
    Response,
    RpcPeer,
    parse_error,
    problem,
)


def call(identity: Any, method: str = "ping", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, **more}


def refused(value: Any, peer: RpcPeer | None = None) -> dict[str, Any]:
    (item,) = (peer or RpcPeer(64)).receive(value)
    assert isinstance(item, Invalid)
    assert item.reply is not None
    return item.reply


@pytest.mark.parametrize("identity", [0, 1, "a", "", 1.5, -3])
def test_ids_of_every_kind_are_echoed_as_they_came(identity: Any) -> None:
    peer = RpcPeer(64)
    assert peer.receive(call(identity)) == [Request(identity, "ping", {})]
    assert peer.reply(identity, {}) == {"jsonrpc": "2.0", "id": identity, "result": {}}


def test_the_number_one_and_the_text_one_are_two_ids() -> None:
    peer = RpcPeer(64)
    assert [type(item) for value in (1, "1") for item in peer.receive(call(value))] == [Request, Request]
    assert peer.open_requests == 2


@pytest.mark.parametrize("more", [{}, {"params": None}, {"params": {}}, {"params": []}])
def test_every_way_to_send_no_params_is_the_same(more: dict[str, Any]) -> None:
    assert RpcPeer(64).receive(call(1, **more)) == [Request(1, "ping", {})]
    assert RpcPeer(64).receive({"jsonrpc": "2.0", "method": "exit", **more}) == [Notification("exit", {})]


@pytest.mark.parametrize("params", [[1], "x", 3, False])
def test_params_that_are_no_object_are_refused(params: Any) -> None:
    reply = refused(call(1, params=params))
    assert reply["id"] == 1
    assert reply["error"]["code"] == INVALID_PARAMS
    assert reply["error"]["data"] == {"kind": "invalid_params", "hint": "name the parameters", "path": "$"}
    assert RpcPeer(64).receive({"jsonrpc": "2.0", "method": "x", "params": params}) == [
        Invalid("x: `params` must be an object", None)
    ]


@pytest.mark.parametrize(
    ("value", "identity"),
    [
        (3, None),
        (None, None),
        ([], None),
        ({}, None),
        ({"id": 5}, 5),
        ({"jsonrpc": "2.0", "id": 5}, 5),
        ({"jsonrpc": "1.0", "id": 5, "method": "ping"}, 5),
        ({"jsonrpc": "2.0", "id": 5, "method": 3}, 5),
        (call(None), None),
        (call(True), None),
        (call([1]), None),
    ],
)
def test_what_is_no_request_is_answered_as_such(value: Any, identity: Any) -> None:
    reply = refused(value)
    assert reply["id"] == identity
    assert reply["error"]["code"] == INVALID_REQUEST
    assert reply["error"]["data"]["kind"] == "invalid_request"


def test_an_id_that_is_still_open_is_refused_and_free_again_after_the_reply() -> None:
    peer = RpcPeer(64)
    peer.receive(call(1))
    assert refused(call(1), peer)["error"]["code"] == INVALID_REQUEST
    peer.reply(1, {})
    assert peer.receive(call(1)) == [Request(1, "ping", {})]


def test_requests_past_the_limit_are_told_when_to_come_back() -> None:
    peer = RpcPeer(2)
    peer.receive([call(1), call(2)])
    failure = refused(call(3), peer)["error"]
    assert failure["code"] == OVERLOADED
    assert failure["data"]["kind"] == "overloaded"
    assert failure["data"]["retry_after_ms"] > 0
    peer.fail(1, -32000, "no")
    assert peer.receive(call(3)) == [Request(3, "ping", {})]


def test_a_batch_keeps_its_items_and_one_bad_one_spoils_nothing() -> None:
    peer = RpcPeer(64)
    request_id, _ = peer.request("approval/request", {})
    answer = {"jsonrpc": "2.0", "id": request_id, "result": {"decision": "allow"}}
    (batch,) = peer.receive([call(0), 3, {"jsonrpc": "2.0", "method": "note"}, answer])
    assert isinstance(batch, Batch)
    assert [type(item) for item in batch.items] == [Request, Invalid, Notification, Response]


@pytest.mark.parametrize("method", ["$/cancelRequest", "$/cancel_request"])
def test_a_request_that_is_taken_back_is_answered_once(method: str) -> None:
    peer = RpcPeer(64)
    peer.receive(call("a"))
    cancel = {"jsonrpc": "2.0", "method": method, "params": {"id": "a"}}
    assert peer.receive(cancel) == [Cancel("a")]
    answer = peer.cancel("a")
    assert answer is not None
    assert answer["error"]["code"] == CANCELLED
    assert peer.reply("a", {}) is None
    assert peer.cancel("a") is None
    assert peer.receive(cancel) == []
    assert peer.receive({**cancel, "params": {"id": [1]}}) == []


def test_our_requests_have_numbers_and_meet_their_answers() -> None:
    peer = RpcPeer(64)
    first, sent = peer.request("approval/request", {"a": 1})
    second, _ = peer.request("approval/request", {})
    assert sent == {"jsonrpc": "2.0", "id": first, "method": "approval/request", "params": {"a": 1}}
    assert peer.receive({"jsonrpc": "2.0", "id": second, "result": None}) == [
        Response(second, "approval/request", None, None)
    ]
    failure = {"code": -32601, "message": "no such method"}
    assert peer.receive({"jsonrpc": "2.0", "id": first, "error": failure}) == [
        Response(first, "approval/request", None, failure)
    ]


def test_an_answer_to_nothing_is_dropped_in_silence() -> None:
    peer = RpcPeer(64)
    assert peer.receive({"jsonrpc": "2.0", "id": 9, "result": {}}) == [
        Invalid("an answer to no question of ours, id 9", None)
    ]


def test_a_request_of_ours_can_be_withdrawn() -> None:
    peer = RpcPeer(64)
    request_id, _ = peer.request("approval/request", {})
    assert peer.withdraw(request_id) == peer.notification("$/cancelRequest", {"id": request_id})
    assert peer.withdraw(request_id) is None


def test_a_lost_connection_leaves_nothing_open() -> None:
    peer = RpcPeer(64)
    peer.receive(call(1))
    request_id, _ = peer.request("approval/request", {})
    assert peer.abandon() == [request_id]
    assert peer.open_requests == 0
    assert peer.reply(1, {}) is None


def test_errors_say_what_kind_they_are_and_what_to_do() -> None:
    assert problem("busy", "wait", path="$.x") == {"kind": "busy", "hint": "wait", "path": "$.x"}
    assert problem("busy") == {"kind": "busy"}
    reply = parse_error("malformed json: x")
    assert (reply["id"], reply["error"]["code"], reply["error"]["message"]) == (
        None,
        PARSE_ERROR,
        "malformed json: x",
    )


scraps: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2)
scraps |= st.just([]) | st.just({})
near_requests = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]),
    scraps | st.just("2.0"),
    max_size=6,
)


@given(st.lists(scraps | near_requests | st.lists(scraps | near_requests, max_size=3), max_size=8))
def test_any_values_are_items_and_every_open_request_can_be_answered(values: list[Any]) -> None:
    peer = RpcPeer(3)
    for value in values:
        for item in peer.receive(value):
            for one in item.items if isinstance(item, Batch) else [item]:
                if isinstance(one, Invalid):
                    assert one.reason
                if isinstance(one, Request):
                    assert peer.open_requests <= 3
                    assert peer.fail(one.id, -32601, "no such method") is not None
    assert peer.open_requests == 0
