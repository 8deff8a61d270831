"""What a client that does not read costs another one on the same session: the gaps between its deltas."""

from __future__ import annotations

import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench.conversation import DELTA, END, USAGE, Answer, Client, Rpc, daemon

DELTAS = 5_000
FILLING = 60_000
"""Deltas that fill the queue of the one that does not read, so that those that are measured are merged."""
RUNS = 3


def gaps() -> tuple[float, float]:
    """Seconds that 99 of 100 gaps between deltas do not exceed, beside a client that does not read and
    without one; medians of runs in turn.
    """
    script: list[Answer] = [
        {"match": "fill", "times": 0, "usage": USAGE, "reply": [{"text": "word " * FILLING}]},
        {"times": 0, "usage": USAGE, "reply": [{"text": "word " * DELTAS, "delay_ms": 1}]},
    ]
    with tempfile.TemporaryDirectory() as root, daemon(Path(root), script) as zotd:
        alone, shared = zotd.open(ephemeral=True), zotd.open(ephemeral=True)
        paused = Rpc(zotd.path, zotd.pid)
        paused.ask("session/attach", session_id=shared)
        zotd.turn(shared, "fill it")
        pairs = [(_p99(zotd, shared), _p99(zotd, alone)) for _ in range(RUNS)]
        paused.close()
    return statistics.median(each[0] for each in pairs), statistics.median(each[1] for each in pairs)


def _p99(client: Rpc, session_id: str) -> float:
    client.begin("turn/start", session_id=session_id, text="go")
    came = _arrivals(client)
    return statistics.quantiles([after - before for before, after in pairwise(came)], n=100)[98]


def _arrivals(client: Client) -> list[float]:
    """When each delta came, up to the end of the turn."""
    came: list[float] = []
    while END not in (line := client.until(b'"method":')):
        if DELTA in line:
            came.append(time.perf_counter())
    return came
