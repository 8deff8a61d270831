"""Owns what service managers are told of the daemon: systemd's units and launchd's list, as text.

Every line that limits what the daemon's tools can do says why. `systemd/` has the same files as examples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from zotd.base.paths import user_home

MARK = "Written by zotd service install; zotd service uninstall removes it."
"""In each file: one without it belongs to somebody else."""
SOCKET, SERVICE = "zotd.socket", "zotd.service"
AGENT = "org.zotd.daemon"
"""The daemon's name on macOS; its file is called so too."""
IDLE_S = 900
"""The daemon ends after so long with nothing to do: above the time that a session waits for its editor."""
WATCHDOG_S = 30


def systemd_folder(environ: Mapping[str, str]) -> Path:
    """Where units of the user's own are. Who reads a relative `XDG_CONFIG_HOME` passes over it."""
    given = environ.get("XDG_CONFIG_HOME", "")
    config = Path(given) if given.startswith("/") else user_home(environ) / ".config"
    return config / "systemd" / "user"


_SOCKET = f"""\
# {MARK}
[Unit]
Description=zotd, a daemon for coding agents: the socket that starts it

[Socket]
# Where `zotd --connect auto` looks. For its owner only; the daemon looks at the uid of each client besides.
ListenStream=%t/zotd/zotd.sock
SocketMode=0600
DirectoryMode=0700
# Many editors may start at once, and wait until the daemon is up.
Backlog=4096
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

_SERVICE = f"""\
# {MARK}
[Unit]
Description=zotd, a daemon for coding agents
Requires={SOCKET}
After={SOCKET}
# One that cannot start must not be tried for ever, and has to be given up while clients still wait: they
# start one of their own then. Starts after a stop or an upgrade count too: many of them are no failure.
StartLimitIntervalSec=30
StartLimitBurst=10

[Service]
# It says when clients are served, and from its event loop that it lives: one that hangs is started again.
Type=notify
NotifyAccess=main
WatchdogSec={WATCHDOG_S}
ExecStart={{program}} daemon run --idle-timeout {IDLE_S}
{{environment}}# It ends by itself with nothing to do, and after an upgrade. The socket starts it again.
Restart=on-failure
RestartSec=100ms
# SIGTERM goes to the daemon, which ends its extensions and shell commands in order, within 5 seconds. What is
# left of them then is killed.
KillMode=mixed
TimeoutStopSec=10
TimeoutStartSec=30

# No program that it starts gets more rights than the user has, by sudo for example: a model gives the orders.
# Rootless containers (newuidmap) and FUSE mounts need such programs: `systemctl --user edit {SERVICE}` and
# NoNewPrivileges=no give them back.
NoNewPrivileges=yes
# Keys are in its memory: none of it is written to a disk when it crashes.
LimitCORE=0
# A shell command that forks without end stops at this, and the desktop goes on.
TasksMax=8192
# Memory that a shell command wants too much of costs that command, not the daemon.
OOMPolicy=continue
# 50 sessions with extensions have some hundred pipes open. Programs may raise it further.
LimitNOFILE=8192:524288
# `yes | head` ends as it does in a terminal.
IgnoreSIGPIPE=no
# Left out on purpose, for tools need what they take away. MemoryDenyWriteExecute: node and Java compile into
# memory. RestrictNamespaces: sandboxes of browsers and bubblewrap. ProtectHome, ProtectSystem, PrivateTmp:
# files are what an agent is for, and editors share /tmp with it. RestrictSUIDSGID: git init --shared.
# LockPersonality: gdb. SystemCallFilter: nobody knows what the next tool calls.
"""

_PLIST = f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {MARK} -->
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{AGENT}</string>
    <key>ProgramArguments</key>
    <array>
{{program}}
    </array>
{{environment}}    <!-- Started at login and after a crash; not after a stop that was asked for. -->
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <key>ExitTimeOut</key>
    <integer>10</integer>
    <!-- Editors wait for it: it must not be slowed down as work in the background is. -->
    <key>ProcessType</key>
    <string>Interactive</string>
    <key>SoftResourceLimits</key>
    <dict>
        <key>NumberOfFiles</key>
        <integer>8192</integer>
        <key>Core</key>
        <integer>0</integer>
    </dict>
    <key>StandardErrorPath</key>
    <string>{{log}}</string>
</dict>
</plist>
"""


def socket_unit() -> str:
    """The text of `zotd.socket`."""
    return _SOCKET


def service_unit(program: Sequence[str], environ: Mapping[str, str]) -> str:
    """The text of `zotd.service`. program: absolute path and first words. environ: what it is to have."""
    lines = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in sorted(environ.items()))
    if not program[0].isprintable() or set(program[0]) & {*"\"'\\"}:
        program = [*_AS_ARGUMENT, *program]  # systemd takes no such name, quoted or not
    first, *rest = program
    words = [
        _quoted(first),
        *(_quoted(word.replace("$", "$$")) for word in rest),
    ]  # $ begins a variable there
    return _SERVICE.format(program=" ".join(words), environment=lines)


_AS_ARGUMENT = ("/bin/sh", "-c", 'exec "$0" "$@"')
_WORD = re.compile(r'"(?P<quoted>(?:\\.|[^"\\])*)"|\'(?P<plain>[^\']*)\'|(?P<bare>\S+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)


def started_by(unit: str) -> str:
    """The program that a service starts, as this module or a person has written it; empty for none."""
    for line in unit.split("\n"):
        name, _, value = line.partition("=")
        if name.strip() == "ExecStart" and value.strip():
            words = [_read_back(found) for found in _WORD.finditer(value.strip().lstrip("-@:+!"))]
            if words[:2] == [*_AS_ARGUMENT[:2]] and len(words) > 3:
                return words[3].replace("$$", "$")
            return words[0] if words else ""
    return ""


def _read_back(found: re.Match[str]) -> str:
    if found["plain"] is not None:
        return found["plain"].replace("%%", "%")
    escapes = {"n": "\n", "t": "\t"}
    text = found["bare"] if found["quoted"] is None else found["quoted"]
    return _ESCAPE.sub(
        lambda one: chr(int(one[1], 16)) if one[1] else escapes.get(one[2], one[2]), text
    ).replace("%%", "%")


def launch_agent(program: Sequence[str], environ: Mapping[str, str], log: str) -> str:
    """The text of the list for launchd. log: where standard error goes."""
    words = "\n".join(f"        <string>{_escaped(word)}</string>" for word in (*program, "daemon", "run"))
    pairs = "".join(
        f"        <key>{_escaped(name)}</key>\n        <string>{_escaped(value)}</string>\n"
        for name, value in sorted(environ.items())
    )
    environment = f"    <key>EnvironmentVariables</key>\n    <dict>\n{pairs}    </dict>\n" if pairs else ""
    return _PLIST.format(program=words, environment=environment, log=_escaped(log))


def _quoted(word: str) -> str:
    """A word as systemd reads it back. Raises OSError for one that is no text."""
    _check_text(word)
    word = word.replace("%", "%%")
    if word.isprintable() and word and not any(c.isspace() or c in "\"'\\;" for c in word):
        return word
    return '"' + "".join(map(_written, word)) + '"'


def _written(c: str) -> str:
    if c in '"\\':
        return f"\\{c}"
    return f"\\x{ord(c):02x}" if _is_control(c) else c


def _is_control(c: str) -> bool:
    return c < " " or c == "\x7f"


def _check_text(word: str) -> None:
    try:
        word.encode()
    except UnicodeEncodeError:
        raise OSError(f"{word!a}: no service file can name a path that is not UTF-8: rename it") from None


def _escaped(text: str) -> str:
    """A text in XML, which knows no control characters. Raises OSError for one that has some."""
    from xml.sax.saxutils import escape

    _check_text(text)
    if any(map(_is_control, text)):
        raise OSError(f"{text!a}: no service file can name a path with control characters: rename it")
    return escape(text)
