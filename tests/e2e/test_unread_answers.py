"""A client that asks and never reads is not served ahead of its reading."""

from __future__ import annotations

import socket

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
