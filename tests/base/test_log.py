"""What a process says of itself while nobody has asked for a log."""

from __future__ import annotations

import pytest

from zotd.base.log import log, mistake, wanted
from zotd.base.secret import Secret


def test_without_a_log_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    assert not wanted("error")
    log("a thing that happened", "error")
    assert capfd.readouterr() == ("", "")


def test_the_traceback_of_a_mistake_holds_no_key(capfd: pytest.CaptureFixture[str]) -> None:
    held = Secret("correct horse battery")
    try:
        raise RuntimeError(f"bad header {held.reveal()}")
    except RuntimeError as bug:
        mistake("the search", bug)
    told = capfd.readouterr().err
    assert told.startswith("zotd: a mistake of ours ended: the search\nTraceback")
    assert "bad header ***" in told
    assert "horse" not in told
