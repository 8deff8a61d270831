#!/usr/bin/env python3
"""A to-do list in a panel: you move and tick with keys, the model adds with a tool, a file remembers.

/todos opens the panel. Keys: up, down; enter or x ticks; d deletes; a adds: type, then enter.
The tool `todo` adds an item, if one is given, and returns the list.
"""

import json
import sys
from pathlib import Path

PANEL = "todos"
FOOTER = "up/down move - x tick - a add - d delete - esc close"
SCHEMA = {"type": "object", "properties": {"add": {"type": "string"}}}


def send(**frame):
    print(json.dumps(frame), flush=True)


class Todos:
    """The list in its file. Read before each change: another session may have written it."""

    def __init__(self, path):
        self.path = path

    def all(self):
        return json.loads(self.path.read_text("utf-8")) if self.path.exists() else []

    def save(self, items):
        # A rename is all or nothing; a crash in the middle of writing loses no list.
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(items), "utf-8")
        fresh.replace(self.path)

    def add(self, text):
        self.save([*self.all(), {"text": text, "done": False}])

    def lines(self):
        return [f"{'✓' if item['done'] else '□'} {item['text']}" for item in self.all()]


class View:
    """The panel: where the cursor is, and what is being typed. `typed` is None while nothing is."""

    def __init__(self, todos):
        self.todos, self.open, self.at, self.typed = todos, False, 0, None

    def panel(self):
        rows = [f"{'>' if row == self.at else ' '} {line}" for row, line in enumerate(self.todos.lines())]
        if self.typed is not None:
            return {"title": "Todos", "lines": [*rows, f"+ {self.typed}_"], "footer": "enter adds it"}
        return {"title": "Todos", "lines": rows or ["Nothing to do."], "footer": FOOTER}

    def key(self, key, text):
        if self.typed is None:
            self.command(text if key == "rune" else key)
        elif key == "rune":
            self.typed += text
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key == "enter":
            if self.typed.strip():
                self.todos.add(self.typed.strip())
            self.typed = None

    def command(self, key):
        items = self.todos.all()
        if key == "a":
            self.typed = ""
        elif key in ("up", "down"):
            self.at += 1 if key == "down" else -1
        elif items and key in ("x", "enter"):
            items[self.at]["done"] = not items[self.at]["done"]
            self.todos.save(items)
        elif items and key == "d":
            del items[self.at]
            self.todos.save(items)
        self.at = max(0, min(self.at, len(items) - 1))


send(type="hello", name="todo", version="1.0.0", capabilities=["commands", "tools", "panels"])

for line in sys.stdin:
    frame = json.loads(line)
    match frame["type"]:
        case "hello_ack":
            todos = Todos(Path(frame["data_dir"], "todos.json"))
            view = View(todos)
            send(type="register_command", name="todos", description="the to-do list, in a panel")
            send(
                type="register_tool",
                name="todo",
                description="Adds an item to the user's to-do list, if one is given; returns the list.",
                schema=SCHEMA,
            )
            send(type="ready")
        case "command_invoked":
            view.open = True
            opened = {"id": PANEL, **view.panel()}
            send(type="command_response", id=frame["id"], action="open_panel", open_panel=opened)
        case "panel_key":
            view.key(frame["key"], frame.get("text", ""))
            send(type="panel_render", panel_id=PANEL, **view.panel())
        case "tool_call":
            if added := frame["args"].get("add"):
                todos.add(str(added))
            if view.open:
                send(type="panel_render", panel_id=PANEL, **view.panel())
            listed = "\n".join(todos.lines()) or "Nothing to do."
            send(type="tool_result", id=frame["id"], content=[{"type": "text", "text": listed}])
        case "panel_close":
            view.open, view.typed = False, None
        case "shutdown":
            send(type="shutdown_ack")
            break
