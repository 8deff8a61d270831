"""The rules of what is started for a manifest, and of what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.extensions.conftest import Stage
from tests.peers import Peer
from zotd.extensions.discovery import discover
from zotd.extensions.program import argv, environment
from zotd.protocol.manifest import Manifest


def installed(stage: Stage, place: Path, name: str, **manifest: Any) -> Path:
    """A manifest on disk, and a peer for its directory."""
    directory = place / name
    directory.mkdir(parents=True)
    full = {"name": name, "exec": "./run", "version": str(place), **manifest}
    (directory / "extension.json").write_text(json.dumps(full))
    peer = stage.peers.setdefault(name, Peer())
    peer.name = full["name"]
    return directory


@pytest.fixture
def places(stage: Stage) -> dict[str, Path]:
    return {
        "flag": stage.cwd / "mine",
        "project": stage.cwd / ".zot" / "extensions",
        "global": stage.home / "extensions",
    }


@pytest.mark.promise("S4")
async def test_of_one_name_only_the_first_is_started_and_the_others_are_shown_as_shadowed(
    stage: Stage, places: dict[str, Path]
) -> None:
    for place in places.values():
        installed(stage, place, "weather")
    stage.discovery = discover(stage.cwd, stage.home, [places["flag"] / "weather"])
    async with stage.running() as host:
        assert stage.peers["weather"].starts == 1
        assert [(row.scope, row.state) for row in host.states()] == [
            ("flag", "ready"),
            ("project", "shadowed"),
            ("global", "shadowed"),
        ]


@pytest.mark.promise("S4")
async def test_load_order_is_flags_then_the_project_then_the_home_each_by_directory(
    stage: Stage, places: dict[str, Path]
) -> None:
    for place, name in (("global", "a"), ("global", "b"), ("project", "d"), ("project", "c"), ("flag", "e")):
        installed(stage, places[place], name)
    stage.discovery = discover(stage.cwd, stage.home, [places["flag"] / "e"])
    async with stage.running() as host:
        assert [row.name for row in host.states()] == ["e", "c", "d", "a", "b"]


@pytest.mark.promise("S6")
async def test_one_that_is_not_enabled_is_not_started_and_shown(
    stage: Stage, places: dict[str, Path]
) -> None:
    installed(stage, places["global"], "off", enabled=False)
    installed(stage, places["global"], "on", enabled=True)
    stage.discovery = discover(stage.cwd, stage.home, [])
    async with stage.running() as host:
        assert (stage.peers["off"].starts, stage.peers["on"].starts) == (0, 1)
        assert {row.name: row.state for row in host.states()} == {"on": "ready", "off": "disabled"}


@pytest.mark.promise("S7")
async def test_one_that_ships_only_a_theme_starts_nothing_and_is_ready(
    stage: Stage, places: dict[str, Path]
) -> None:
    directory = installed(stage, places["global"], "dark", exec="")
    (directory / "theme.json").write_text("{}")
    stage.discovery = discover(stage.cwd, stage.home, [])
    async with stage.running() as host:
        assert stage.peers["dark"].starts == 0
        assert [(row.name, row.state) for row in host.states()] == [("dark", "ready")]


@pytest.mark.promise("S69")
async def test_a_load_error_stops_nobody_else_and_names_file_key_and_what_was_expected(
    stage: Stage, places: dict[str, Path]
) -> None:
    broken = installed(stage, places["global"], "broken", enabled="yes")
    installed(stage, places["global"], "good")
    stage.discovery = discover(stage.cwd, stage.home, [])
    async with stage.running() as host:
        good, failed = host.states()
        assert (good.name, good.state) == ("good", "ready")
        assert (failed.name, failed.state) == ("broken", "failed")
        assert failed.error == f"{broken}/extension.json: enabled: expected true or false, got a string"


@pytest.mark.promise("S8")
async def test_all_are_started_before_any_has_answered(stage: Stage) -> None:
    class Mute(Peer):
        def began(self) -> None:
            pass

    peers = [stage.enter(f"e{number}", Mute()) for number in range(5)]
    async with stage.running():
        assert len({peer.began_at for peer in peers}) == 1


# Programs


@pytest.mark.promise("S7")
@pytest.mark.parametrize(
    ("program", "run"),
    [
        ("/usr/bin/env", "/usr/bin/env"),
        ("./run", "/ext/run"),
        ("bin/run", "/ext/bin/run"),
        ("../beside/run", "/beside/run"),
        ("python3", "python3"),
    ],
)
def test_a_program_is_absolute_or_beside_the_manifest_or_on_the_path(program: str, run: str) -> None:
    manifest = Manifest(name="x", exec=program, args=["--mode", "a b", ""])
    assert argv(manifest, Path("/ext")) == [run, "--mode", "a b", ""]


@pytest.mark.promise("S7")
def test_a_bare_name_that_can_be_run_beside_the_manifest_means_that(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/bin/sh\n")
    manifest = Manifest(name="x", exec="run")
    assert argv(manifest, tmp_path) == ["run"]
    (tmp_path / "run").chmod(0o755)
    assert argv(manifest, tmp_path) == [str(tmp_path / "run")]


def test_the_environment_is_the_sessions_with_four_words_of_ours_and_without_our_tokens() -> None:
    env = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "the user's own",
        "AI_AGENT": "other",
        "ZOTD_TOKEN": "secret",
        "ZOTCORE_RPC_TOKEN": "secret",
    }
    assert environment(env, home=Path("/home"), directory=Path("/ext"), cwd=Path("/project")) == {
        "PATH": "/bin",
        "OPENAI_API_KEY": "the user's own",
        "ZOT_HOME": "/home",
        "ZOT_EXTENSION_DIR": "/ext",
        "ZOT_CWD": "/project",
        "AI_AGENT": "zotd",
    }


async def test_each_start_writes_who_was_started_and_when_into_the_log(stage: Stage) -> None:
    stage.enter("weather", version="1.2.3")
    async with stage.running() as host:
        await host.reload()
    starts = [line for line in stage.log("weather").splitlines() if "starting" in line]
    assert len(starts) == 2
    for line in starts:
        assert line.startswith("[zotd] starting weather/1.2.3 at 20")
    assert all(line.startswith("[zotd] ") for line in stage.log("weather").splitlines())
