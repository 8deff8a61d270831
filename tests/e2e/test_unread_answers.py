"""A client that asks and never reads is not served ahead of its reading."""

from __future__ import annotations

import os
import select
import socket
import subprocess

import pytest

from tests.clients import Machine


def test_answers_nobody_reads_do_not_pile_up_and_none_is_lost(machine: Machine) -> None:
    _, path = machine.listen()
    line = b'{"type":"ping","id":"%b"}\n' % (b"a" * 1000)
    sent = 0
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.settimeout(2)
        with pytest.raises(TimeoutError):  # 40 MiB of questions: the daemon stops taking them before that
            for _ in range(1000):
                sent += client.send(line * 40)
        answers = sent // len(line)
        while answers:
            answers -= client.recv(1 << 20).count(b"\n")


def test_on_pipes_they_do_not_pile_up_either(machine: Machine) -> None:
    line = b'{"type":"ping","id":"%b"}\n' % (b"a" * 1000)
    questions = memoryview(line * 40_000)
    sent = 0
    with subprocess.Popen(
        [machine.program, "rpc", "--provider", "scripted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=machine.cwd,
        env=machine.env,
    ) as zotd:
        assert zotd.stdin is not None
        assert zotd.stdout is not None
        os.set_blocking(zotd.stdin.fileno(), False)
        while sent < len(questions) and select.select([], [zotd.stdin], [], 2)[1]:
            sent += os.write(zotd.stdin.fileno(), questions[sent : sent + 65_536])
        assert sent < 20 << 20
        answers = sent // len(line)
        while answers:
            answers -= os.read(zotd.stdout.fileno(), 1 << 20).count(b"\n")
