from __future__ import annotations

import pytest

from zotd.extensions.commands import BUILT_IN, CommandInfo, Commands, Invocation, answer_of, bounded
from zotd.protocol.frames import CommandResponse


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


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\0", "\x07", "a\x9bb"])
def test_a_name_that_could_command_a_terminal_is_refused(name: str) -> None:
    commands = Commands()
    refused = str(commands.claim(name, "", "x"))
    assert refused == f"command {name!r} was refused: expected printable characters"
    assert commands.all() == []


def test_a_description_is_one_row_without_control_sequences() -> None:
    commands = Commands()
    assert commands.claim("wetter-für-日本", "any\x1b]0;title\x07 city\nor \x1b[1mtown\x1b[0m", "x") == ""
    assert commands.all() == [CommandInfo("wetter-für-日本", "any city or \x1b[1mtown\x1b[0m", "x")]


ESC = "a\x1b]0;title\x07\tb\r\n\x1b[31mc\x1b[0m\x1b[2J"
SEEN = "a\tb\n\x1b[31mc\x1b[0m"


@pytest.mark.parametrize(
    ("response", "text", "error"),
    [
        (CommandResponse(id="1", action="display", display=ESC), SEEN, None),
        (CommandResponse(id="1", action="insert", insert=ESC), SEEN, None),
        (CommandResponse(id="1", action="noop", error=ESC), "", SEEN),
        (CommandResponse(id="1", action="prompt", prompt=ESC), ESC, None),
    ],
)
def test_what_eyes_see_of_an_answer_has_lines_tabs_and_colours_and_a_prompt_is_as_it_was(
    response: CommandResponse, text: str, error: str | None
) -> None:
    shown = bounded(answer_of("x", "go", response), 1_000, lambda _: None)
    assert (shown.text, shown.error) == (text, error)


def test_an_error_of_nothing_but_control_characters_is_an_error_all_the_same() -> None:
    answer = answer_of("x", "poke", CommandResponse(id="1", action="display", display="hi", error="\x1b[2J"))
    shown = bounded(answer, 1000, lambda remark: None)
    assert shown.error == "command /poke failed and said why in control characters only"
