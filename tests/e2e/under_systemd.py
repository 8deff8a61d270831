"""What is tried inside a mount and pid namespace of its own, where a real `systemd --user` runs.

Arguments: the program, an empty folder. Exits 0 when all went well; standard error tells how far it got.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_S = 20.0
RUNTIME = Path("/run/user/0")
SOCKET = RUNTIME / "zotd" / "zotd.sock"


def until(what: str, holds: Callable[[], Any]) -> Any:
    """What `holds` gives once that is true."""
    end = time.monotonic() + WAIT_S
    while not (got := holds()):
        assert time.monotonic() < end, f"waited in vain for: {what}"
        select.select([], [], [], 0.05)
    sys.stderr.write(f"{what}: {got}\n")
    return got


def ask(method: str, **params: Any) -> Any:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT_S)
        client.connect(str(SOCKET))
        hello = {"protocol_version": 1, "client": {"name": "test", "version": "1"}}
        for number, (name, what) in enumerate((("initialize", hello), (method, params))):
            client.sendall(
                json.dumps({"jsonrpc": "2.0", "id": number, "method": name, "params": what}).encode()
            )
            client.sendall(b"\n")
        lines = client.makefile("rb")
        lines.readline()
        return json.loads(lines.readline())["result"]


def shown(name: str) -> str:
    said = subprocess.run(
        ["systemctl", "--user", "show", "-P", name, "zotd.service"],
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout.strip()


def service_checks(program: str) -> list[dict[str, str]]:
    """What `zotd doctor` finds of the service."""
    done = subprocess.run([program, "doctor", "--json"], capture_output=True, check=False, timeout=WAIT_S)
    checks = json.loads(done.stdout)["checks"]
    findings: list[dict[str, str]] = next(each for each in checks if each["check"] == "service")["findings"]
    return findings


def tried(program: str, root: Path) -> None:
    with subprocess.Popen([program, "daemon", "run"]) as by_hand:
        until("one that was started by hand", SOCKET.exists)
        assert ask("daemon/status")["pid"] == by_hand.pid
        subprocess.run([program, "service", "install", "--no-start"], check=True, stdout=sys.stderr)
        [lacks] = [each for each in service_checks(program) if each["level"] != "ok"]
        assert lacks["text"] == "it starts no daemon: zotd.socket is neither enabled nor active"
        assert lacks["mend"] == "zotd service install"
        subprocess.run([program, "service", "install"], check=True, stdout=sys.stderr)
        assert by_hand.wait(WAIT_S) == 0
    drop_in = root / ".config" / "systemd" / "user" / "zotd.service.d" / "quick.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nWatchdogSec=1\n")
    subprocess.run(["systemctl", "--user", "daemon-reload"], check=True)
    assert shown("ActiveState") == "inactive"

    joined = subprocess.run(
        [program, "rpc", "--connect", "auto"],
        input=b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n',
        capture_output=True,
        timeout=WAIT_S,
        check=True,
    )
    assert json.loads(joined.stdout)["id"] == 7
    status = ask("daemon/status")
    assert status["listening"] == [f"unix:{SOCKET}"]
    assert status["idle_exit_s"]
    until("ready", lambda: shown("ActiveState") == "active")
    assert shown("MainPID") == str(status["pid"])
    until("status", lambda: shown("StatusText").startswith("clients:"))
    assert [each["level"] for each in service_checks(program)] == ["ok", "ok"]

    os.kill(status["pid"], signal.SIGSTOP)
    until("killed by the watchdog and started again", lambda: shown("NRestarts") == "1")
    after = ask("daemon/status")
    assert after["pid"] != status["pid"]

    subprocess.run(["systemctl", "--user", "stop", "zotd.service"], check=True)
    assert shown("Result") == "success"
    assert ask("daemon/status")["pid"] not in (status["pid"], after["pid"])  # the socket still starts it

    restarted = subprocess.run(
        [program, "daemon", "restart"], check=True, capture_output=True, text=True, timeout=WAIT_S
    )
    said = [line.partition(": process ")[0] for line in restarted.stdout.splitlines()]
    assert said == [
        "stopped",
        "started by the service",
        "This command did not start it: it ends when idle for 15 min.",
    ]

    subprocess.run([program, "service", "uninstall"], check=True, stdout=sys.stderr)
    assert not SOCKET.exists()
    subprocess.run([program, "service", "install"], check=True, stdout=sys.stderr)  # and back
    assert ask("daemon/status")["pid"]
    for _ in range(6):
        again = subprocess.run([program, "daemon", "restart"], capture_output=True, text=True, timeout=WAIT_S)
        assert "started by the service" in again.stdout, again  # who restarts it often keeps the service

    drop_in.write_text("[Service]\nExecStart=\nExecStart=/bin/false\n")
    subprocess.run(["systemctl", "--user", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "--user", "stop", "zotd.service"], check=True)
    subprocess.run([program, "rpc", "--connect", "auto"], input=b"", timeout=WAIT_S, check=True)
    assert (
        shown("Result") == "exit-code"
    )  # one that cannot start is given up, and the client has one without it
    assert ask("daemon/status")["idle_exit_s"] == 1_800
    subprocess.run([program, "daemon", "stop"], check=True, stdout=sys.stderr)


def main() -> int:
    program, root = sys.argv[1], Path(sys.argv[2])
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    Path("/run/systemd/system").mkdir(parents=True)
    RUNTIME.mkdir(parents=True, mode=0o700)
    os.environ.update(HOME=str(root), XDG_RUNTIME_DIR=str(RUNTIME), ZOT_HOME=str(root / "zot"))
    systemd = next(
        path for path in ("/lib/systemd/systemd", "/usr/lib/systemd/systemd") if Path(path).exists()
    )
    with subprocess.Popen([systemd, "--user", "--log-target=console"], stdout=sys.stderr) as manager:
        try:
            until("a manager", (RUNTIME / "systemd" / "private").exists)
            tried(program, root)
        finally:
            manager.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
