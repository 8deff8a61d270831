"""Owns what an extension is started with: the command line, the environment, and where it finds itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zotd import __version__
from zotd.process.spawn import Running
from zotd.protocol.frames import HelloAck, HostInfo
from zotd.protocol.manifest import Manifest

ZOT_VERSION = "0.0.7"
"""The zot release whose protocol document this host follows."""
PROTOCOL_VERSION = 1

OUR_TOKENS = ("ZOTCORE_RPC_TOKEN", "ZOTD_TOKEN")
"""Who holds one may drive us; an extension has its own way in."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every extension of a session is told. `env` is the session's environment."""

    home: Path
    cwd: Path
    env: Mapping[str, str]
    provider: str
    model: str
    session_id: str


def argv(manifest: Manifest, directory: Path) -> list[str]:
    """The program and its arguments. `exec` with a separator is relative to the extension's directory;
    a bare name means a program there if there is one, else one on PATH.
    """
    program = manifest.exec
    beside = directory / program
    if os.sep in program or (beside.is_file() and os.access(beside, os.X_OK)):
        program = os.path.normpath(beside)
    return [program, *manifest.args]


def environment(env: Mapping[str, str], *, home: Path, directory: Path, cwd: Path) -> dict[str, str]:
    """The session's environment as it is, with what an extension may want to know and without our tokens."""
    ours = {
        "ZOT_HOME": str(home),
        "ZOT_EXTENSION_DIR": str(directory),
        "ZOT_CWD": str(cwd),
        "AI_AGENT": "zotd",
    }
    return {name: value for name, value in env.items() if name not in OUR_TOKENS} | ours


def how_it_ended(child: Running) -> str:
    """How a process ended, to follow its name."""
    if not child.exited.done():
        return "closed its stdout"
    code = child.exited.result()
    if code >= 0:
        return f"exited: exit status {code}"
    try:
        return f"exited: killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"exited: killed by signal {-code}"


def hello_ack(around: Surroundings, directory: Path) -> HelloAck:
    """The answer to `hello` of an extension that lives in `directory`."""
    return HelloAck(
        protocol_version=PROTOCOL_VERSION,
        zot_version=ZOT_VERSION,
        provider=around.provider,
        model=around.model,
        cwd=str(around.cwd),
        extension_dir=str(directory),
        data_dir=str(directory),
        host=HostInfo(name="zotd", version=__version__),
        session_id=around.session_id,
    )
