#!/usr/bin/env python3
"""A redactor: keys that the model repeats are blacked out before anybody sees them.

While it is subscribed, the host holds every message back until it has answered.
"""

import json
import re
import sys

SECRETS = re.compile(
    r"""
      \bsk-[\w-]{8,}                  # keys of model providers
    | \bgh[pousr]_\w{20,}             # GitHub tokens
    | \bAKIA[0-9A-Z]{16}\b            # AWS access keys
    | (?<=Bearer\ )[\w.~+/-]{8,}      # what follows "Bearer"
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)


def send(**frame):
    print(json.dumps(frame), flush=True)


send(type="hello", name="redactor", version="1.0.0", capabilities=["intercept"])

for line in sys.stdin:
    frame = json.loads(line)
    match frame["type"]:
        case "hello_ack":
            send(type="subscribe", intercept=["assistant_message"])
            send(type="ready")
        case "event_intercept":
            text, found = SECRETS.subn("[redacted]", frame["text"])
            # No `replace_text` shows the message as it is.
            rewrite = {"replace_text": text} if found else {}
            send(type="event_intercept_response", id=frame["id"], **rewrite)
        case "shutdown":
            send(type="shutdown_ack")
            break
