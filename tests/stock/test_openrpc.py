"""What `rpc.discover` answers is an OpenRPC document, by the published schema, and tells of every method."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

from tests.clients import Machine, node
from zotd.protocol.events import EVENTS
from zotd.protocol.methods import METHOD_TYPES, SERVER_METHOD_TYPES
from zotd.protocol.rpc_errors import ERROR_KINDS, METHOD_ERRORS, OF_EVERY_METHOD
from zotd.schema.openrpc import openrpc

DOCUMENT = openrpc()
SCRIPT = Path(__file__).with_name("meta-schema.mjs")


@pytest.fixture(scope="module")
def published() -> Draft7Validator:
    """Judges a document by the meta-schema from npm."""
    printed = subprocess.run([node(), SCRIPT], capture_output=True, check=True).stdout
    for_documents, for_schemas = json.loads(printed)
    registry = Registry().with_resources(
        [
            (name, DRAFT7.create_resource({**for_schemas, "$id": name}))
            for name in ("https://meta.json-schema.tools/", "https://meta.json-schema.tools")
        ]
    )
    return Draft7Validator(for_documents, registry=registry)


def descriptors(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a member, with its place."""
    for method in document["methods"] + document["x-zotd-server-methods"]:
        for each in [*method["params"], *([method["result"]] if "result" in method else [])]:
            yield f"{method['name']} {each['name']}", each["schema"]
    yield from document["components"]["schemas"].items()


def test_the_document_fits_the_published_meta_schema(published: Draft7Validator) -> None:
    assert [fault.json_path for fault in published.iter_errors(DOCUMENT)] == []
    # The daemon's own notifications are described in the same form, where the meta-schema does not look.
    notifications = {**DOCUMENT, "methods": DOCUMENT["x-zotd-server-methods"]}
    assert [fault.json_path for fault in published.iter_errors(notifications)] == []


def test_the_meta_schema_finds_what_is_wrong(published: Draft7Validator) -> None:
    first, *others = DOCUMENT["methods"]
    for wrong in (
        {**first, "params": [{"name": "session_id"}]},
        {**first, "params": [{"name": "session_id", "schema": {"type": "strong"}}]},
        {**first, "errors": [{"code": "busy", "message": "a turn is running"}]},
        {"name": first["name"]},
    ):
        assert not published.is_valid({**DOCUMENT, "methods": [wrong, *others]}), wrong


def test_every_schema_in_it_is_one() -> None:
    for place, schema in descriptors(DOCUMENT):
        assert list(Draft7Validator(Draft7Validator.META_SCHEMA).iter_errors(schema)) == [], place


def test_the_daemon_answers_with_it_before_initialize(machine: Machine) -> None:
    client = machine.rpc()
    assert client.call("rpc.discover") == DOCUMENT
    assert client.error("session/new")["data"]["kind"] == "not_initialized"
    listed = client.call("initialize", protocol_version=1)["capabilities"]["methods"]
    assert listed == sorted(method["name"] for method in DOCUMENT["methods"])


def test_with_a_token_it_is_for_those_who_have_it(machine: Machine) -> None:
    client = machine.rpc(env={"ZOTD_TOKEN": "s3cret"})
    assert client.error("rpc.discover")["data"]["kind"] == "not_initialized"
    client.greet(token="s3cret")
    assert client.call("rpc.discover") == DOCUMENT


def test_it_has_every_method_event_and_error() -> None:
    assert [method["name"] for method in DOCUMENT["methods"]] == list(METHOD_TYPES)
    assert [method["name"] for method in DOCUMENT["x-zotd-server-methods"]] == [
        *SERVER_METHOD_TYPES,
        *EVENTS,
    ]
    errors = DOCUMENT["components"]["errors"]
    assert {kind: errors[kind]["code"] for kind in errors} == {
        kind: of_kind.code for kind, of_kind in ERROR_KINDS.items()
    }
    for method in DOCUMENT["methods"]:
        kinds: list[str] = []
        for error in method["errors"]:
            named = errors[error["$ref"].rsplit("/", 1)[1]] if "$ref" in error else error
            found = named["data"]["kind"]
            kinds += [found] if isinstance(found, str) else found
        assert sorted(kinds) == sorted([*OF_EVERY_METHOD, *METHOD_ERRORS[method["name"]]])


def test_needed_params_come_first_as_openrpc_asks() -> None:
    for method in DOCUMENT["methods"] + DOCUMENT["x-zotd-server-methods"]:
        needed = [each["required"] for each in method["params"]]
        assert needed == sorted(needed, reverse=True), method["name"]


def test_every_reference_leads_to_a_component() -> None:
    def check(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(ref := value.get("$ref"), str):
                _, components, room, name = ref.split("/")
                assert name in DOCUMENT[components][room], ref
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                check(each)

    check(DOCUMENT)
