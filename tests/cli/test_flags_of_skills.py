"""The flags about skills and system prompts, as the command line gives them."""

from __future__ import annotations

import pytest

from tests.clients import Machine
from zotd.cli.flags import parse


@pytest.mark.parametrize(
    ("argv", "skills"),
    [
        ([], None),
        (["--with-skills"], None),
        (["--no-skill"], ()),
        (["--no-skills"], ()),
        (["--with-skills", "--no-skills"], ()),
    ],
)
def test_all_skills_are_had_unless_they_are_left_out(argv: list[str], skills: tuple[str, ...] | None) -> None:
    assert parse(["-p", "hi", *argv]).skills == skills


def test_paragraphs_are_appended_in_order_to_one_system_prompt() -> None:
    flags = parse(
        ["--append-system-prompt", "a", "--system-prompt", "s", "--append-system-prompt=b", "-p", "x"]
    )
    assert (flags.system_prompt, flags.append_system_prompt) == ("s", ("a", "b"))


def test_the_skill_tool_can_be_asked_for_where_there_is_no_skill(machine: Machine) -> None:
    done = machine.run("-p", "--provider", "scripted", "--tools", "skill,read", "hi", stdin=None)
    assert (done.stdout, done.stderr, done.returncode) == ("You said: hi\n", "", 0)
    done = machine.run("-p", "--provider", "scripted", "--tools", "skills", "hi", stdin=None)
    assert "no tool is named 'skills'; there are: read, write, edit, bash, skill" in done.stderr
    assert done.returncode == 2


def test_help_names_the_flag(machine: Machine) -> None:
    assert "--no-skill, --no-skills" in machine.run("--help").stdout
