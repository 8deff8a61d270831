"""What holds for every test, wherever and however pytest is started."""

from __future__ import annotations

import signal

import pytest

from tests.promises import Report

# A shell that starts the tests in the background ignores SIGINT for them, and children inherit that: a
# test that interrupts a child would wait for ever. A handler, unlike an ignored signal, is not inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Report(config.rootpath / "docs" / "promises.md"), "promises")
