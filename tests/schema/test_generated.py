"""The generated files are fresh, agree with the types, and say everything there is to say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from zotd.protocol.manifest import Manifest
from zotd.schema.__main__ import generated, main, stale
from zotd.schema.catalogue import EVENTS, FRAMES_FROM_EXTENSION, FRAMES_FROM_HOST, STRUCTS, StructType
from zotd.schema.definitions import json_schema
from zotd.schema.docstrings import DocumentationError, documentation

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json_schema()
DEFINITION_OF = {
    "from_extension": "FromExtension",
    "from_host": "FromHost",
    "manifest": "Manifest",
    "block": "Block",
    "event": "Event",
    "published": "PublishedEvent",
}


def validator(definition: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": SCHEMA["$defs"]})


VALIDATORS = {definition: validator(definition) for definition in SCHEMA["$defs"]}


def vectors() -> list[tuple[str, str, bool, Any]]:
    """Place, definition, judgement and value of every vector that has a definition."""
    found = []
    for path in sorted((ROOT / "tests" / "protocol" / "vectors").glob("*.jsonl")):
        if path.name == "zot-session-file.jsonl":  # recorded whole; no row of it is one of ours
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if not line or (row := json.loads(line))["direction"] == "reply":
                continue
            value = row["json"]
            if "added" in row or "departs" in row:
                value = {**value, **row.get("added", {}), **row.get("departs", {})}
            found.append((f"{path.name}:{number}", DEFINITION_OF[row["direction"]], row["valid"], value))
    return found


def test_the_committed_files_are_fresh() -> None:
    assert stale(ROOT) == []


def test_nothing_else_lies_among_the_generated_files() -> None:
    reference = {f"docs/reference/{path.name}" for path in (ROOT / "docs" / "reference").iterdir()}
    assert reference == {name for name in generated() if name.startswith("docs/reference/")}


def test_the_schema_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_the_example_of_a_struct_is_one(struct: StructType) -> None:
    example = documentation(struct).example
    read = msgspec.convert(example, struct)
    assert json.dumps(msgspec.to_builtins(read), sort_keys=True) == json.dumps(example, sort_keys=True)
    assert list(VALIDATORS[struct.__name__].iter_errors(example)) == []


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_is_documented_in_the_schema(struct: StructType) -> None:
    definition = SCHEMA["$defs"][struct.__name__]
    assert definition["description"]
    undocumented = [
        name
        for name, field in definition["properties"].items()
        if name != struct.__struct_config__.tag_field and not field.get("description")
    ]
    assert undocumented == []


@pytest.mark.parametrize(
    ("place", "definition", "valid", "value"), vectors(), ids=[place for place, *_ in vectors()]
)
def test_the_schema_judges_a_vector_as_the_types_do(
    place: str, definition: str, valid: bool, value: Any
) -> None:
    assert VALIDATORS[definition].is_valid(value) is valid, place


@pytest.mark.parametrize(
    ("page", "structs"),
    [("events", EVENTS), ("extension-frames", FRAMES_FROM_EXTENSION + FRAMES_FROM_HOST)],
)
def test_a_reference_page_names_every_type_and_every_member(
    page: str, structs: tuple[StructType, ...]
) -> None:
    text = generated()[f"docs/reference/{page}.md"]
    for struct in structs:
        section = text.split(f"### `{struct.__struct_config__.tag}`\n", 1)[1].split("\n### ", 1)[0]
        for field in msgspec.structs.fields(struct):
            assert f"| `{field.encode_name}` |" in section


def test_the_manifest_has_its_place_on_the_page_of_frames() -> None:
    section = generated()["docs/reference/extension-frames.md"].split("## The manifest", 1)[1]
    assert all(f"| `{field.encode_name}` |" in section for field in msgspec.structs.fields(Manifest))


def test_two_processes_generate_the_same_bytes(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "zotd.schema", "--out", tmp_path / seed],
            cwd=ROOT,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        )
    for name in generated():
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_check_names_each_stale_file_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "docs", copy / "docs")
    shutil.copytree(ROOT / "zotd" / "protocol", copy / "zotd" / "protocol")
    assert main(["--check", "--out", str(copy)]) == 0
    assert capsys.readouterr().err == ""
    old, lost = copy / "docs" / "reference" / "events.md", copy / "zotd" / "protocol" / "openrpc.json"
    old.write_text("old\n")
    lost.unlink()
    assert main(["--check", "--out", str(copy)]) == 1
    complaint = capsys.readouterr().err
    assert str(old) in complaint
    assert str(lost) in complaint
    assert "extension-frames.md" not in complaint
    assert main(["--out", str(copy)]) == 0
    assert main(["--check", "--out", str(copy)]) == 0


class Silent(msgspec.Struct, tag_field="type", tag="silent"):
    """Says nothing about its field.

    Example: {"type":"silent","delta":"x"}
    """

    delta: str


class Talkative(msgspec.Struct):
    """Says too much.

    delta: words.
    gamma: there is none.

    Example: {"delta":"x"}
    """

    delta: str


class Bare(msgspec.Struct):
    """Shows nothing.

    delta: words.
    """

    delta: str


class Careless(msgspec.Struct):
    """Shows no JSON.

    delta: words.

    Example: {delta: x}
    """

    delta: str


@pytest.mark.parametrize(
    ("struct", "complaint"),
    [
        (Silent, "Silent: its docstring has no line for the field `delta`"),
        (Talkative, "Talkative: its docstring has a line for `gamma`, which is no field"),
        (Bare, "Bare: the last line of its docstring is no"),
        (Careless, "Careless: its example is no JSON"),
    ],
)
def test_a_docstring_that_does_not_tell_all_is_refused(struct: StructType, complaint: str) -> None:
    with pytest.raises(DocumentationError, match=complaint):
        documentation(struct)


def test_the_continuation_of_a_field_line_belongs_to_it() -> None:
    assert documentation(Manifest).fields["exec"].endswith("brings only a theme or skills.")
