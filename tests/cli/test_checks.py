"""How checks are run, and what the account of a daemon means."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zotd import __version__
from zotd.base.limits import Limits
from zotd.cli.check_daemon import judged
from zotd.cli.checks import Check, Finding, Site, error, ok, run, warn


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, tmp_path, tmp_path, {}, replace(Limits(), check_s=0.1))


def looks(_: Site) -> str:
    return "at something"


def test_a_check_that_hangs_or_fails_is_told_of_and_holds_up_no_other(site: Site) -> None:
    never = threading.Event()

    def hangs(_: Site) -> Iterator[Finding]:
        yield warn("before", "mend it")
        never.wait()

    def fails(_: Site) -> Iterator[Finding]:
        raise IndexError("nothing there")

    def is_denied(site: Site) -> Iterator[Finding]:
        yield ok((site.home / "none").read_text())

    checks = [
        Check("hangs", looks, hangs),
        Check("fails", looks, fails),
        Check("is denied", looks, is_denied),
    ]
    results = run([*checks, Check("fine", looks, lambda _: [ok("well")])], site)
    never.set()
    assert [result.level for result in results] == ["error", "error", "error", "ok"]
    assert [one.text for one in results[0].findings] == ["before", "did not end within 0.1 s"]
    assert results[1].findings[0].text.startswith("the check itself failed: IndexError")
    assert results[2].findings[0].text.startswith("cannot be looked at: [Errno 2]")
    assert results[3].told() == {
        "check": "fine",
        "level": "ok",
        "looked_at": "at something",
        "findings": [{"level": "ok", "text": "well"}],
    }
    assert error("e", "m").mend == "m"


@pytest.mark.parametrize(
    ("news", "level", "text"),
    [
        ({}, "ok", f"version {__version__}, pid 7, up for 5 s, sessions: 0, other clients: 0"),
        ({"version": "0.0.1"}, "warn", f"version 0.0.1 runs, {__version__} is installed"),
        ({"home": "/other"}, "error", "its ZOT_HOME is /other"),
        ({"draining": True}, "warn", "it ends as soon as its turns are done"),
        (
            {"memory": {"descriptors": 900, "descriptors_limit": 1000}},
            "warn",
            "it has 900 of 1000 files open",
        ),
    ],
)
def test_the_account_of_a_daemon_is_judged(site: Site, news: dict[str, Any], level: str, text: str) -> None:
    state = {
        "version": __version__,
        "pid": 7,
        "uptime_s": 5.2,
        "home": str(site.home),
        "draining": False,
        "sessions": [],
        "clients": [],
        "memory": {"descriptors": 10, "descriptors_limit": 1000},
        **news,
    }
    found = list(judged(site, state))
    assert [one for one in found if one.level == level and one.text.startswith(text)]
    assert {one.level for one in found} <= {"ok", level}
