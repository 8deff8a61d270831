#!/usr/bin/env python3
"""An extension in plain Python: frames are JSON objects, one a line, on stdin and stdout.

/notes-demo [text]  pushes a note and answers with a display
/notes-clear        takes away every note of this extension
"""

import json
import sys


def send(**frame):
    # Flushed at once: a frame that waits in a buffer is a frame nobody sees.
    print(json.dumps(frame), flush=True)


def demo(args):
    what = args or "the kettle is on"
    send(type="notify", level="info", message=f"noted: {what}")
    return {"action": "display", "display": f"Note to self: {what}."}


def clear(_args):
    send(type="clear_notes")
    return {"action": "noop"}


COMMANDS = {
    "notes-demo": (demo, "push a note and show one"),
    "notes-clear": (clear, "clear the notes of this extension"),
}

send(type="hello", name="notes", version="1.0.0", capabilities=["commands"])

for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        for name, (_, description) in COMMANDS.items():
            send(type="register_command", name=name, description=description)
        send(type="ready")
    elif frame["type"] == "command_invoked":
        # The host uses the spelling registered above, however the user typed it.
        run, _ = COMMANDS[frame["name"]]
        send(type="command_response", id=frame["id"], **run(frame["args"]))
    elif frame["type"] == "shutdown":
        send(type="shutdown_ack")
        break
