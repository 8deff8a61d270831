#!/usr/bin/env python3
"""A question from the model to you: the tool `ask_approval` waits until y or n is pressed in a panel.

Panels open in answer to a command, so the tool runs the command /approval of its own with `submit_slash`.
"""

import json
import sys

PANEL = "approval"
SCHEMA = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}


def send(**frame):
    print(json.dumps(frame), flush=True)


class Question:
    """The tool call that waits for a key, if one does."""

    call = None

    def ask(self, call):
        self.answer("another question came in between: not approved")
        self.call = call
        send(type="submit_slash", text="/approval")

    def answer(self, words):
        """Tell the model, once."""
        if self.call:
            send(type="tool_result", id=self.call["id"], content=[{"type": "text", "text": words}])
        self.call = None

    def panel(self):
        action = str(self.call["args"].get("action", "")) if self.call else "Nothing is being asked."
        return {"id": PANEL, "title": "May I?", "lines": action.splitlines(), "footer": "y yes - n no"}


CAPABILITIES = ["commands", "tools", "panels", "tool_cancel"]

question = Question()
send(type="hello", name="approve", version="1.0.0", capabilities=CAPABILITIES)

for line in sys.stdin:
    frame = json.loads(line)
    match frame:
        case {"type": "hello_ack"}:
            send(type="register_command", name="approval", description="show what the model is asking")
            # `interactive`: a person needs longer than the minute that tools have.
            send(
                type="register_tool",
                name="ask_approval",
                description="Asks the user to approve an action. Call it before what is hard to undo.",
                schema=SCHEMA,
                interactive=True,
            )
            send(type="ready")
        case {"type": "tool_call"}:
            question.ask(frame)
        case {"type": "command_invoked"}:
            send(type="command_response", id=frame["id"], action="open_panel", open_panel=question.panel())
        case {"type": "panel_key", "key": "rune", "text": "y" | "n" as key}:
            send(type="panel_close", panel_id=PANEL)
            question.answer("approved by the user" if key == "y" else "denied by the user")
        case {"type": "panel_close"}:
            question.answer("the user closed the question: not approved")
        case {"type": "tool_cancel"}:
            question.call = None  # the turn was aborted: nobody wants to know any more
            send(type="panel_close", panel_id=PANEL)
        case {"type": "shutdown"}:
            send(type="shutdown_ack")
            break
