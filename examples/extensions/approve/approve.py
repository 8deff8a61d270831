#!/usr/bin/env python3
"""A question from the model to you: the tool `ask_approval` waits until y or n is pressed in a panel.

Panels open in answer to a command, so the tool runs the command /approval of its own with `submit_slash`.
"""

import json
import sys

PANEL = "approval"
SCHEMA = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}

waiting = None  # the tool call that is being asked about


def send(**frame):
    print(json.dumps(frame), flush=True)


def panel():
    action = waiting["args"].get("action", "") if waiting else "Nothing is being asked."
    return {"id": PANEL, "title": "May I?", "lines": str(action).splitlines(), "footer": "y yes - n no"}


def answer(words):
    """Tell the model, once."""
    global waiting
    if waiting:
        call, waiting = waiting, None
        send(type="tool_result", id=call["id"], content=[{"type": "text", "text": words}])


def ask(call):
    global waiting
    answer("another question came in between: not approved")
    waiting = call
    send(type="submit_slash", text="/approval")


send(
    type="hello", name="approve", version="1.0.0", capabilities=["commands", "tools", "panels", "tool_cancel"]
)

for line in sys.stdin:
    frame = json.loads(line)
    match frame:
        case {"type": "hello_ack"}:
            send(type="register_command", name="approval", description="show what the model is asking")
            # `interactive`: a person needs longer than the minute that tools have.
            send(
                type="register_tool",
                name="ask_approval",
                description="Asks the user to approve an action. Call it before anything that is hard to undo.",
                schema=SCHEMA,
                interactive=True,
            )
            send(type="ready")
        case {"type": "tool_call"}:
            ask(frame)
        case {"type": "command_invoked"}:
            send(type="command_response", id=frame["id"], action="open_panel", open_panel=panel())
        case {"type": "panel_key", "key": "rune", "text": "y" | "n" as key}:
            answer("approved by the user" if key == "y" else "denied by the user")
            send(type="panel_close", panel_id=PANEL)
        case {"type": "panel_close"}:
            answer("the user closed the question: not approved")
        case {"type": "tool_cancel"}:
            waiting = None  # the turn was aborted: nobody wants to know any more
            send(type="panel_close", panel_id=PANEL)
        case {"type": "shutdown"}:
            send(type="shutdown_ack")
            break
