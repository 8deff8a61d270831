"""Told to stop while nobody reads its output, the daemon stops all the same."""

from __future__ import annotations

import os
import select
import signal
import subprocess

from tests.clients import Machine


def test_sigterm_ends_a_daemon_whose_output_nobody_reads(machine: Machine) -> None:
    flags = machine.script({"reply": [{"text": "x" * 3_000_000, "delta_chars": 1000}]})
    reading, writing = os.pipe()
    with subprocess.Popen(
        [machine.program, "rpc", *flags],
        stdin=subprocess.PIPE,
        stdout=writing,
        cwd=machine.cwd,
        env=machine.env,
    ) as daemon:
        assert daemon.stdin is not None
        daemon.stdin.write(b'{"type":"prompt","message":"hi","id":1}\n')
        daemon.stdin.flush()
        assert select.select([reading], [], [], 10)[0]
        daemon.send_signal(signal.SIGTERM)
        try:
            assert daemon.wait(5) == 0
        finally:
            daemon.kill()
            os.close(reading)
            os.close(writing)
