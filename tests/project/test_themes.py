"""Where themes are found, what they may say, and that a bad one names file, key and what was expected."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.project.conftest import Folders
from zotd.project.themes import Themes, find_themes, read_theme
from zotd.protocol.theme import AnsiColor, RgbColor, XtermColor

SIZE = 10_000


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def complaint(path: Path, value: Any, folders: Folders) -> str:
    write(path, value)
    (bad,) = find_themes(folders.zot_home, [], SIZE).complaints
    return str(bad)


def test_the_users_come_first_then_those_of_extensions_and_the_first_of_a_name_wins(folders: Folders) -> None:
    place = folders.zot_home / "themes"
    write(place / "b.json", {"fg": 1})
    write(place / "a.json", {"name": "dusk", "fg": 2})
    write(place / "c.json", {"name": "dusk", "fg": 3})
    (place / "notes.txt").write_text("{")
    (place / ".hidden.json").write_text("{")
    plain = folders.user_home / "plain"
    nested = folders.user_home / "nested"
    write(plain / "theme.json", {"name": ""})
    write(plain / "themes" / "theme.json", {"name": "second place"})
    write(nested / "themes" / "theme.json", {"name": "dawn"})
    themes = find_themes(
        folders.zot_home, [("plain", plain), ("nested", nested), ("none", folders.cwd)], SIZE
    )
    assert [(row.name, row.extension, row.path) for row in themes.found] == [
        ("dusk", "", place / "a.json"),
        ("b", "", place / "b.json"),
        ("plain", "plain", plain / "theme.json"),
        ("dawn", "nested", nested / "themes" / "theme.json"),
    ]
    assert themes.found[0].theme.fg == 2
    assert themes.complaints == []


def test_no_place_is_no_theme_and_no_complaint(folders: Folders) -> None:
    assert find_themes(folders.zot_home, [], SIZE) == Themes()


@pytest.mark.parametrize(
    "value", [{}, {"colors": {}}, {"colors": {"dark": {}}}, {"syntax": {}}, {"new": [1]}]
)
def test_every_key_may_be_missing_and_unknown_ones_are_ignored(folders: Folders, value: Any) -> None:
    theme = read_theme(write(folders.zot_home / "t.json", value), SIZE)
    assert (theme.fg, theme.name, theme.spinner_frames) == (None, None, [])


def test_all_that_a_theme_may_say_is_read(folders: Folders) -> None:
    value = {
        "name": "dusk",
        "description": "Soft.",
        "fg": 255,
        "background": "#1c1C1c",
        "colors": {"accent": 0, "user_bubble_bg": {"mode": "256", "index": 3}, "light": {"fg": 16}},
        "spinner_frames": ["-", "+"],
        "spinner_messages": ["thinking"],
        "spinner_interval_ms": 80,
        "syntax_base_style": "monokai",
        "syntax": {"comment": "#5c6370 italic underline", "keyword": "bold", "text": ""},
    }
    theme = read_theme(write(folders.zot_home / "t.json", value), SIZE)
    assert (theme.fg, theme.background, theme.spinner_interval_ms) == (255, "#1c1C1c", 80)
    assert theme.colors is not None
    assert (theme.colors.accent, theme.colors.user_bubble_bg) == (0, XtermColor(index=3))
    assert theme.colors.light is not None
    assert (theme.colors.light.fg, theme.colors.dark) == (16, None)
    assert theme.syntax is not None
    assert (theme.syntax.comment, theme.syntax.keyword) == ("#5c6370 italic underline", "bold")


@pytest.mark.parametrize(
    ("value", "color"),
    [
        (7, 7),
        ("#0a0b0c", "#0a0b0c"),
        ({"mode": "ansi", "index": 8}, AnsiColor(index=8)),
        ({"mode": "rgb", "r": 1, "g": 2, "b": 255}, RgbColor(r=1, g=2, b=255)),
    ],
)
@pytest.mark.parametrize("key", ["background", "user_bubble_bg"])
def test_the_two_backgrounds_take_more_kinds_of_colour(
    folders: Folders, key: str, value: Any, color: object
) -> None:
    theme = read_theme(write(folders.zot_home / "t.json", {key: value}), SIZE)
    assert getattr(theme, key) == color


COLOR = "expected a colour: a whole number from 0 to 255"
KINDS = '0 to 255, "#rrggbb", {"mode": "256" or "ansi", "index"} or {"mode": "rgb", "r", "g", "b"}'
BACKGROUND = f"expected a colour: {KINDS}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "expected a JSON object"),
        ({"fg": 256}, f"fg: {COLOR}"),
        ({"fg": -1}, f"fg: {COLOR}"),
        ({"fg": "#ffffff"}, f"fg: {COLOR}"),
        ({"colors": {"dark": {"error": 1.5}}}, f"colors.dark.error: {COLOR}"),
        ({"colors": {"error": True}}, f"colors.error: {COLOR}"),
        ({"background": "red"}, f"background: {BACKGROUND}"),
        ({"colors": {"background": "#12345"}}, f"colors.background: {BACKGROUND}"),
        ({"user_bubble_bg": {"mode": "hsl"}}, f"user_bubble_bg.mode: {BACKGROUND}"),
        ({"user_bubble_bg": {"mode": "rgb", "r": 1}}, f"user_bubble_bg.g: {BACKGROUND}"),
        ({"colors": 3}, "colors: expected an object, got a number"),
        (
            {"syntax": {"text": "purple"}},
            'syntax.text: expected a style such as "#c678dd bold italic underline"',
        ),
        ({"syntax": {"text": 4}}, 'syntax.text: expected a style such as "#c678dd bold italic underline"'),
        ({"spinner_frames": "-"}, "spinner_frames: expected a list, got a string"),
        ({"spinner_frames": [1]}, "spinner_frames[0]: expected a string, got a number"),
        ({"spinner_interval_ms": 0}, "spinner_interval_ms: expected a whole number of at least 1"),
        ({"name": 3}, "name: expected a string, got a number"),
    ],
    ids=lambda value: "" if isinstance(value, str) else json.dumps(value),
)
def test_a_bad_theme_names_its_file_its_key_and_what_was_expected(
    folders: Folders, value: Any, said: str
) -> None:
    path = folders.zot_home / "themes" / "bad.json"
    assert complaint(path, value, folders) == f"{path}: {said}"


def test_bad_files_stop_no_other_and_nothing_waits(folders: Folders) -> None:
    place = folders.zot_home / "themes"
    write(place / "z.json", {})
    (place / "broken.json").write_text("{")
    (place / "deep.json").write_text("[" * 9_000)
    (place / "large.json").write_text(" " * (SIZE + 10))
    (place / "dangling.json").symlink_to("nowhere")
    (place / "folder.json").mkdir()
    os.mkfifo(place / "pipe.json")
    themes = find_themes(folders.zot_home, [], SIZE)
    assert [row.name for row in themes.found] == ["z"]
    said = {bad.path.name: bad.message for bad in themes.complaints}
    assert said.pop("deep.json").startswith("expected JSON: ")
    assert said == {
        "broken.json": "expected JSON: Input data was truncated",
        "dangling.json": "is a symbolic link to nothing",
        "folder.json": "cannot be read: expected a regular file",
        "large.json": "expected at most 10000 bytes, got 10010",
        "pipe.json": "cannot be read: expected a regular file",
    }
