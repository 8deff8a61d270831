"""Owns the line of a request in the log, whatever dialect it came in."""

from __future__ import annotations

import time

from zotd.base.log import log, wanted


def request_line(
    method: str, connection: int, request_id: str | int | float | None, outcome: str, began: float = 0.0
) -> None:
    """outcome: `ok`, `cancelled`, or the kind of its error. began: by `time.perf_counter`, 0 if it did not.

    Nothing of its params, and no words of the error: they may quote them.
    """
    if not wanted():
        return
    took = round((time.perf_counter() - began) * 1000, 3) if began else 0.0
    log(
        "request", connection=connection, request=request_id, method=method, duration_ms=took, outcome=outcome
    )
