"""`make demo`: a daemon on a socket, two extensions, a real small model, and a client of forty lines.

Everything runs in a temporary directory and is gone at the end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXTENSIONS = (HERE.parent / "tests" / "extensions" / "hello-py", HERE / "extensions" / "notes")
START_S = 20.0
ANSWER_S = 180.0


class Client:
    """JSON-RPC 2.0, one JSON object a line, over a Unix socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_S)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._last_id = 0
        self._early: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one method. Events that arrive before it are kept for `events`."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        for line in self._lines:
            message = json.loads(line)
            if message.get("id") == self._last_id:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result
            self._early.append(message)
        raise SystemExit("the daemon hung up")

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Events as they come: their type and the rest."""
        while self._early:
            message = self._early.pop(0)
            yield message["method"], message["params"]
        for line in self._lines:
            message = json.loads(line)
            yield message["method"], message["params"]


def show(client: Client, session_id: str, prompt: str) -> None:
    """Send a prompt and print what happens until it is done."""
    print(f"\n> {prompt}")
    turn = client.call("turn/start", session_id=session_id, text=prompt)
    for kind, event in client.events():
        match kind:
            case "text_delta":
                print(event["delta"], end="", flush=True)
            case "assistant_message":
                print()
            case "tool_call":
                print(f"  {event['name']} {json.dumps(event['args'])}")
            case "tool_result" if "diff" in event["details"]:
                print("".join(f"    {line}\n" for line in event["details"]["diff"].splitlines()), end="")
            case "ext_notify":
                print(f"  ext_notify      [{event['extension']}] {event['level']}: {event['message']}")
            case "ext_display":
                print(f"  ext_display     [{event['extension']}] {event['text']}")
            case "ext_clear_notes":
                print(f"  ext_clear_notes [{event['extension']}]")
            case "error":
                raise SystemExit(f"  error: {event['message']}")
            case "done" if event["turn_id"] == turn["turn_id"]:
                print(f"  done ({event['stop']})")
                return


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="zotd-demo-") as directory:
        project, path = Path(directory) / "project", Path(directory) / "zotd.sock"
        project.mkdir()
        (project / "greeting.txt").write_text("Helo from the demo.\n")
        argv = [str(Path(sys.executable).with_name("zotd")), "rpc", "--listen", f"unix:{path}"]
        argv += ["--cwd", str(project), "--provider", "local", "--no-ext"]
        argv += ["--script", str(HERE / "scripts" / "greeting.yaml")]
        for extension in EXTENSIONS:
            argv += ["--ext", str(extension)]
        print(
            "$", " ".join(["zotd", *argv[1:3], "unix:zotd.sock --provider local --ext hello-py --ext notes"])
        )
        marked = {**os.environ, "ZOTD_DEMO": directory}
        daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=marked)
        try:
            converse(wait_for(path, daemon), project)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(timeout=START_S)
        left = leftovers(directory)
        print(f"\nleft running: {', '.join(left) or 'nothing'}")
        return 1 if left or daemon.returncode else 0


def converse(client: Client, project: Path) -> None:
    client.call("initialize", protocol_version=1, client={"name": "demo", "version": "1"})
    session = client.call("session/new")["session"]
    print(f"attached to session {session['session_id'][:8]}: {session['provider']}, {session['model']}")
    show(client, session["session_id"], "/hellopy")
    show(client, session["session_id"], "/notes-demo the tea is ready")
    show(client, session["session_id"], "/notes-clear")
    scripted = client.call("session/new", provider="scripted")["session"]
    show(client, scripted["session_id"], "mend the greeting")
    print(f"  greeting.txt: {(project / 'greeting.txt').read_text().strip()}")


def wait_for(path: Path, daemon: subprocess.Popen[bytes]) -> Client:
    """A client, as soon as the daemon listens."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and daemon.poll() is None:
        try:
            return Client(path)
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the daemon did not start")


def leftovers(mark: str) -> list[str]:
    """Processes that inherited the demo's mark and still run. Linux shows them; elsewhere none are listed."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (
                f"ZOTD_DEMO={mark}".encode() in (entry / "environ").read_bytes()
                and int(entry.name) != os.getpid()
            ):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
