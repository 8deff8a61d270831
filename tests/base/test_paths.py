"""Where files live, on each platform."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zotd.base.paths import absolute, extension_log, zot_home

ON = """
import sys
sys.platform = {platform!r}
from zotd.base.paths import zot_home
print(zot_home())
"""


def home_on(platform: str, **environ: str) -> str:
    """The home as a process on that platform finds it."""
    run = [sys.executable, "-c", ON.format(platform=platform)]
    done = subprocess.run(run, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.promise("S5")
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_state_directory_of_xdg_counts_on_every_platform(platform: str) -> None:
    environ = {"XDG_STATE_HOME": "/state", "HOME": "/home/pat", "LOCALAPPDATA": "/local"}
    assert home_on(platform, **environ) == "/state/zot"


@pytest.mark.promise("S5")
@pytest.mark.parametrize(
    ("platform", "home"),
    [
        ("linux", "/home/pat/.local/state/zot"),
        ("darwin", "/home/pat/Library/Application Support/zot"),
    ],
)
def test_without_it_each_platform_has_its_own_place(platform: str, home: str) -> None:
    assert home_on(platform, HOME="/home/pat", LOCALAPPDATA="/local") == home


@pytest.mark.promise("S5")
def test_zot_home_wins_over_everything(tmp_path: Path) -> None:
    assert zot_home({"ZOT_HOME": str(tmp_path), "XDG_STATE_HOME": "/state"}) == tmp_path


@pytest.mark.promise("S5")
@pytest.mark.parametrize("empty", ["ZOT_HOME", "XDG_STATE_HOME"])
def test_an_empty_variable_is_none(empty: str) -> None:
    assert zot_home({empty: "", "HOME": "/home/pat"}).parts[:3] == ("/", "home", "pat")


@pytest.mark.promise("S8")
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("weather", "ext-weather.log"),
        ("../../etc/x", "ext-..%2F..%2Fetc%2Fx.log"),
        ("ü b", "ext-ü b.log"),
        ("a_b", "ext-a_b.log"),
        ("a%2Fb\0", "ext-a%252Fb%00.log"),
    ],
)
def test_each_extension_has_one_log_and_none_leaves_the_directory(name: str, file: str) -> None:
    assert extension_log(Path("/home/zot"), name) == Path("/home/zot/logs") / file


@pytest.mark.parametrize("path", ["~nobody-of-that-name", "~nobody-of-that-name/zot"])
def test_the_home_of_nobody_is_told_of_by_the_name_it_was_given_under(path: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"^ZOT_HOME {path}: there is no such user's home$"):
        zot_home({"ZOT_HOME": path})
    with pytest.raises(FileNotFoundError, match=f"^--cwd {path}: "):
        absolute(path, "--cwd")
