"""Owns the way of a JSON-RPC request to its method: params by their struct, refusals in JSON-RPC's words."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import jsonrpcserver
import msgspec
from jsonrpcserver.exceptions import JsonRpcError

from zotd.base.log import mistake
from zotd.daemon.calls import Caller, Method, Refused, Then, sparing
from zotd.daemon.service import LATER, METHODS
from zotd.protocol.methods import METHOD_TYPES
from zotd.wire import peer as rpc
from zotd.wire.peer import Request, problem

logging.getLogger("jsonrpcserver").disabled = True  # it prints what exceptions say, which may be private


class Call:
    """One request under way. action: what happens once its answer is sent, None until the method has said."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.action: Callable[[], object] | None = None


async def dispatch(request: Request, call: Call) -> dict[str, Any]:
    """Run the method of a request. Its response: `result`, or `error` with `code`, `message` and `data`."""
    response: Any = await jsonrpcserver.async_dispatch(
        {"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": request.params},
        methods=_ROUTES,
        context=call,
        deserializer=_unchanged,
        validator=_unchanged,
        serializer=_unchanged,
    )
    answer: dict[str, Any] = response
    return answer


def _unchanged(value: Any) -> Any:
    """The dispatcher wants to read and write JSON; frames are cut and written elsewhere."""
    return value


def _route(name: str, method: Method) -> Callable[..., Awaitable[Any]]:
    """A method as the dispatcher wants it: params by name, checked against their struct."""
    params_type = METHOD_TYPES[name][0]

    async def run(call: Call, /, **params: Any) -> Any:
        given = {key: value for key, value in params.items() if value is not None}
        for member, value in LATER.get(name, {}).items():
            if given.get(member, value) != value:
                message = f"{name}: $.{member}: this version cannot do what it asks for"
                data = problem("unsupported", "leave it out", path=f"$.{member}")
                raise JsonRpcError(rpc.INVALID_PARAMS, message, data)
        try:
            typed = msgspec.convert(given, params_type)
        except msgspec.ValidationError as wrong:
            typed = _without_nulls(name, given, params_type, wrong)
        try:
            result = await method(call.caller, typed)
        except Refused as no:
            call.action = no.then
            message = f"{name}: {no}" if no.code == rpc.INVALID_PARAMS else str(no)
            raise JsonRpcError(no.code, message, problem(no.kind, no.hint, **no.data)) from None
        except Exception as bug:
            mistake(f"request {name}", bug)
            raise
        if isinstance(result, Then):
            result, call.action = result
        return jsonrpcserver.Success({} if result is None else msgspec.to_builtins(result))

    return run


def _without_nulls(
    method: str, given: dict[str, Any], params_type: type[Any], wrong: msgspec.ValidationError
) -> Any:
    """Params that did not fit, where that was because null counts as absent deeper inside them too."""
    from zotd.base.misfit import misfit, present

    try:
        return msgspec.convert(present(given, params_type), params_type)
    except msgspec.ValidationError:
        fault = misfit(wrong, params_type, given)
        data = problem("invalid_params", path=fault.path)
        raise JsonRpcError(rpc.INVALID_PARAMS, f"{method}: {fault}", data) from None


_ROUTES = {name: _route(name, sparing(method)) for name, method in METHODS.items()}
