#!/usr/bin/env python3
"""Sends one prompt to a zotd that listens on a Unix socket, and prints the answer as it comes.

    zotd rpc --listen unix:/tmp/zotd.sock &
    ./prompt.py /tmp/zotd.sock "fix the test"

Exit code: 0 when the model answered, 1 when something went wrong; standard error says what.
"""

import json
import socket
import sys
from pathlib import Path


class Daemon:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        if self.socket.connect_ex(path):
            sys.exit(f"nobody listens on {path}")
        self.lines = self.socket.makefile("r", encoding="utf-8", newline="\n")

    def messages(self):
        for line in self.lines:
            yield json.loads(line)
        sys.exit("the daemon went away")

    def call(self, method, **params):
        """The result of a method, one at a time: its name is the id. Events before it are passed over."""
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        answer = next(message for message in self.messages() if message.get("id") == method)
        if "error" in answer:
            sys.exit(answer["error"]["message"])
        return answer["result"]

    def events(self, turn_id):
        """The events of a turn as they come: type and members. `done` is the last."""
        for message in self.messages():
            if message.get("params", {}).get("turn_id") == turn_id:
                yield message["method"], message["params"]


def main(path, prompt):
    daemon = Daemon(path)
    daemon.call("initialize", protocol_version=1, client={"name": "prompt.py"})
    session = daemon.call("session/new", cwd=str(Path.cwd()))["session"]
    turn = daemon.call("turn/start", session_id=session["session_id"], text=prompt)
    for kind, event in daemon.events(turn["turn_id"]):
        if kind == "text_delta":
            print(event["delta"], end="", flush=True)
        elif kind == "error":
            print(event["message"], file=sys.stderr)
        elif kind == "done":
            print()
            sys.exit(event["stop"] != "end_turn")


main(*sys.argv[1:])
