"""Which tools a model is told about, and which a call reaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zotd.agent.ports import ToolOutcome
from zotd.agent.toolbox import Toolbox
from zotd.protocol.content import Text, ToolCall


class Named:
    schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012

    def __init__(self, name: str, description: str = "") -> None:
        self.name = name
        self.description = description

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        return ToolOutcome([Text(self.description)])


def box(*names: str) -> Toolbox:
    return Toolbox({name: Named(name) for name in names})


def test_a_tool_that_is_added_is_offered_after_the_built_in_ones() -> None:
    toolbox = box("read", "bash")
    toolbox.add(Named("weather"), owner="sky")
    assert toolbox.names() == ["read", "bash", "weather"]
    assert (toolbox.owner("weather"), toolbox.owner("read"), toolbox.owner("nobody's")) == ("sky", "", "")


def test_a_tool_that_is_added_again_keeps_its_place_and_is_described_anew() -> None:
    toolbox = box()
    for description, name in (("old", "a"), ("b", "b"), ("new", "a")):
        toolbox.add(Named(name, description), owner="x")
    assert [(tool.name, tool.description) for tool in toolbox.offered()] == [("a", "new"), ("b", "b")]


@pytest.mark.promise("S21", "S22")
def test_a_deferred_tool_is_offered_once_it_was_activated() -> None:
    toolbox = box("read")
    toolbox.add(Named("weather"), owner="sky", deferred=True)
    toolbox.add(Named("tides"), owner="sky", deferred=True)
    assert (toolbox.names(), toolbox.is_deferred("weather")) == (["read"], True)
    assert toolbox.activate(["weather", "weather", "read", "nobody's"]) == ["weather"]
    assert (toolbox.names(), toolbox.is_deferred("weather")) == (["read", "weather"], False)
    assert toolbox.activate(["weather"]) == []


def test_a_name_that_was_activated_stays_so_when_its_tool_registers_later_or_again() -> None:
    toolbox = box()
    toolbox.activate(["weather"])
    toolbox.add(Named("weather"), owner="sky", deferred=True)
    assert toolbox.names() == ["weather"]
    toolbox.remove("weather")
    assert (toolbox.names(), toolbox.get("weather"), toolbox.owner("weather")) == ([], None, "")
    toolbox.add(Named("weather"), owner="sky", deferred=True)
    assert toolbox.names() == ["weather"]


def test_a_tool_can_become_deferred_by_being_added_again() -> None:
    toolbox = box()
    toolbox.add(Named("weather"), owner="sky")
    toolbox.add(Named("weather"), owner="sky", deferred=True)
    assert toolbox.names() == []


def test_a_tool_that_was_withdrawn_is_reached_but_not_offered_until_it_is_added_again() -> None:
    toolbox = box("read")
    weather = Named("weather")
    toolbox.add(weather, owner="sky")
    toolbox.withdraw("weather")
    assert toolbox.names() == ["read"]
    assert toolbox.get("weather") is weather
    assert toolbox.owner("weather") == "sky"
    toolbox.add(Named("weather"), owner="sky")
    assert toolbox.names() == ["read", "weather"]


def test_names_of_tools_are_told_apart_by_case() -> None:
    toolbox = box("read")
    toolbox.add(Named("Read"), owner="x")
    assert toolbox.names() == ["read", "Read"]
