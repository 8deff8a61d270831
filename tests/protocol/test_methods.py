"""Params are read leniently, wrong values are named; every method says how it can fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from zotd.protocol.methods import METHOD_TYPES
from zotd.protocol.params import Params, SessionRef
from zotd.protocol.rpc_errors import ERROR_KINDS, METHOD_ERRORS, OF_EVERY_METHOD
from zotd.protocol.session_methods import SessionNew
from zotd.protocol.turn_methods import TurnStartParams

NEEDED: dict[str, dict[str, Any]] = {
    "initialize": {"protocol_version": 1},
    "ping": {},
    "rpc.discover": {},
    "$/cancelRequest": {},
    "$/cancel_request": {},
    "shutdown": {},
    "exit": {},
    "session/new": {},
    "session/load": {},
    "session/attach": {"session_id": "s"},
    "session/detach": {"session_id": "s"},
    "session/close": {"session_id": "s"},
    "session/delete": {"session_id": "s"},
    "session/rename": {"session_id": "s", "title": "t"},
    "session/list": {},
    "session/fork": {"session_id": "s", "message_id": 1},
    "session/export": {"session_id": "s", "format": "jsonl"},
    "session/import": {},
    "session/compact": {"session_id": "s"},
    "session/set": {"session_id": "s"},
    "session/state": {"session_id": "s"},
    "session/messages": {"session_id": "s"},
    "turn/start": {"session_id": "s", "text": "hello"},
    "turn/wait": {"session_id": "s", "turn_id": "t"},
    "turn/abort": {"session_id": "s"},
    "turn/queue": {"session_id": "s"},
    "turn/unqueue": {"session_id": "s", "turn_id": "t"},
    "turn/revert": {"session_id": "s", "turn_id": "t"},
    "session/clear": {"session_id": "s"},
    "notes/clear": {"session_id": "s"},
    "tool/list": {"session_id": "s"},
    "command/list": {"session_id": "s"},
    "command/run": {"session_id": "s", "name": "n"},
    "extension/list": {"session_id": "s"},
    "extension/reload": {"session_id": "s"},
    "extension/log": {"session_id": "s", "name": "n"},
    "panel/key": {"session_id": "s", "extension": "e", "panel_id": "p", "key": "up"},
    "panel/resize": {"session_id": "s", "extension": "e", "panel_id": "p", "width": 80, "height": 24},
    "panel/close": {"session_id": "s", "extension": "e", "panel_id": "p"},
    "workspace/trust": {"cwd": "/c", "trusted": True},
    "model/list": {},
    "provider/list": {},
    "skill/list": {},
    "theme/list": {},
    "daemon/status": {},
    "daemon/stop": {},
}
"""The least that each method accepts."""


def test_the_methods_in_use_are_these() -> None:
    assert METHOD_TYPES.keys() == NEEDED.keys()


@pytest.mark.parametrize("method", METHOD_TYPES)
def test_the_least_params_are_accepted_and_survive_a_round_trip(method: str) -> None:
    params, _ = METHOD_TYPES[method]
    read = msgspec.convert(NEEDED[method], params)
    assert msgspec.convert(msgspec.to_builtins(read), params) == read


@pytest.mark.parametrize("method", METHOD_TYPES)
def test_members_nobody_knows_are_ignored(method: str) -> None:
    params, _ = METHOD_TYPES[method]
    sent = {**NEEDED[method], "_meta": {"trace": 1}, "from_the_future": [1]}
    assert msgspec.convert(sent, params) == msgspec.convert(NEEDED[method], params)


@pytest.mark.parametrize(("method", "lost"), [(name, lost) for name in NEEDED for lost in NEEDED[name]])
def test_a_needed_member_that_is_missing_is_named(method: str, lost: str) -> None:
    sent = {name: value for name, value in NEEDED[method].items() if name != lost}
    with pytest.raises(msgspec.ValidationError, match=f"missing required field `{lost}`"):
        msgspec.convert(sent, METHOD_TYPES[method][0])


@pytest.mark.parametrize(
    ("struct", "wrong", "path"),
    [
        (SessionNew, {"max_steps": "3"}, "$.max_steps"),
        (SessionNew, {"env": {"A": 1}}, "$.env[...]"),
        (SessionNew, {"reasoning": "much"}, "$.reasoning"),
        (TurnStartParams, {"session_id": "s", "text": "", "if_busy": "wait"}, "$.if_busy"),
        (
            TurnStartParams,
            {"session_id": "s", "text": "", "images": [{"mime_type": 1}]},
            "$.images[0].mime_type",
        ),
    ],
)
def test_a_wrong_value_is_named_by_its_path(
    struct: type[msgspec.Struct], wrong: dict[str, Any], path: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as complaint:
        msgspec.convert(wrong, struct)
    assert f"`{path}`" in str(complaint.value)


@pytest.mark.parametrize("method", METHOD_TYPES)
def test_params_and_results_are_frozen(method: str) -> None:
    params, result = METHOD_TYPES[method]
    assert issubclass(params, Params)
    assert issubclass(params, SessionRef) is ("session_id" in NEEDED[method])
    assert all(struct.__struct_config__.frozen for struct in (params, result) if struct is not None)


def test_every_method_says_how_it_can_fail_and_every_kind_is_used() -> None:
    assert METHOD_ERRORS.keys() == METHOD_TYPES.keys()
    used = {*OF_EVERY_METHOD, *(kind for kinds in METHOD_ERRORS.values() for kind in kinds)}
    assert used == ERROR_KINDS.keys()


def test_a_method_on_a_session_can_miss_it() -> None:
    for name, (params, _) in METHOD_TYPES.items():
        # The preface of a run of the command line may name the session that `session/new` is to go on with.
        names_one = name == "session/new" or "session_id" in params.__struct_fields__
        assert ("session_not_found" in METHOD_ERRORS[name]) is names_one
