from __future__ import annotations

import pytest

from zotd.extensions.commands import BUILT_IN, CommandInfo, Commands, Invocation


@pytest.mark.promise("S18")
def test_names_are_matched_in_any_case_and_keep_the_spelling_of_their_registration() -> None:
    commands = Commands()
    assert commands.claim("/Weather", "any city", "w") == ""
    assert commands.find("/WEATHER  berlin  mitte ") == Invocation("w", "Weather", "berlin  mitte")
    assert commands.claim("weather", "another spelling", "w") == (
        "command /weather was refused: it is registered as /Weather"
    )
    assert commands.all() == [CommandInfo("Weather", "any city", "w")]


def test_registering_a_command_again_changes_its_description() -> None:
    commands = Commands()
    commands.claim("a", "old", "x")
    assert commands.claim("a", "new", "x") == ""
    assert commands.all() == [CommandInfo("a", "new", "x")]


@pytest.mark.promise("S13")
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_built_in_name_cannot_be_taken(name: str) -> None:
    commands = Commands()
    assert "built in" in str(commands.claim(name.upper(), "", "x"))
    assert commands.find(f"/{name}") is None


def test_a_name_is_free_again_when_its_owner_is_gone() -> None:
    commands = Commands()
    commands.claim("a", "", "x")
    commands.claim("b", "", "y")
    assert commands.claim("a", "", "y") != ""
    assert commands.release("x")
    assert not commands.release("x")
    assert commands.claim("a", "", "y") == ""
    assert commands.of("y") == ["b", "a"]
