"""An extension that observes all, lets every tool call pass and says something now and then: run by tests."""

from __future__ import annotations

import json
import sys
from typing import Any


def send(**frame: Any) -> None:
    print(json.dumps(frame), flush=True)


def main() -> None:
    name = json.load(open("extension.json"))["name"]  # noqa: PTH123, SIM115
    send(type="hello", name=name, version="1")
    seen = 0
    for line in sys.stdin:
        frame = json.loads(line)
        match frame["type"]:
            case "hello_ack":
                observed = ["session_start", "turn_start", "turn_end", "tool_call", "assistant_message"]
                send(type="subscribe", events=observed, intercept=["tool_call"])
                send(type="register_command", name=name, description="does nothing")
                send(type="ready")
            case "event_intercept":
                send(type="event_intercept_response", id=frame["id"])
            case "event":
                seen += 1
                if seen % 50 == 0:
                    send(type="notify", session_id=frame["session_id"], level="info", message=f"{seen} seen")
            case "command_invoked":
                send(type="command_response", id=frame["id"], action="noop")
            case "shutdown":
                send(type="shutdown_ack")
                return


main()
