"""Which promises of docs/promises.md no test carries, for the report at the end of a whole run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

LATER = "## Later"


def listed(page: str) -> tuple[list[str], list[str]]:
    """The numbers in the index: those that a test has to carry, and those that come later."""
    required, _, later = page.partition(f"\n{LATER}\n")
    number = re.compile(r"\*\*(S\d+)\*\*")
    return number.findall(required), number.findall(later)


def carried(items: Iterable[pytest.Item]) -> set[str]:
    """The numbers on the `promise` marks of these tests."""
    return {str(number) for item in items for mark in item.iter_markers("promise") for number in mark.args}


def is_whole(config: pytest.Config) -> bool:
    """Whether this run was asked for every test there is, give or take the long ones."""
    chosen = ("keyword", "deselect", "ignore", "ignore_glob", "lf", "stepwise")
    if any(config.getoption(option, None) for option in chosen):
        return False
    if config.getoption("markexpr") not in ("", "not long"):
        return False
    everything = {config.rootpath, config.rootpath / "tests"}
    return {(config.invocation_params.dir / arg).resolve() for arg in config.args} <= everything


class Report:
    """Looks at all that was collected, before anything is deselected, and speaks at the end of the run.

    Where several processes run the tests, each collects them all, and what one of them found is told.
    """

    def __init__(self, page: Path) -> None:
        self._page = page
        self._lines: list[str] = []
        self._wrong = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not is_whole(config):
            return
        required, later = listed(self._page.read_text(encoding="utf-8"))
        found = carried(items)
        missing = [number for number in required if number not in found]
        unknown = sorted(found - {*required, *later})
        self._lines = [f"promises without a test: {' '.join(missing) or 'none'}"]
        if unknown:
            self._lines.append(f"promises that {self._page.name} does not list: {' '.join(unknown)}")
        self._wrong = bool(missing or unknown)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["promises"] = self._lines, self._wrong
        elif self._wrong and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process that ran tests has ended."""
        self._lines, self._wrong = getattr(node, "workeroutput", {}).get(
            "promises", (self._lines, self._wrong)
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._lines:
            terminalreporter.write_line(line, red=self._wrong)
