"""The child that runs an embedded model: `python -m zotd.providers.local_server`, started by `local`.

Input: one line, `{"model": path, "key": text, "window": tokens,
"max_output": tokens}`; its end is the order to exit, and so is
the death of whoever holds the other end. Output: one line, `{"url": ...}` or `{"error": text, "hint": text}`.
The key is not an argument because every user of a machine can read those.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

_NO_PACKAGE = {
    "error": "the embedded model needs the package xllamacpp, which is not installed",
    "hint": "pip install 'zotd[local]'",
}


def main() -> int:
    """Serve until the input ends. Returns the exit code."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    order = json.loads(line)
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    reply = os.dup(1)
    os.dup2(2, 1)  # llama.cpp prints where it likes; the reply has the pipe to itself
    try:
        server, answer = _serve(order)
    except ImportError as error:
        server, answer = None, {**_NO_PACKAGE, "detail": str(error)}
    except Exception as error:
        server, answer = None, {"error": f"{order['model']}: cannot be loaded: {error}", "hint": ""}
    os.write(reply, json.dumps(answer).encode() + b"\n")
    os.close(reply)
    if server is None:
        return 1
    threading.Event().wait()
    return 0


def _serve(order: dict[str, Any]) -> tuple[object, dict[str, str]]:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order["model"]
    params.n_ctx = order["window"]
    params.n_predict = order["max_output"]
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["key"]]
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.warmup = False
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    return server, {"url": server.listening_address}


def _threads() -> int:
    """Half of the processors.

    The threads wait for each other hundreds of times a token, spinning: where one of them has to share its
    processor with another program, all slow down three times and more. Hyperthreads add nothing either.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, available // 2)


def _exit_at_end_of_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)  # threads of llama.cpp may be in mid-answer, and nobody is left to read it


if __name__ == "__main__":
    sys.exit(main())
