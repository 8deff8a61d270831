"""What JSON-RPC clients learn of skills and themes, and what `session/new` says about skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine


def skill(place: Path, name: str) -> Path:
    path = place / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\nHow to do {name}.")
    return path


def bundle(place: Path, name: str, **manifest: Any) -> Path:
    """An extension without a program: a theme and a skill."""
    skill(place / name / "skills", "tricks")
    (place / name / "theme.json").write_text(json.dumps({"colors": {"accent": 110}}))
    manifest = {"name": name, "skills": ["skills/tricks/SKILL.md"], **manifest}
    (place / name / "extension.json").write_text(json.dumps(manifest))
    return place / name


def names(client: Client, **params: Any) -> list[str]:
    return [row["name"] for row in client.call("skill/list", **params)["skills"]]


def offered(client: Client, session: str) -> list[str]:
    rows = client.call("tool/list", session_id=session)["tools"]
    return [row["name"] for row in rows if row["active"]]


@pytest.fixture
def client(machine: Machine) -> Client:
    return machine.rpc().greet()


# Skills


def test_skills_of_a_session_and_of_a_new_one_are_listed_with_what_is_wrong(
    machine: Machine, client: Client
) -> None:
    tea = skill(machine.cwd / ".zot" / "skills", "tea")
    bad = machine.cwd / ".zot" / "skills" / "bad" / "SKILL.md"
    bad.parent.mkdir()
    bad.write_text("---\nname: 3\n---\n")
    expected = {
        "skills": [{"name": "tea", "description": "Does tea.", "path": str(tea)}],
        "errors": [{"path": str(bad), "message": "name: expected a text, got a number"}],
    }
    assert client.call("skill/list") == expected
    session = client.session()
    assert client.call("skill/list", session_id=session) == expected
    note = client.event("ext_notify")
    assert (note["extension"], note["level"]) == ("zotd", "warn")
    assert note["message"] == f"{bad}: name: expected a text, got a number"


def test_skills_of_a_folder_that_is_not_trusted_are_text_and_those_of_its_extensions_are_left_out(
    machine: Machine, client: Client
) -> None:
    skill(machine.cwd / ".claude" / "skills", "tea")
    bundle(machine.cwd / ".zot" / "extensions", "project")
    bundle(machine.home / "extensions", "user")
    assert names(client) == ["tea", "user:tricks"]
    assert names(client, session_id=client.session()) == ["tea", "user:tricks"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, ["coffee", "tea"]), (False, []), ([], []), (["tea"], ["tea"]), (None, ["coffee", "tea"])],
)
def test_a_session_can_choose_its_skills(machine: Machine, client: Client, value: Any, expected: Any) -> None:
    for name in ("coffee", "tea"):
        skill(machine.home / "skills", name)
    session = client.session(skills=value)
    assert names(client, session_id=session) == expected
    assert ("skill" in offered(client, session)) is bool(expected)


def test_what_a_session_says_of_skills_outdoes_the_daemons_flag(machine: Machine) -> None:
    skill(machine.home / "skills", "tea")
    client = machine.rpc("--provider", "scripted", "--no-skill").greet()
    assert names(client, session_id=client.session()) == []
    assert names(client, session_id=client.session(skills=True)) == ["tea"]


def test_a_chosen_skill_that_is_not_there_is_told_of(machine: Machine, client: Client) -> None:
    skill(machine.home / "skills", "tea")
    session = client.session(skills=["tea", "coffee"])
    assert names(client, session_id=session) == ["tea"]
    assert client.event("ext_notify")["message"] == "no skill is named 'coffee'"


def test_skills_that_are_no_names_are_refused_with_their_path(client: Client) -> None:
    error = client.error("session/new", skills=[1])
    assert (error["code"], error["message"]) == (
        -32602,
        "session/new: $.skills[0]: expected a string, got a number",
    )


def test_the_skill_tool_is_called_like_any_other(machine: Machine) -> None:
    skill(machine.home / "skills", "tea")
    calls: list[Frame] = [
        {"tool_call": {"name": "skill", "args": {"name": name}}} for name in ("tea", "coffee")
    ]
    client = machine.rpc(*machine.script({"reply": calls}, {"reply": [{"text": "done"}]})).greet()
    session = client.session()
    client.call("turn/start", session_id=session, text="go")
    first, second = client.event("tool_result"), client.event("tool_result")
    assert first["is_error"] is False
    assert first["content"][0]["text"].endswith("\n\nHow to do tea.")
    assert second["is_error"] is True
    assert second["content"][0]["text"] == "$.name: no skill is named 'coffee'; there are: tea"


def test_a_path_that_is_no_utf_8_hurts_nobody(machine: Machine, client: Client) -> None:
    for name in (b"caf\xe9", b"th\xe9"):
        place = bytes(machine.home) + b"/skills/" + name
        Path(place.decode("utf-8", "surrogateescape")).mkdir(parents=True)
        text = "---\nname: tea\ndescription: d\n---\n" if name == b"caf\xe9" else "x"
        Path((place + b"/SKILL.md").decode("utf-8", "surrogateescape")).write_text(text)
    listed = client.call("skill/list")
    assert [row["path"] for row in listed["skills"]] == [f"{machine.home}/skills/caf\ufffd/SKILL.md"]
    assert [row["path"] for row in listed["errors"]] == [f"{machine.home}/skills/th\ufffd/SKILL.md"]
    session = client.session()
    turn = client.call("turn/start", session_id=session, text="hi")["turn_id"]
    assert client.call("turn/wait", session_id=session, turn_id=turn)["text"] == "You said: hi"


# The home


@pytest.mark.parametrize(
    "given", [{}, {"HOME": "elsewhere", "ZOT_HOME": "elsewhere", "XDG_STATE_HOME": "elsewhere"}]
)
def test_the_environment_of_a_session_moves_no_home(
    machine: Machine, client: Client, given: dict[str, str]
) -> None:
    skill(machine.home / "skills", "ours")
    skill(machine.root / ".claude" / "skills", "the-users")
    (machine.home / "themes").mkdir()
    (machine.home / "themes" / "dusk.json").write_text("{}")
    extension = bundle(machine.home / "extensions", "installed")
    elsewhere = {name: str(machine.root / path) for name, path in given.items()}
    session = client.session(env={"PATH": machine.env["PATH"], **elsewhere})
    (row,) = client.call("extension/list", session_id=session)["extensions"]
    assert row["dir"] == str(extension)
    assert row["log_path"].startswith(f"{machine.home}/logs/")
    assert names(client, session_id=session) == ["ours", "the-users", "installed:tricks"]
    themes = client.call("theme/list", session_id=session)["themes"]
    assert [theme["name"] for theme in themes] == ["dusk", "installed"]


# Themes


def test_themes_of_the_user_and_of_extensions_are_listed_with_what_is_wrong(
    machine: Machine, client: Client
) -> None:
    place = machine.home / "themes"
    place.mkdir()
    (place / "dusk.json").write_text('{"background": "#1c1c1c", "unknown": 1}')
    (place / "bad.json").write_text('{"fg": "red"}')
    bundle(machine.cwd / ".zot" / "extensions", "project")
    user = bundle(machine.home / "extensions", "user")
    given = bundle(machine.root, "given")
    listed = client.call("theme/list")
    assert listed["errors"] == [
        {"path": f"{place}/bad.json", "message": "fg: expected a colour: a whole number from 0 to 255"}
    ]
    own = {"name": "dusk", "source": "user", "path": f"{place}/dusk.json", "theme": {"background": "#1c1c1c"}}
    theirs = {"source": "extension", "theme": {"colors": {"accent": 110}}}
    global_one = {"name": "user", "extension": "user", "path": f"{user}/theme.json", **theirs}
    assert listed["themes"] == [own, global_one]

    session = client.session(extensions=[str(given)], discover_extensions=False)
    (_, row) = client.call("theme/list", session_id=session)["themes"]
    assert row == {"name": "given", "extension": "given", "path": f"{given}/theme.json", **theirs}


@pytest.mark.promise("S7")
def test_an_extension_that_is_only_a_theme_is_ready_and_starts_nothing(
    machine: Machine, client: Client
) -> None:
    session = client.session(extensions=[str(bundle(machine.root, "given"))])
    client.call("theme/list", session_id=session)
    (row,) = client.call("session/state", session_id=session)["session"]["extensions"]
    assert (row["name"], row["state"]) == ("given", "ready")
    assert not (machine.home / "logs").exists()


@pytest.mark.parametrize("method", ["skill/list", "theme/list"])
def test_a_session_that_is_not_open_is_refused(client: Client, method: str) -> None:
    error = client.error(method, session_id="none")
    assert error["data"]["kind"] == "session_not_found"


# After a reload, and with another model


def test_a_reload_reads_all_of_it_again(machine: Machine, client: Client) -> None:
    session = client.session()
    assert (names(client, session_id=session), "skill" in offered(client, session)) == ([], False)
    tea = skill(machine.cwd / ".zot" / "skills", "tea")
    bundle(machine.home / "extensions", "user")
    client.call("extension/reload", session_id=session)
    assert names(client, session_id=session) == ["tea", "user:tricks"]
    assert "skill" in offered(client, session)
    tea.unlink()
    (machine.home / "extensions" / "user" / "extension.json").unlink()
    client.call("extension/reload", session_id=session)
    assert (names(client, session_id=session), "skill" in offered(client, session)) == ([], False)


def test_of_many_files_that_cannot_be_used_a_session_is_told_the_first_and_lists_have_all(
    machine: Machine, client: Client
) -> None:
    for number in range(100):
        path = machine.cwd / ".zot" / "skills" / f"s{number:02}" / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text("---\n[")
    session = client.session()
    assert len(client.call("skill/list", session_id=session)["errors"]) == 100
    notes = client.call("session/state", session_id=session)["session"]["notes"]
    assert len(notes) == 33
    assert notes[-1]["text"] == "68 more files of this folder cannot be used; skill/list names them"
