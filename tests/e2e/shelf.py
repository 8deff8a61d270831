"""The example extensions on a machine of their own, and one way to drive them in either dialect."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from tests.clients import ROOT, Frame, Machine

EXAMPLES = ROOT / "examples"
NODE = ROOT / ".venv" / "node" / "bin"
HELLO_PY = ROOT / "tests" / "extensions" / "hello-py"


def shelf(machine: Machine) -> Path:
    """Copy the examples into the folder that the machine works in; put our Node.js and Python in the path."""
    assert (NODE / "npx").exists(), "Node.js is not set up: run `make node`"
    machine.env["PATH"] = f"{NODE}:{Path(sys.executable).parent}:{machine.env['PATH']}"
    # Whatever an extension may need is on this machine: a package manager that wants the network fails.
    machine.env |= {"npm_config_offline": "true", "npm_config_update_notifier": "false"}
    keep_out = shutil.ignore_patterns("__pycache__", "node_modules", "page.txt", "todos.*")
    copy = Path(shutil.copytree(EXAMPLES, machine.cwd / "examples", ignore=keep_out))
    modules = Path("extensions", "scratchpad", "node_modules")
    (copy / modules).symlink_to(EXAMPLES / modules)
    return copy


def install(machine: Machine, *names: str) -> None:
    """Put extensions where those of a user are."""
    for name in names:
        source = HELLO_PY if name == "hello-py" else machine.cwd / "examples" / "extensions" / name
        shutil.copytree(source, machine.home / "extensions" / name, symlinks=True)


def scripted(name: str = "") -> list[str]:
    """The flags for the scripted model, with one of the scripts that come with the examples."""
    script = ["--script", str(EXAMPLES / "scripts" / f"{name}.yaml")] if name else []
    return ["--provider", "scripted", *script]


def drive(machine: Machine, dialect: str, script: list[str], *names: str, panels: bool = True) -> Driver:
    """Install extensions, start zotd, and wait until all of them are ready, however slow this machine is."""
    install(machine, *names)
    driver = Driver(machine, dialect, *script, panels=panels)
    driver.ready(*names)
    return driver


class Driver:
    """A client of one session in either dialect."""

    def __init__(self, machine: Machine, dialect: str, *flags: str, panels: bool = True) -> None:
        self.client = machine.rpc(*flags)
        self.dialect = dialect
        self.events: list[Frame] = []
        capabilities = {"panels": panels}
        if dialect == "json-rpc":
            self.session_id = self.client.greet(capabilities=capabilities).session()
        else:
            self.session_id = ""
            self.client.send({"type": "hello", "capabilities": capabilities})
            self.events += self.client.until("response")

    def wait(self, kind: str, **members: Any) -> Frame:
        """The next event of a type and with some members; those before it are in `events`."""
        while True:
            frame = self.client.next() if self.dialect == "zot" else self._event()
            self.events.append(frame)
            if frame["type"] == kind and members.items() <= frame.items():
                return frame

    def _event(self) -> Frame:
        while not self.client.events:
            self.client.take()
        return self.client.events.pop(0)

    def seen(self, kind: str) -> list[Frame]:
        """Events of a type among those that came so far."""
        return [event for event in self.events if event["type"] == kind]

    def ready(self, *names: str) -> None:
        """Until extensions have said what they offer."""
        missing = {*names} - {event["extension"] for event in self.seen("ext_registered")}
        while missing:
            missing.discard(self.wait("ext_registered")["extension"])

    def prompt(self, text: str) -> None:
        """Send a prompt, or a command; its end is not awaited."""
        if self.dialect == "zot":
            self.client.send({"type": "prompt", "message": text})
        else:
            self.client.call("turn/start", session_id=self.session_id, text=text)

    def turn(self, text: str) -> list[Frame]:
        """Send a prompt and give its events, `done` the last."""
        del self.events[:]
        self.prompt(text)
        self.wait("done")
        return self.events

    def key(self, panel: Frame, key: str, text: str | None = None) -> None:
        """Press a key in a panel, given as the event that opened it."""
        params = {"extension": panel["extension"], "panel_id": panel["panel_id"], "key": key}
        if text is not None:
            params["text"] = text
        if self.dialect == "zot":
            self.client.send({"type": "panel_key", **params})
        else:
            self.client.call("panel/key", session_id=self.session_id, **params)

    def abort(self) -> None:
        if self.dialect == "zot":
            self.client.send({"type": "abort"})
        else:
            self.client.call("turn/abort", session_id=self.session_id)
