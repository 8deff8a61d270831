"""Owns JSON-RPC 2.0 for one connection, both ways: who asked what, what is still open, what is no request.

Values come in parsed and go out as plain dicts; framing and dispatch are somebody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
OVERLOADED = -32001
NOT_INITIALIZED = -32002
CANCELLED = -32800

RETRY_AFTER_MS = 100
"""What an overloaded client is told to wait: a turn's first delta takes about that long."""

CANCEL_METHODS = frozenset({"$/cancelRequest", "$/cancel_request"})
"""The language server protocol's spelling and the agent client protocol's."""

RpcId: TypeAlias = str | int | float
Params: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """Wants a reply: pass `id` to `reply` or `fail`. `params` is `{}` when none were sent."""

    id: RpcId
    method: str
    params: Params


@dataclass(frozen=True, slots=True)
class Notification:
    """Wants no reply."""

    method: str
    params: Params


@dataclass(frozen=True, slots=True)
class Cancel:
    """The peer takes back the open request `id`: stop the work and send what `cancel` returns."""

    id: RpcId


@dataclass(frozen=True, slots=True)
class Response:
    """The peer's answer to our request `id`. Exactly one of `result` and `error` means something.

    error: None for success, else `{code, message, data?}`, as far as the peer kept to that.
    """

    id: RpcId
    method: str
    result: Any
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Invalid:
    """What came is no request we can serve. Send `reply`; None means that silence is the right answer."""

    reason: str
    reply: dict[str, Any] | None


Item: TypeAlias = Request | Notification | Cancel | Response | Invalid


@dataclass(frozen=True, slots=True)
class Batch:
    """Several at once. Their replies go out together as one array, or not at all if there are none."""

    items: Sequence[Item]


class RpcPeer:
    """One end of a connection.

    `in_flight` is how many requests of the peer may be open at once; more are refused with -32001.
    """

    def __init__(self, in_flight: int) -> None:
        self._limit = in_flight
        self._inbound: set[RpcId] = set()
        self._outbound: dict[RpcId, str] = {}
        self._last_id = 0

    @property
    def open_requests(self) -> int:
        """Requests of the peer that have no reply yet."""
        return len(self._inbound)

    def receive(self, value: Any) -> list[Item | Batch]:
        """What one JSON value means. Empty when it takes back a request that is answered already."""
        if not isinstance(value, list):
            item = self._item(value)
            return [] if item is None else [item]
        if not value:
            return [_invalid(None, INVALID_REQUEST, "an empty batch asks for nothing")]
        return [Batch([item for item in map(self._item, value) if item is not None])]

    def request(self, method: str, params: Params) -> tuple[RpcId, dict[str, Any]]:
        """A request to the peer: its id, by which the Response will be known, and the object to send."""
        self._last_id += 1
        self._outbound[self._last_id] = method
        return self._last_id, {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}

    def withdraw(self, id: RpcId) -> dict[str, Any] | None:  # noqa: A002
        """Takes our request back: the notification to send, or None if it was answered already."""
        if self._outbound.pop(id, None) is None:
            return None
        return self.notification("$/cancelRequest", {"id": id})

    def abandon(self) -> list[RpcId]:
        """The connection is gone: the ids of our requests that will never be answered."""
        left = list(self._outbound)
        self._outbound.clear()
        self._inbound.clear()
        return left

    def notification(self, method: str, params: Params) -> dict[str, Any]:
        """A notification to the peer."""
        return {"jsonrpc": "2.0", "method": method, "params": params}

    def reply(self, id: RpcId, result: Any) -> dict[str, Any] | None:  # noqa: A002
        """The success of an open request, or None if it is not open any more (it was cancelled)."""
        if not self._close(id):
            return None
        return {"jsonrpc": "2.0", "id": id, "result": result}

    def fail(
        self,
        id: RpcId,  # noqa: A002
        code: int,
        message: str,
        data: dict[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """The failure of an open request, or None if it is not open any more. `data` from `problem`."""
        return error(id, code, message, data) if self._close(id) else None

    def cancel(self, id: RpcId) -> dict[str, Any] | None:  # noqa: A002
        """The -32800 answer to a request that was taken back, or None if it is not open any more."""
        return self.fail(id, CANCELLED, "request cancelled", problem("cancelled"))

    def _close(self, id: RpcId) -> bool:  # noqa: A002
        if id not in self._inbound:
            return False
        self._inbound.discard(id)
        return True

    def _item(self, value: Any) -> Item | None:
        if not isinstance(value, dict):
            return _invalid(None, INVALID_REQUEST, "a request is an object")
        if "method" not in value and "id" in value and ("result" in value or "error" in value):
            return self._response(value)
        request_id = value.get("id")
        if "id" in value and not _is_id(request_id):
            return _invalid(None, INVALID_REQUEST, "`id` must be a string or a number")
        method = value.get("method")
        if value.get("jsonrpc") != "2.0":
            return _invalid(request_id, INVALID_REQUEST, '`jsonrpc` must be "2.0"')
        if not isinstance(method, str):
            return _invalid(request_id, INVALID_REQUEST, "`method` must be a string")
        params = value.get("params")
        if params is None or params == []:
            params = {}
        if not isinstance(params, dict):
            return self._odd_params(request_id, method)
        if request_id is None:
            return self._cancelling(params) if method in CANCEL_METHODS else Notification(method, params)
        return self._admit(Request(request_id, method, params))

    def _admit(self, request: Request) -> Request | Invalid:
        if request.id in self._inbound:
            return _invalid(request.id, INVALID_REQUEST, f"id {request.id!r} belongs to a request still open")
        if len(self._inbound) >= self._limit:
            message = f"{self._limit} requests are open already"
            data = problem("overloaded", "wait for answers, then ask again", retry_after_ms=RETRY_AFTER_MS)
            return Invalid(message, error(request.id, OVERLOADED, message, data))
        self._inbound.add(request.id)
        return request

    def _cancelling(self, params: Params) -> Cancel | None:
        # The agent client protocol spells it in camel case.
        wanted = params.get("id", params.get("requestId"))
        return Cancel(wanted) if _is_id(wanted) and wanted in self._inbound else None

    def _response(self, value: dict[str, Any]) -> Response | Invalid:
        answered = value["id"]
        method = self._outbound.pop(answered, None) if _is_id(answered) else None
        if method is None:
            return Invalid(f"an answer to no question of ours, id {answered!r}", None)
        failure = value.get("error")
        if failure is None:
            return Response(answered, method, value.get("result"), None)
        if not isinstance(failure, dict):
            failure = {"code": INTERNAL_ERROR, "message": str(failure)}
        return Response(answered, method, None, failure)

    def _odd_params(self, request_id: RpcId | None, method: str) -> Invalid:
        message = f"{method}: `params` must be an object"
        if request_id is None:
            return Invalid(message, None)
        data = problem("invalid_params", "name the parameters", path="$")
        return Invalid(message, error(request_id, INVALID_PARAMS, message, data))


def notification_of(method: str, params: bytes) -> bytes:
    """A notification whose params, one JSON object, were encoded before."""
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)


def error(
    id: RpcId | None,  # noqa: A002
    code: int,
    message: str,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An error object to send. `id` is None when the request's own could not be read."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": id, "error": body}


def problem(kind: str, hint: str = "", **more: Any) -> dict[str, Any]:
    """The `data` of an error: a stable word, what to do about it, and members of that kind's own."""
    return {"kind": kind, **({"hint": hint} if hint else {}), **more}


def parse_error(message: str) -> dict[str, Any]:
    """The answer to bytes that hold no JSON value."""
    return error(None, PARSE_ERROR, message, problem("parse", "send one JSON value per frame, in UTF-8"))


def _invalid(id: RpcId | None, code: int, message: str) -> Invalid:  # noqa: A002
    hint = "send JSON-RPC 2.0 requests, notifications or responses"
    return Invalid(message, error(id, code, message, problem("invalid_request", hint)))


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
