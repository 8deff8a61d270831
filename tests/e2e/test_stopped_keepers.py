"""Told to stop while somebody has stopped what ends its programs, the daemon stops all the same."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.children import children, descendants
from tests.clients import Machine
from tests.e2e.test_nothing_left import Marks, all_end, lingerer, pids_in, script
from zotd.base.limits import Limits


@pytest.mark.parametrize("running", ["an extension", "a shell command too"])
@pytest.mark.parametrize("stopped", ["keeper", "sub-keepers", "all of them"])
def test_sigterm_ends_the_daemon_in_time_and_nothing_is_left(
    machine: Machine, stopped: str, running: str
) -> None:
    folder, marks = lingerer(machine, "lingerer", "running")
    daemon = machine.rpc("--ext", folder, *script(machine))
    in_bash = Marks(machine.cwd / "marks")
    daemon.send({"type": "get_state", "id": 1})
    left = pids_in(marks.until("at running"))
    daemon.until("ext_registered")
    if running == "a shell command too":
        daemon.send({"type": "prompt", "message": "call bash"})
        left |= pids_in(in_bash.until("\n"))
    below = descendants(daemon.popen.pid)
    assert left < below
    (keeper,) = children(daemon.popen.pid)
    sub_keepers = children(keeper)
    for pid in (
        *([] if stopped == "sub-keepers" else [keeper]),
        *([] if stopped == "keeper" else sub_keepers),
    ):
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    daemon.signal(signal.SIGTERM)
    assert daemon.exit_code() == 0
    assert time.monotonic() - began < Limits().drain_s
    assert all_end(below) == []
    marks.close()
    in_bash.close()
