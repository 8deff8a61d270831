"""The page of the RPC surface tells all about each method, and what it shows is valid."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from zotd.protocol.events import EVENTS
from zotd.protocol.methods import METHOD_TYPES, SERVER_METHOD_TYPES
from zotd.protocol.rpc_errors import ERROR_KINDS, METHOD_ERRORS, OF_EVERY_METHOD
from zotd.schema.__main__ import generated
from zotd.schema.catalogue import METHOD_SHAPES
from zotd.schema.definitions import json_schema
from zotd.schema.rpc_page import rpc_page

PAGE = rpc_page()
METHODS, ASKED = (
    PAGE.split("## Methods", 1)[1].split("\n## Events", 1)[0].split("\n## What the daemon asks", 1)
)
ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS = json_schema()["$defs"]


def section(method: str) -> str:
    return PAGE.split(f"## `{method}`\n", 1)[1].split("\n## ", 1)[0]


def examples(method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request and the response that the section shows."""
    fence = section(method).split("```json\n", 1)[1].split("\n```", 1)[0]
    request, response = (json.loads(line) for line in fence.split("\n"))
    return request, response


def assert_valid(value: Any, struct: type[msgspec.Struct]) -> None:
    reference = {"$ref": f"#/$defs/{struct.__name__}", "$defs": DEFINITIONS}
    assert list(Draft202012Validator(reference).iter_errors(value)) == []
    assert msgspec.to_builtins(msgspec.convert(value, struct)) == value


def test_every_method_has_one_section_in_the_order_of_the_table() -> None:
    assert re.findall(r"^## `(.+)`$", METHODS, re.MULTILINE) == list(METHOD_TYPES)
    assert re.findall(r"^\| \[`(.+?)`\]", METHODS, re.MULTILINE) == list(METHOD_TYPES)
    assert re.findall(r"^## `(.+)`$", ASKED, re.MULTILINE) == list(SERVER_METHOD_TYPES)


def test_every_event_has_a_row_with_its_members() -> None:
    rows = dict(re.findall(r"^\| \[`(\w+)`\]\S+ \| (.*?) \|", PAGE.split("## Events", 1)[1], re.MULTILINE))
    assert list(rows) == list(EVENTS)
    for name, struct in EVENTS.items():
        members = {field.encode_name: field.required for field in msgspec.structs.fields(struct)}
        assert {word: not mark for word, mark in re.findall(r"`(\w+)`(\??)", rows[name])} == members


@pytest.mark.parametrize("method", METHOD_TYPES)
def test_a_section_has_a_row_for_each_member_of_params_and_result(method: str) -> None:
    before, after = section(method).split("**Result**", 1)
    for struct, words in zip(METHOD_TYPES[method], (before, after), strict=True):
        members = msgspec.structs.fields(struct) if struct is not None else ()
        table = words.split("**Example**", 1)[0]
        assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == sorted(
            field.encode_name for field in members
        )


@pytest.mark.parametrize("method", METHOD_TYPES)
def test_the_request_and_the_response_of_a_section_are_valid(method: str) -> None:
    request, response = examples(method)
    params, result = METHOD_TYPES[method]
    assert request["method"] == method
    assert request["id"] == response["id"]
    assert_valid(request["params"], params)
    if result is None:
        assert response["result"] == {}
    else:
        assert_valid(response["result"], result)


def test_the_response_of_a_section_answers_its_request() -> None:
    for method in ("session/load", "session/fork", "session/import"):
        _, response = examples(method)
        session = response["result"]["session"]
        assert (session["ephemeral"], "path" in session) == (False, True)
    for method, member in (("session/rename", "title"), ("session/set", "reasoning"), ("session/new", "cwd")):
        request, response = examples(method)
        assert response["result"]["session"][member] == request["params"][member]
    request, response = examples("session/fork")
    forked = response["result"]["session"]
    assert forked["last_message_id"] == request["params"]["message_id"]
    assert forked["session_id"] != request["params"]["session_id"]
    request, response = examples("session/attach")
    assert response["result"]["next_seq"] == response["result"]["session"]["next_seq"]
    assert response["result"]["next_seq"] > request["params"]["since"] + 1
    request, response = examples("turn/unqueue")
    assert request["params"]["turn_id"] not in [turn["turn_id"] for turn in response["result"]["turns"]]


@pytest.mark.parametrize("method", METHOD_TYPES)
def test_a_section_lists_the_errors_of_its_method(method: str) -> None:
    errors = section(method).split("**Errors**", 1)[1]
    listed = re.findall(r"^\| `(\w+)` \| (-\d+) \|", errors, re.MULTILINE)
    assert listed == [(kind, str(ERROR_KINDS[kind].code)) for kind in METHOD_ERRORS[method]]


def test_the_errors_of_every_method_stand_at_the_top() -> None:
    top = PAGE.split("## Errors", 1)[1].split("\n## ", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", top, re.MULTILINE) == list(OF_EVERY_METHOD)


def test_shapes_are_shown_with_an_example() -> None:
    shapes = PAGE.split("## Shapes", 1)[1]
    for struct in METHOD_SHAPES:
        own = shapes.split(f"### {struct.__name__}\n", 1)[1].split("\n### ", 1)[0]
        assert_valid(json.loads(own.split("```json\n", 1)[1].split("\n```", 1)[0]), struct)


@pytest.mark.parametrize("page", [name for name in generated() if name.endswith(".md")])
def test_every_link_leads_to_a_heading(page: str) -> None:
    pages = generated()
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", pages[page])
    assert links
    for target, anchor in links:
        path = os.path.normpath(f"{Path(page).parent}/{target}")
        text = pages[path] if path in pages else (ROOT / path).read_text("utf-8")
        if anchor:
            headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
            # What a viewer makes of a heading: small letters, without punctuation.
            assert anchor in {re.sub(r"[^\w-]", "", heading.lower()) for heading in headings}, (
                f"{target}#{anchor}"
            )
