"""Clients that come, say one thing, are answered and hang up: run by tests, never imported.

`visitors.py SOCKET HOME SECONDS EACH_SECOND` prints how many of them were answered well.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":1}}\n'
PREFACE = b'{"zotd":1,"version":"1","cwd":"/","home":%b,"env":{"A":"b"},"flags":{}}\n'


def come_and_go(path: str, home: str, seconds: float, each_second: int) -> int:
    words = [HELLO, PREFACE % json.dumps(home).encode()]
    served, start = 0, time.monotonic()
    for number in range(int(seconds * each_second)):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(15)
            client.connect(path)
            client.sendall(words[number % 2])
            answer = json.loads(client.recv(65536))
            served += "result" in answer or "zotd" in answer
        ahead = start + (number + 1) / each_second - time.monotonic()
        if ahead > 0:
            select.select([], [], [], ahead)
    return served


print(come_and_go(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
