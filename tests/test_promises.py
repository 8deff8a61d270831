"""The report on promises: it speaks for whole runs, fails them for a gap, and stays out of all others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.promises import listed

ROOT = Path(__file__).resolve().parent.parent
CONFTEST = """
from tests.promises import Report

def pytest_configure(config):
    config.pluginmanager.register(Report(config.rootpath / "docs" / "promises.md"))
"""
PAGE = "# Promises\n\n- **S1** one thing\n- **S2** another\n\n## Later\n\n- **S3** a third\n"
SETTINGS = "[pytest]\ntestpaths = tests\npythonpath = {root}\nmarkers =\n    promise(number)\n    long\n"
MARKED = "import pytest\n\n@pytest.mark.promise({numbers})\n{more}def test_{name}():\n    pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "promises.md").write_text(PAGE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text(SETTINGS.format(root=ROOT))
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


def add(project: Path, name: str, numbers: str, more: str = "") -> None:
    (project / "tests" / f"test_{name}.py").write_text(MARKED.format(numbers=numbers, name=name, more=more))


def run(project: Path, *args: str) -> tuple[int, str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        *args,
    ]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_promise_without_a_test_is_named_and_fails_the_run(project: Path) -> None:
    add(project, "one", '"S1"')
    code, said = run(project)
    assert "promises without a test: S2" in said
    assert code == 1


def test_processes_that_share_the_tests_report_as_one(project: Path) -> None:
    add(project, "one", '"S1"')
    shared = ["-p", "xdist", "-n", "2", "-m", "not long"]
    code, said = run(project, *shared)
    assert "promises without a test: S2" in said
    assert code == 1
    add(project, "two", '"S2"')
    code, said = run(project, *shared)
    assert said.count("promises without a test: none") == 1
    assert code == 0


def test_a_whole_run_says_that_nothing_is_missing(project: Path) -> None:
    add(project, "both", '"S1", "S2"')
    code, said = run(project)
    assert "promises without a test: none" in said
    assert code == 0


def test_a_long_test_carries_its_promise_though_it_does_not_run(project: Path) -> None:
    add(project, "one", '"S1"')
    add(project, "two", '"S2"', more="@pytest.mark.long\n")
    code, said = run(project, "-m", "not long")
    assert "promises without a test: none" in said
    assert code == 0


def test_a_number_that_the_index_does_not_have_fails_the_run(project: Path) -> None:
    add(project, "both", '"S1", "S2", "S3", "S99"')
    code, said = run(project)
    assert "promises that promises.md does not list: S99" in said
    assert code == 1


@pytest.mark.parametrize(
    "choice", [["tests/test_one.py"], ["-k", "one"], ["-m", "promise"], ["--ignore", "tests/test_x.py"]]
)
def test_a_choice_of_tests_is_not_judged(project: Path, choice: list[str]) -> None:
    add(project, "one", '"S1"')
    code, said = run(project, *choice)
    assert "promises" not in said
    assert code == 0


def test_the_index_lists_each_number_once() -> None:
    required, later = listed((ROOT / "docs" / "promises.md").read_text(encoding="utf-8"))
    assert required == [f"S{number}" for number in [*range(1, 23), *range(24, 53), *range(67, 70)]]
    assert sorted(later, key=lambda number: int(number[1:])) == [
        f"S{number}" for number in [23, *range(53, 67), *range(70, 74)]
    ]
