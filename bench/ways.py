"""The ways into zotd that are measured and counted: command lines, and what is fed to them."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
ZOTD = str(Path(PYTHON).with_name("zotd"))
FLOOR_ECHO = str(ROOT / "bench" / "floor_echo.py")
FLOOR_CLIENT = str(ROOT / "bench" / "floor_client.py")
PING = b'{"type":"ping","id":1}\n'
INITIALIZE = (
    orjson.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocol_version": 1, "client": {"name": "bench", "version": "1"}},
        }
    )
    + b"\n"
)


@dataclass(frozen=True)
class Way:
    """`arguments` follow the interpreter; `stdin` is all that comes; `expects` must be in what comes out.

    With `turns`, the line on `stdin` is sent so many times more, each after the answer to the one before.
    `floor` is what it is compared with: `bare`, the interpreter doing nothing, or `echo`, floor_echo.py.
    """

    name: str
    arguments: tuple[str, ...]
    stdin: bytes = b""
    expects: bytes = b""
    floor: str = "echo"
    turns: int = 0


BARE = Way("python -c pass", ("-c", "pass"))
ECHO = Way("bare echo", (FLOOR_ECHO,), PING, PING.rstrip())
WAYS = (
    Way("--version", (ZOTD, "--version"), expects=b"zotd", floor="bare"),
    Way("--help", (ZOTD, "--help"), expects=b"--provider", floor="bare"),
    Way("ping", (ZOTD, "rpc", "--provider", "scripted"), PING, b'"pong":true'),
    Way("initialize", (ZOTD, "rpc", "--provider", "scripted"), INITIALIZE, b'"protocol_version"'),
    Way("-p", (ZOTD, "-p", "--provider", "scripted", "hi"), expects=b"You said: hi"),
)


def clean_environment() -> dict[str, str]:
    """The caller's, with a home without extension or daemon, and a hash seed so that counts repeat."""
    home = Path(tempfile.gettempdir()) / f"zotd-bench-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZOT", "PYTHON"))}
    own = {"ZOT_HOME": str(home / "zot"), "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    return kept | own | {"PYTHONHASHSEED": "0"}
