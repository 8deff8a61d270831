"""A server of models on this machine, whose handler a test writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.clients import LONG


class ModelHandler(BaseHTTPRequestHandler):
    """Answers as a server of models does, and prints nothing. `reply` gets the request."""

    def do_POST(self) -> None:
        self.reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def reply(self, body: dict[str, Any]) -> None:
        raise AssertionError("nobody is expected to ask")

    def answer(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def serving(handler: type[ModelHandler]) -> Iterator[str]:
    """Its URL, while it is there."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(LONG)
        server.server_close()
