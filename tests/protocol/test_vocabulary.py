"""Types are told apart by their `type`, and importing them costs little."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, get_args

import msgspec
import pytest

from zotd.protocol.content import Block
from zotd.protocol.events import EVENTS, Event
from zotd.protocol.frames import FROM_EXTENSION, FROM_HOST, FromExtension, FromHost


@pytest.mark.parametrize("union", [Event, FromExtension, FromHost, Block])
def test_each_tag_is_unique_in_its_union(union: Any) -> None:
    tags = [struct.__struct_config__.tag for struct in get_args(union)]
    assert len(tags) == len(set(tags))


@pytest.mark.parametrize(
    ("table", "union"), [(EVENTS, Event), (FROM_EXTENSION, FromExtension), (FROM_HOST, FromHost)]
)
def test_the_table_of_a_union_holds_each_member_under_its_tag(
    table: dict[str, type[msgspec.Struct]], union: Any
) -> None:
    assert set(table.values()) == set(get_args(union))
    assert all(struct.__struct_config__.tag == tag for tag, struct in table.items())


@pytest.mark.parametrize("struct", [*EVENTS.values(), *FROM_EXTENSION.values(), *FROM_HOST.values()])
def test_every_event_and_frame_is_frozen_and_taken_by_keyword(struct: type[msgspec.Struct]) -> None:
    config = struct.__struct_config__
    assert config.frozen
    assert config.omit_defaults
    assert config.tag_field == "type"
    with pytest.raises(TypeError):
        struct("positional")


def test_the_vocabulary_brings_msgspec_and_nothing_else() -> None:
    program = (
        "import sys\n"
        "import zotd.protocol.events, zotd.protocol.frames, zotd.protocol.manifest, zotd.protocol.replies\n"
        "import zotd.protocol.methods, zotd.protocol.rpc_errors\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    listed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    outside = set(listed.stdout.split()) - set(sys.stdlib_module_names) - {"__main__"}
    assert {name for name in outside if not name.startswith("_")} <= {
        "msgspec",
        "sitecustomize",
        "typing_extensions",
        "zotd",
    }
    assert "asyncio" not in listed.stdout.split()
