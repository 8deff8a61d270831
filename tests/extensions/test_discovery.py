from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from zotd.extensions.discovery import Discovery, Located, discover


class Places:
    """A project and a home, both empty at first."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "project"
        self.home = root / "home"
        self.cwd.mkdir()

    def put(self, directory: Path, **manifest: Any) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        manifest = {"name": directory.name, "exec": "./run", **manifest}
        text = json.dumps({key: value for key, value in manifest.items() if value is not ...})
        (directory / "extension.json").write_text(text)
        return directory

    def project(self, name: str, /, **manifest: Any) -> Path:
        return self.put(self.cwd / ".zot" / "extensions" / name, **manifest)

    def installed(self, name: str, /, **manifest: Any) -> Path:
        return self.put(self.home / "extensions" / name, **manifest)

    def discover(self, *explicit: str | Path, installed: bool = True) -> Discovery:
        return discover(self.cwd, self.home, [Path(path) for path in explicit], installed)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def names(located: list[Located]) -> list[tuple[str, str]]:
    return [(item.name, item.scope) for item in located]


@pytest.mark.promise("S3")
def test_nothing_is_found_where_nothing_was_installed(places: Places) -> None:
    assert places.discover() == Discovery()
    assert not places.home.exists()


@pytest.mark.promise("S4")
@pytest.mark.promise("S60")
def test_paths_of_this_run_come_first_then_the_project_then_home_each_by_name(places: Places) -> None:
    places.installed("a")
    places.installed("e")
    places.project("d")
    places.project("c")
    places.put(places.cwd / "mine" / "z")
    places.put(places.cwd / "mine" / "y")
    found = places.discover("mine/z", "./mine/y").found
    assert names(found) == [
        ("z", "flag"),
        ("y", "flag"),
        ("c", "project"),
        ("d", "project"),
        ("a", "global"),
        ("e", "global"),
    ]
    assert all(item.directory.is_absolute() for item in found)
    assert found[1].directory == places.cwd / "mine" / "y"


@pytest.mark.promise("S4")
@pytest.mark.promise("S60")
def test_the_first_of_a_name_wins_and_the_others_are_reported_as_shadowed(places: Places) -> None:
    places.put(places.cwd / "working-copy", name="weather", version="3")
    places.project("weather", version="2")
    places.installed("any-directory", name="weather", version="1")
    result = places.discover("working-copy")
    assert [item.manifest.version for item in result.found] == ["3"]
    assert [item.manifest.version for item in result.shadowed] == ["2", "1"]
    assert [item.manifest.version for item in places.discover().found] == ["2"]


def test_one_directory_reached_on_two_ways_is_one_extension(places: Places) -> None:
    directory = places.installed("weather")
    result = places.discover(directory, directory)
    assert names(result.found) == [("weather", "flag")]
    assert result.shadowed == []


@pytest.mark.promise("S60")
def test_without_installed_ones_only_the_paths_of_this_run_count(places: Places) -> None:
    places.installed("a")
    places.project("b")
    places.put(places.cwd / "c")
    assert names(places.discover("c", installed=False).found) == [("c", "flag")]


def test_linked_directories_are_followed_and_keep_the_path_of_the_link(places: Places) -> None:
    real = places.put(places.cwd / "elsewhere")
    place = places.home / "extensions"
    place.mkdir(parents=True)
    (place / "link").symlink_to(real)
    (place / "nowhere").symlink_to(places.cwd / "gone")
    (place / "loop").symlink_to(place / "loop")
    (place / "a-file").write_text("not an extension")
    result = places.discover()
    assert [item.directory for item in result.found] == [place / "link"]
    assert result.errors == []


def test_a_directory_without_a_manifest_is_passed_over_unless_it_was_named(places: Places) -> None:
    (places.home / "extensions" / "empty").mkdir(parents=True)
    (places.cwd / "empty").mkdir()
    assert places.discover() == Discovery()
    result = places.discover("empty", "missing", "\0")
    assert result.found == []
    empty, missing, nul = result.errors
    assert "NUL" in nul.message
    assert (empty.path, empty.key, empty.extension) == (places.cwd / "empty", "", "empty")
    assert str(empty) == f"{places.cwd}/empty: no extension.json here; expected an extension's directory"
    assert missing.extension == "missing"


def test_the_own_extensions_of_a_folder_that_is_not_trusted_are_listed_and_shadow_nothing(
    places: Places,
) -> None:
    places.project("weather")
    places.project("own")
    places.installed("weather")
    result = discover(places.cwd, places.home, trusted=False)
    assert names(result.found) == [("weather", "global")]
    assert names(result.untrusted) == [("own", "project"), ("weather", "project")]
    assert (result.shadowed, result.errors) == ([], [])


@pytest.mark.promise("S58")
def test_a_disabled_extension_is_listed_apart_and_keeps_its_name(places: Places) -> None:
    places.project("weather", enabled=False)
    places.installed("weather")
    result = places.discover()
    assert names(result.disabled) == [("weather", "project")]
    assert names(result.shadowed) == [("weather", "global")]
    assert result.found == []


@pytest.mark.promise("S6")
def test_every_field_is_read_unknown_ones_are_ignored_and_a_byte_order_mark_is_accepted(
    places: Places,
) -> None:
    directory = places.installed("weather")
    text = json.dumps(
        {
            "name": "weather",
            "version": "1.0.0",
            "exec": "./weather",
            "args": ["--mode", "daemon"],
            "language": "go",
            "description": "current weather for any city",
            "enabled": True,
            "x-ours": {"deep": [1]},
        }
    )
    (directory / "extension.json").write_text(text, encoding="utf-8-sig")
    (found,) = places.discover().found
    manifest = found.manifest
    assert (manifest.name, manifest.version, manifest.exec) == ("weather", "1.0.0", "./weather")
    assert (manifest.args, manifest.language, manifest.enabled) == (["--mode", "daemon"], "go", True)
    assert manifest.description == "current weather for any city"


def test_only_the_name_and_the_program_are_required(places: Places) -> None:
    places.installed("small")
    manifest = places.discover().found[0].manifest
    assert (manifest.version, manifest.args, manifest.language, manifest.enabled) == ("", [], "", True)


@pytest.mark.promise("S7")
@pytest.mark.parametrize("theme", ["theme.json", "themes/theme.json"])
def test_an_extension_with_a_theme_needs_no_program(places: Places, theme: str) -> None:
    directory = places.installed("dark", exec=...)
    (directory / theme).parent.mkdir(exist_ok=True)
    (directory / theme).write_text("{}")
    assert names(places.discover().found) == [("dark", "global")]


def test_an_extension_with_skills_needs_no_program_and_an_empty_list_is_none(places: Places) -> None:
    places.installed("knows", exec=..., skills=["skills", "./more/SKILL.md"])
    places.installed("knows-nothing", exec=..., skills=[])
    result = places.discover()
    assert names(result.found) == [("knows", "global")]
    assert [error.key for error in result.errors] == ["exec"]


def test_skills_stay_inside_the_directory_links_included(places: Places) -> None:
    directory = places.installed("spy", skills=["ok", "../spy-too/SKILL.md"])
    places.installed("root", skills=["/etc"])
    linked = places.installed("tunnel", skills=["inside"])
    (linked / "inside").symlink_to("/etc")
    errors = places.discover().errors
    assert [error.key for error in errors] == ["skills[0]", "skills[1]", "skills[0]"]
    assert str(errors[1]) == (
        f"{directory}/extension.json: skills[1]: expected a path inside {directory}, got ../spy-too/SKILL.md"
    )


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("{", "", "expected JSON: "),
        ("", "", "expected JSON: "),
        ("[]", "", "expected a JSON object"),
        ("null", "", "expected a JSON object"),
        ('{"exec": "./x"}', "name", "is required and missing"),
        ('{"name": "", "exec": "./x"}', "name", "expected a string whose length is at least 1"),
        ('{"name": " ", "exec": "./x"}', "name", "expected a name, got an empty string"),
        ('{"name": 7, "exec": "./x"}', "name", "expected a string, got a number"),
        ('{"name": "x"}', "exec", "expected a program to run"),
        ('{"name": "x", "exec": ""}', "exec", "expected a program to run"),
        ('{"name": "x", "exec": ["./x"]}', "exec", "expected a string, got a list"),
        ('{"name": "x", "exec": "./x", "enabled": "yes"}', "enabled", "expected true or false, got a string"),
        ('{"name": "x", "exec": "./x", "enabled": null}', "enabled", "expected true or false, got null"),
        ('{"name": "x", "exec": "./x", "args": "a b"}', "args", "expected a list, got a string"),
        ('{"name": "x", "exec": "./x", "args": ["a", 1]}', "args[1]", "expected a string, got a number"),
        (
            '{"name": "x", "exec": "./x", "hello_timeout": 0}',
            "hello_timeout",
            "expected a number of more than 0",
        ),
        ('{"name": "x", "exec": "./x", "skills": ["\\u0000"]}', "skills[0]", "expected a path inside"),
        (
            '{"name": "x", "exec": "./x", "instances": "daemon"}',
            "instances",
            "expected 'session' or 'workspace', got 'daemon'",
        ),
        ('{"name": "x", "exec": "./x", "instances": 1}', "instances", "expected a string, got a number"),
    ],
)
def test_a_bad_manifest_names_file_key_and_what_was_expected_and_stops_nobody_else(
    places: Places, text: str, key: str, message: str
) -> None:
    directory = places.installed("broken")
    (directory / "extension.json").write_text(text)
    places.installed("good")
    result = places.discover()
    assert names(result.found) == [("good", "global")]
    (error,) = result.errors
    assert (error.path, error.key, error.extension) == (directory / "extension.json", key, "broken")
    assert error.message.startswith(message)
    assert str(error).startswith(f"{directory}/extension.json: {key}")


def test_a_manifest_that_cannot_be_read_is_an_error_and_not_an_absence(places: Places) -> None:
    for name in ("dangling", "folder"):
        (places.home / "extensions" / name).mkdir(parents=True)
    (places.home / "extensions" / "dangling" / "extension.json").symlink_to("nothing")
    (places.home / "extensions" / "folder" / "extension.json").mkdir()
    messages = [error.message for error in places.discover().errors]
    assert messages == ["is a symbolic link to nothing", "cannot be read: expected a regular file"]


def test_discovery_leaves_no_trace(places: Places) -> None:
    places.installed("weather")
    before = sorted(os.walk(places.cwd.parent))
    places.discover()
    assert sorted(os.walk(places.cwd.parent)) == before


@pytest.mark.parametrize(
    ("manifest", "key"),
    [({"exec": "./a\0"}, "exec"), ({"exec": "\0"}, "exec"), ({"args": ["a", "b\0c"]}, "args[1]")],
)
def test_what_no_program_can_be_started_with_is_an_error_of_the_manifest(
    places: Places, manifest: dict[str, Any], key: str
) -> None:
    places.installed("a", **manifest)
    (error,) = places.discover().errors
    assert (error.key, error.message) == (key, "expected a text without NUL characters")


def test_a_manifest_that_is_a_pipe_or_huge_is_told_of_and_nothing_waits(places: Places) -> None:
    pipe = places.installed("pipe") / "extension.json"
    pipe.unlink()
    os.mkfifo(pipe)
    places.installed("tall", description="x" * 1024 * 1024)
    messages = [error.message for error in places.discover().errors]
    assert messages[0] == "cannot be read: expected a regular file"
    assert messages[1].startswith("expected at most 262144 bytes, got 1048")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zotd", "expected another name than 'zotd', which is the host's own"),
        (" ZotD ", "expected another name than ' ZotD ', which is the host's own"),
        ("a/b", "expected a name without slashes and control characters, got 'a/b'"),
        ("a\\b", "expected a name without slashes and control characters, got 'a\\\\b'"),
        ("a\0", "expected a name without slashes and control characters, got 'a\\x00'"),
        ("\x1b[2J", "expected a name without slashes and control characters, got '\\x1b[2J'"),
        ("a\nb", "expected a name without slashes and control characters, got 'a\\nb'"),
        ("..", "expected a name that does not begin with a dot, got '..'"),
        (".a", "expected a name that does not begin with a dot, got '.a'"),
        ("x" * 101, "expected at most 100 characters and 200 bytes, got 101 characters"),
        ("日" * 67, "expected at most 100 characters and 200 bytes, got 67 characters"),
    ],
)
def test_a_name_that_is_the_hosts_or_no_name_of_a_file_is_an_error_of_the_manifest(
    places: Places, name: str, said: str
) -> None:
    places.installed("a", name=name)
    (error,) = places.discover().errors
    assert (error.key, error.message) == ("name", said)


@pytest.mark.parametrize(
    "name", ["x" * 100, "Wetter für 日本 👩\u200d🚀", "a_b", "a b", "100%", "@me.x", "zot"]
)
def test_any_other_name_is_good(places: Places, name: str) -> None:
    places.installed("a", name=name)
    assert [located.name for located in places.discover().found] == [name]


def test_there_is_a_last_directory_that_is_looked_at(places: Places) -> None:
    for number in range(300):
        places.project(f"e{number:03}")
    result = places.discover()
    assert [located.name for located in result.found] == [f"e{number:03}" for number in range(256)]
    (error,) = result.errors
    assert error.message == "has 300 entries, of which only the first 256 are looked at"
