"""The `skill` tool: instructions by name, and what a model that asks wrongly is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zotd.agent.ports import ToolFailed
from zotd.protocol.content import Text, ToolCall
from zotd.tools.skill import SkillTool


class Shelf:
    """Two skills, one of which cannot be read."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)

    def names(self) -> list[str]:
        return self._names

    def load(self, name: str) -> tuple[Path, str]:
        if name == "gone":
            raise ValueError("/skills/gone/SKILL.md: is not there any more")
        return Path(f"/skills/{name}\udcff"), f"How to make {name}."


async def ask(shelf: Shelf, **arguments: Any) -> str:
    outcome = await SkillTool(shelf).run(ToolCall("c1", "skill", arguments), lambda text: None)
    (block,) = outcome.content
    assert isinstance(block, Text)
    assert not outcome.is_error
    return block.text


async def test_a_skill_is_read_with_the_directory_its_paths_are_relative_to() -> None:
    text = await ask(Shelf("tea", "gone"), name="tea")
    assert text == "Skill tea. Paths in it are relative to /skills/tea\ufffd.\n\nHow to make tea."


@pytest.mark.parametrize(
    ("shelf", "arguments", "fault"),
    [
        (
            Shelf("tea", "gone"),
            {"name": "coffee"},
            "$.name: no skill is named 'coffee'; there are: tea, gone",
        ),
        (Shelf(), {"name": "coffee"}, "$.name: no skill is named 'coffee'; there are none"),
        (Shelf("tea", "gone"), {"name": "gone"}, "/skills/gone/SKILL.md: is not there any more"),
        (Shelf("tea"), {}, "bad arguments for skill: $.name: is required and missing"),
    ],
)
async def test_a_model_that_asks_wrongly_is_told_what_there_is(
    shelf: Shelf, arguments: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ToolFailed) as caught:
        await ask(shelf, **arguments)
    assert str(caught.value) == fault


def test_what_every_request_says_about_it_is_short() -> None:
    tool = SkillTool(Shelf(*map(str, range(1000))))
    assert len(f"{tool.description}{tool.schema}") < 350
    assert tool.schema["required"] == ["name"]
