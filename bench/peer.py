"""An extension for measuring: `peer.py NAME KIND`, as plain as authors write them.

Kinds: `ready` registers a command; `guard` lets every call pass; `stamp` notifies
the time on its command; `flood` notifies as often as its argument says, as fast as it can.
"""

import json
import sys
import time

name, kind = sys.argv[1:]


def emit(frame: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


emit({"type": "hello", "name": name, "version": "1", "capabilities": ["commands"]})
for line in sys.stdin:
    frame = json.loads(line)
    match frame["type"]:
        case "hello_ack":
            if kind == "guard":
                emit({"type": "subscribe", "intercept": ["tool_call"]})
            else:
                emit({"type": "register_command", "name": f"go-{name}", "description": "go"})
            emit({"type": "ready"})
        case "event_intercept":
            emit({"type": "event_intercept_response", "id": frame["id"]})
        case "command_invoked" if kind == "flood":
            note = json.dumps({"type": "notify", "level": "info", "message": "refreshed cache (12 entries)"})
            sys.stdout.write(f"{note}\n" * int(frame["args"]))
            emit({"type": "command_response", "id": frame["id"], "action": "noop"})
        case "command_invoked":
            emit({"type": "notify", "level": "info", "message": str(time.monotonic_ns())})
            emit({"type": "command_response", "id": frame["id"], "action": "noop"})
        case "shutdown":
            emit({"type": "shutdown_ack"})
            break
