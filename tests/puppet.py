"""An extension that says what it is told, and tells what it hears: run by tests, never imported.

`/NAME FRAMES`, named like the extension, sends a JSON list of frames. A `command_response` among them gets
the id of the command; without one the answer is `noop`; the word `exit` among them ends it. What is sent to
its panel comes back as a note. The tool `approve` runs its own command `/approve`, which opens a panel, and
has the first key pressed there as its result.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NAME = json.loads(Path("extension.json").read_text())["name"]
PANEL = {"id": "approval", "title": "Run it?", "lines": ["rm -rf build"], "footer": "y or n"}


def send(**frame: Any) -> None:
    print(json.dumps(frame), flush=True)


def say(invoked: dict[str, Any]) -> None:
    frames = json.loads(invoked["args"])
    for frame in frames:
        if frame == "exit":
            sys.exit(5)
        send(**({"id": invoked["id"]} if frame["type"] == "command_response" else {}), **frame)
    if all(frame["type"] != "command_response" for frame in frames):
        send(type="command_response", id=invoked["id"], action="noop")


def main() -> None:
    capabilities = [] if "deaf" in sys.argv else ["panel_resize"]
    waiting = ""
    send(type="hello", name=NAME, version="1", capabilities=capabilities)
    for line in sys.stdin:
        frame = json.loads(line)
        match frame["type"]:
            case "hello_ack":
                send(type="register_command", name=NAME, description="say FRAMES")
                send(type="register_command", name="approve", description="open the panel")
                send(type="register_tool", name="approve", description="ask", interactive=True)
                send(type="ready")
            case "command_invoked" if frame["name"] == NAME:
                say(frame)
            case "command_invoked":
                send(type="command_response", id=frame["id"], action="open_panel", open_panel=PANEL)
            case "tool_call":
                waiting = frame["id"]
                send(type="submit_slash", text="/approve now")
            case "panel_key" if waiting:
                send(type="tool_result", id=waiting, content=[{"type": "text", "text": frame["text"]}])
                send(type="panel_close", panel_id=frame["panel_id"])
                waiting = ""
            case "panel_key" | "panel_close" | "panel_resize":
                send(type="notify", message=json.dumps({k: v for k, v in frame.items() if k != "session_id"}))
            case "shutdown":
                send(type="shutdown_ack")
                return


if __name__ == "__main__":
    main()
