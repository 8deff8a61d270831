"""Where skills are found, what front matter may be, and that a bad one is told of and stops no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.project.conftest import Folders
from zotd.base.files import BadFile
from zotd.project.skills import Skills, body_of

GOOD = "---\nname: {name}\ndescription: Does {name}.\n---\n\n# How\nSlowly.\n"


def names(skills: Skills) -> list[str]:
    return [skill.name for skill in skills.found]


def test_six_places_are_searched_and_the_first_of_a_name_wins(folders: Folders) -> None:
    places = [
        folders.cwd / ".zot" / "skills",
        folders.zot_home / "skills",
        folders.cwd / ".claude" / "skills",
        folders.user_home / ".claude" / "skills",
        folders.cwd / ".agents" / "skills",
        folders.user_home / ".agents" / "skills",
    ]
    for number, place in enumerate(places):
        folders.skill(place, "own", GOOD.format(name=f"own-{number}"))
        folders.skill(place, "same", f"---\nname: same\ndescription: from {number}\n---\n")
        if number:
            folders.skill(place, "later", f"---\nname: later\ndescription: from {number}\n---\n")
    skills = folders.skills()
    assert {skill.name: skill.description for skill in skills.found if skill.name in ("same", "later")} == {
        "same": "from 0",
        "later": "from 1",
    }
    assert [name for name in names(skills) if name.startswith("own")] == [f"own-{n}" for n in range(6)]
    assert skills.complaints == []


def test_no_place_is_no_skill_and_no_complaint(folders: Folders) -> None:
    (folders.cwd / ".zot").write_text("a file where a folder could be")
    assert folders.skills() == Skills()


def test_a_skill_says_its_name_its_use_and_where_it_lies(folders: Folders) -> None:
    path = folders.skill(folders.cwd / ".zot/skills", "folder", GOOD.format(name="tea"))
    (skill,) = folders.skills().found
    assert (skill.name, skill.description, skill.path) == ("tea", "Does tea.", path)
    assert body_of(path, folders.limits) == "# How\nSlowly.\n"


def test_the_list_has_a_line_for_each_skill(folders: Folders) -> None:
    for name in ("b", "a"):
        folders.skill(folders.cwd / ".zot/skills", name, GOOD.format(name=name))
    assert folders.skills().listing() == "- a: Does a.\n- b: Does b."


def test_names_can_be_chosen(folders: Folders) -> None:
    for name in ("a", "b", "c"):
        folders.skill(folders.cwd / ".zot/skills", name, GOOD.format(name=name))
    assert names(folders.skills(only=["c", "a", "x"])) == ["a", "c"]


# What people write


@pytest.mark.parametrize(
    ("text", "name", "description", "body"),
    [
        ("# Tea\n\nBoil water.", "folder", "Tea", "# Tea\n\nBoil water."),
        ("---\n---\nBoil water.", "folder", "Boil water.", "Boil water."),
        ("---\ndescription: Makes tea.\n---\n", "folder", "Makes tea.", ""),
        ("---\nname: tea\n---\nBoil water.\n", "tea", "Boil water.", "Boil water.\n"),
        ("---\nname: tea\ndescription: >\n  Makes\n  tea.\n---\n", "tea", "Makes tea.", ""),
        ("---\nname: tea\ndescription: '  a\n\n  b '\nother: [1]\n---\nx", "tea", "a b", "x"),
        (
            "\ufeff---\r\nname: tea\r\ndescription: Makes tea.\r\n---\r\nx\r\ny\r\n",
            "tea",
            "Makes tea.",
            "x\ny\n",
        ),
        ("---  \nname: tea\ndescription: d\n--- \n---\nx", "tea", "d", "---\nx"),
        ("---\nname:\ndescription: d\n---\n", "folder", "d", ""),
        ("text\n---\nname: tea\n---\n", "folder", "text", "text\n---\nname: tea\n---\n"),
    ],
)
def test_front_matter_may_be_short_missing_or_from_windows(
    folders: Folders, text: str, name: str, description: str, body: str
) -> None:
    path = folders.skill(folders.cwd / ".zot/skills", "folder", text)
    skills = folders.skills()
    assert skills.complaints == []
    assert [(skill.name, skill.description) for skill in skills.found] == [(name, description)]
    assert body_of(path, folders.limits) == body


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("---\nname: tea\n", "front matter: expected a line --- that ends it, got none"),
        (
            "---\nname: tea\ndescription: Use when: thirsty\n---\n",
            (
                "front matter: expected YAML: mapping values are not allowed in this context "
                "in line 3, column 22; put a text that holds `: ` in quotes"
            ),
        ),
        (
            "---\nname: [tea\n---\n",
            "front matter: expected YAML: did not find expected ',' or ']' in line 3, column 1",
        ),
        ("---\n- tea\n---\n", "front matter: expected `key: value` lines, got a list"),
        ("---\ntea\n---\n", "front matter: expected `key: value` lines, got a text"),
        ("---\nname: 5\n---\nx", "name: expected a text, got a number"),
        ("---\nname: no\n---\nx", "name: expected a text, got true or false"),
        ("---\ndescription: [a]\n---\nx", "description: expected a text, got a list"),
        ("---\ndescription: {a: b}\n---\nx", "description: expected a text, got a mapping"),
        ("---\ndescription: 2026-01-01\n---\nx", "description: expected a text, got a date"),
        ("---\nname: !tea x\n---\nx", "name: expected a text, got something else"),
        ("---\nname: !!str [a]\n---\nx", "name: expected a text, got a list"),
        ("---\ndescription: !!str {a: b}\n---\nx", "description: expected a text, got a mapping"),
        ('---\nname: "a\\e[2Jb"\n---\nx', "name: expected printable characters, got 'a\\x1b[2Jb'"),
        ("", "description: expected when to use the skill, got nothing, and there is no text"),
        (
            "---\nname: a\n---\n\n",
            "description: expected when to use the skill, got nothing, and there is no text",
        ),
    ],
)
def test_a_bad_file_is_told_of_once_and_stops_no_other(folders: Folders, text: str, complaint: str) -> None:
    path = folders.skill(folders.cwd / ".zot/skills", "bad", text)
    folders.skill(folders.cwd / ".zot/skills", "good", GOOD.format(name="good"))
    skills = folders.skills()
    assert names(skills) == ["good"]
    assert [str(bad) for bad in skills.complaints] == [f"{path}: {complaint}"]


@pytest.mark.parametrize(
    "front",
    ["a: " + "[" * 4_000, "a: *nobody", "a: \x01", "a: 1\n--- \x00"],
    ids=["deep", "unknown anchor", "control character", "nul"],
)
def test_yaml_that_no_parser_likes_is_told_of(folders: Folders, front: str) -> None:
    folders.skill(folders.cwd / ".zot/skills", "bad", f"---\n{front}\n---\n")
    skills = folders.skills()
    (bad,) = skills.complaints
    assert bad.message.startswith("front matter: expected YAML: ")
    assert "\n" not in bad.message
    assert skills.found == ()


@pytest.mark.parametrize("front", ["[a, b]: text", "? {a: b}\n: text", "? [name]\n: x"])
def test_keys_that_are_no_text_are_passed_over(folders: Folders, front: str) -> None:
    folders.skill(folders.cwd / ".zot/skills", "a", f"---\n{front}\nname: fine\n---\nx")
    assert names(folders.skills()) == ["fine"]
    assert folders.skills().complaints == []


MARKS = [*"[]{},:-?!&*|>'\"#% \n\t\x85\u2028", ": ", "- ", "\n  ", "!!str ", "!!map ", "<<", "..."]
WORDS = ["name", "description", "1", "no", "\\U00110000", "\\UFFFFFFFF", "\\ud800", "\\x00"]
YAML = st.lists(st.sampled_from(MARKS + WORDS), max_size=30).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(YAML | st.text(max_size=40).filter(lambda text: text.isprintable()))
@example("[a, b]: text")
@example('name: "\\U00110000"')
@example('name: "\\UFFFFFFFF"')
@example('description: "\\ud800"')
@example("name: !!str [a]")
@example("name: !%ff%fe x")
def test_any_front_matter_is_a_skill_that_can_be_told_of_or_one_complaint(
    folders: Folders, front: str
) -> None:
    path = folders.cwd / ".zot/skills/a/SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front}\n---\nx\n", "utf-8")
    skills = folders.skills()
    assert len(skills.found) + len(skills.complaints) == 1
    for text in [skills.listing(), *map(str, skills.complaints)]:
        assert text.encode().count(b"\n") == 0


def test_what_else_front_matter_holds_is_neither_run_nor_multiplied(folders: Folders) -> None:
    bomb = "".join(f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 9)}]}}\n" for n in range(1, 30))
    front = f"when: 2026-02-30\ncode: !!python/object/apply:os.abort []\nl0: &l0 {{a: b}}\n{bomb}name: fine\n"
    folders.skill(folders.cwd / ".zot/skills", "a", f"---\n{front}---\nx")
    assert names(folders.skills()) == ["fine"]
    assert folders.skills().complaints == []


def test_long_front_matter_is_not_parsed(folders: Folders) -> None:
    folders.limit(skill_front_chars=20)
    path = folders.skill(folders.cwd / ".zot/skills", "a", "---\nname: 012345678901234\n---\nx")
    (bad,) = folders.skills().complaints
    assert str(bad) == f"{path}: front matter: expected at most 20 characters, got 21"


def test_a_file_that_is_no_text_still_has_its_front_matter(folders: Folders) -> None:
    folders.skill(folders.cwd / ".zot/skills", "a", b"---\nname: caf\xe9\ndescription: d\n---\n\xff\xfe")
    assert names(folders.skills()) == ["caf\ufffd"]


def test_a_huge_file_is_left_out(folders: Folders) -> None:
    folders.limit(skill_bytes=100)
    folders.skill(folders.cwd / ".zot/skills", "fits", "---\nname: fits\n---\n" + "x" * 81)
    path = folders.skill(folders.cwd / ".zot/skills", "huge", "---\nname: huge\n---\n" + "x" * 10_000)
    skills = folders.skills()
    assert names(skills) == ["fits"]
    assert [str(bad) for bad in skills.complaints] == [f"{path}: expected at most 100 bytes, got 10019"]


def test_a_long_description_is_cut(folders: Folders) -> None:
    folders.limit(skill_description_chars=10)
    folders.skill(folders.cwd / ".zot/skills", "a", "---\ndescription: 0123456789a\n---\n")
    folders.skill(folders.cwd / ".zot/skills", "b", "---\ndescription: 0123456789\n---\n")
    assert [skill.description for skill in folders.skills().found] == ["012345678…", "0123456789"]


def test_there_is_a_last_skill(folders: Folders) -> None:
    folders.limit(skills=2)
    for name in ("a", "b", "c", "d"):
        folders.skill(folders.cwd / ".zot/skills", name, GOOD.format(name=name))
    skills = folders.skills()
    assert names(skills) == ["a", "b"]
    assert [bad.message for bad in skills.complaints] == ["left out: there are 2 skills already"]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"skill_files": 3}, "3 files were looked at"),
        ({"skills_bytes": 60}, "those before it have 69 bytes"),
        ({"skills_front_chars": 50}, "the front matter of those before it has 51 characters"),
    ],
)
def test_there_is_a_last_file_that_is_looked_at_good_or_bad(
    folders: Folders, limits: dict[str, int], why: str
) -> None:
    folders.limit(**limits)
    place = folders.cwd / ".zot/skills"
    folders.skill(place, "a", "---\nname: aaaa\ndescription: d\n---\n")
    folders.skill(place, "b", "---\nname: bbbb\ndescription: [d\n---\n")
    for name in ("c", "d", "e"):
        folders.skill(place, name, "---\nname: " + name + "\n---\nx")
    skills = folders.skills()
    last = skills.complaints[-1]
    assert last.message == f"left out, with all that comes after it: {why}"
    assert len(skills.found) + len(skills.complaints) <= 4


# What lies where a skill could be


def test_what_is_no_skill_is_passed_over(folders: Folders) -> None:
    place = folders.cwd / ".zot/skills"
    folders.skill(place, ".hidden", GOOD.format(name="hidden"))
    (place / "empty").mkdir()
    (place / "notes.md").write_text("notes")
    (place / "SKILL.md").write_text(GOOD.format(name="loose"))
    assert folders.skills() == Skills()


def test_a_folder_may_group_skills_and_groups_are_not_searched_deeper(folders: Folders) -> None:
    place = folders.cwd / ".claude/skills"
    folders.skill(place, "a-group/a", GOOD.format(name="a"))
    folders.skill(place, "a-group/deeper/b", GOOD.format(name="b"))
    folders.skill(place, "c", GOOD.format(name="c"))
    folders.skill(place, "c/part", GOOD.format(name="part"))
    assert names(folders.skills()) == ["a", "c"]


def test_symbolic_links_are_followed_and_one_file_is_one_skill_or_one_complaint(folders: Folders) -> None:
    elsewhere = folders.user_home / "elsewhere"
    folders.skill(elsewhere, "good", "---\ndescription: d\n---\n")
    folders.skill(elsewhere, "bad", "")
    for place in (folders.cwd / ".zot", folders.cwd / ".claude"):
        place.mkdir()
        (place / "skills").symlink_to(elsewhere)
    skills = folders.skills()
    assert names(skills) == ["good"]
    assert len(skills.complaints) == 1


def test_what_cannot_be_read_is_told_of_and_nothing_waits(folders: Folders) -> None:
    place = folders.cwd / ".zot/skills"
    for name in ("directory", "pipe", "dangling", "circle"):
        (place / name).mkdir(parents=True)
    (place / "directory/SKILL.md").mkdir()
    os.mkfifo(place / "pipe/SKILL.md")
    (place / "dangling/SKILL.md").symlink_to("nowhere")
    (place / "circle/SKILL.md").symlink_to("SKILL.md")
    (place / "loop").symlink_to("loop")
    folders.skill(place, "good", GOOD.format(name="good"))
    skills = folders.skills()
    assert names(skills) == ["good"]
    assert [str(bad).removeprefix(f"{place}/") for bad in skills.complaints] == [
        "circle/SKILL.md: cannot be read: Too many levels of symbolic links",
        "dangling/SKILL.md: is a symbolic link to nothing",
        "directory/SKILL.md: cannot be read: expected a regular file",
        "pipe/SKILL.md: cannot be read: expected a regular file",
    ]


def test_a_skill_that_went_away_cannot_be_loaded(folders: Folders) -> None:
    path = folders.skill(folders.cwd / ".zot/skills", "a", GOOD.format(name="a"))
    path.unlink()
    with pytest.raises(BadFile, match=r"SKILL\.md: is not there any more"):
        body_of(path, folders.limits)


# Of extensions


def test_extensions_name_files_skills_and_folders_of_skills(folders: Folders, tmp_path: Path) -> None:
    extension = tmp_path / "weather"
    folders.skill(extension, "skills/rain", GOOD.format(name="rain"))
    folders.skill(extension, "skills/snow", GOOD.format(name="snow"))
    folders.skill(extension, "one", GOOD.format(name="one"))
    (extension / "plain.md").write_text("---\ndescription: of a file\n---\n")
    paths = [extension / "skills", extension / "one", extension / "plain.md", extension / "one" / "SKILL.md"]
    skills = folders.skills([("weather", paths)])
    assert names(skills) == ["weather:rain", "weather:snow", "weather:one", "weather:weather"]
    assert skills.complaints == []


def test_what_an_extension_names_and_is_not_there_is_told_of(folders: Folders, tmp_path: Path) -> None:
    folders.skill(tmp_path / "x", "a", GOOD.format(name="a"))
    skills = folders.skills([("x", [tmp_path / "x" / "none", tmp_path / "x" / "a"])])
    assert names(skills) == ["x:a"]
    assert [str(bad) for bad in skills.complaints] == [
        f"{tmp_path}/x/none: is not there; extension x names it in `skills`"
    ]


def test_the_example_is_a_skill(folders: Folders) -> None:
    examples = Path(__file__).resolve().parents[2] / "examples" / "skills"
    skills = folders.skills([("examples", [examples])])
    assert names(skills) == ["examples:release-notes"]
    assert skills.complaints == []
    assert (skills.found[0].path.parent / "template.md").is_file()
