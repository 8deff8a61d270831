"""A client with extensions on strings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.clients import Client, Frame, Machine, Process

SOURCE = (Path(__file__).parent.parent / "puppet.py").read_text()
PANEL = {"id": "p1", "title": "Todos", "lines": ["one", "two"], "footer": "esc close"}


def flags(
    machine: Machine, *names: str, deaf: tuple[str, ...] = (), script: list[Frame] | None = None
) -> list[str]:
    """Flags of a run with the puppets of these names; the deaf ones ask for no `panel_resize`."""
    argv = machine.script(*script) if script else ["--provider", "scripted"]
    for name in names:
        folder = machine.extension(name, SOURCE)
        if name in deaf:
            manifest = json.loads((folder / "extension.json").read_text())
            (folder / "extension.json").write_text(json.dumps({**manifest, "args": ["main.py", "deaf"]}))
        argv += ["--ext", str(folder)]
    return argv


def words(puppet: str, *frames: Any) -> str:
    """The command that makes a puppet say these frames."""
    return f"/{puppet} {json.dumps(frames)}"


def response(action: str, **more: Any) -> Frame:
    return {"type": "command_response", "action": action, **more}


def panel(**changes: Any) -> Frame:
    """An `open_panel` frame."""
    return {"type": "open_panel", "panel": {**PANEL, **changes}}


class Stage:
    """One JSON-RPC client, one session, some puppets."""

    def __init__(self, machine: Machine, *names: str, capabilities: Frame | None = None, **more: Any) -> None:
        said = {"panels": True} if capabilities is None else capabilities
        self.machine = machine
        self.client: Process = machine.rpc(*flags(machine, *names, **more))
        self.client.greet(capabilities=said)
        self.session = self.client.session()

    def say(self, puppet: str, *frames: Any) -> str:
        """Make a puppet say frames; the id of the command."""
        text = words(puppet, *frames)
        return str(self.call("turn/start", text=text)["turn_id"])

    def call(self, method: str, **params: Any) -> Any:
        return self.client.call(method, session_id=self.session, **params)

    def error(self, method: str, **params: Any) -> Frame:
        return self.client.error(method, session_id=self.session, **params)

    def event(self, kind: str, **members: Any) -> Frame:
        """The next event of a type with these members; those before it are taken too."""
        return event(self.client, kind, **members)

    def heard(self, kind: str) -> Frame:
        """The next frame of a type that a puppet says it was sent."""
        while True:
            note: Frame = json.loads(self.event("ext_notify")["message"])
            if note["type"] == kind:
                return note

    def log(self, puppet: str) -> str:
        return str(self.call("extension/log", name=puppet)["text"])

    @property
    def state(self) -> Frame:
        state: Frame = self.call("session/state")["session"]
        return state


def event(client: Client, kind: str, **members: Any) -> Frame:
    while True:
        found = client.event(kind)
        if members.items() <= found.items():
            return found
