#!/usr/bin/env python3
"""A guard: shell commands that cannot be taken back are refused before they run, and the model hears why.

`intercept` makes the host ask before every tool call and wait for the answer; `events` only tells.
"""

import json
import re
import sys

DANGERS = {
    r"\brm\s+(\S+\s+)*-\w*[rR]": "rm -r deletes whole directories",
    r"\bfind\b.*\s-delete\b": "find -delete deletes all it finds",
    r"\b(mkfs|fdisk|wipefs)\b": "it formats a disk",
    r"\bdd\b.*\bof=/dev/": "it writes over a device",
    r"\bgit\s+(reset\s+--hard|clean\s+-\w*f)": "it throws away work that is not committed",
    r"\bgit\s+push\b.*\s(-f|--force)\b": "it replaces what others have pulled",
    r"\b(curl|wget)\b.*\|\s*(sudo\s+)?\w*sh\b": "it runs whatever a server sends",
}


def send(**frame):
    print(json.dumps(frame), flush=True)


def verdict(tool, args):
    """What to answer: nothing lets the call pass as it is."""
    command = str(args.get("command", "")) if tool == "bash" else ""
    for pattern, danger in DANGERS.items():
        if re.search(pattern, command):
            return {"block": True, "reason": f"{danger}, so this was not run: {command}"}
    return {}


send(type="hello", name="guard", version="1.0.0", capabilities=["events", "intercept"])

for line in sys.stdin:
    frame = json.loads(line)
    match frame["type"]:
        case "hello_ack":
            send(type="subscribe", events=["tool_call"], intercept=["tool_call"])
            send(type="ready")
        case "event":
            # stderr is this extension's log: a record of every call, the refused ones too.
            print(frame["tool_name"], json.dumps(frame["tool_args"]), file=sys.stderr)
        case "event_intercept":
            answer = verdict(frame["tool_name"], frame["tool_args"])
            send(type="event_intercept_response", id=frame["id"], **answer)
        case "shutdown":
            send(type="shutdown_ack")
            break
