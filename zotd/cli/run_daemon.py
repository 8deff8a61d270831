"""Owns `zotd daemon run`: the user's daemon in the foreground, as service managers start it."""

from __future__ import annotations

import sys

HELP = """\
usage: zotd daemon run [--idle-timeout S] [--listen ADDRESS]... [--log FILE] [flags of zotd rpc]

Serves the user's daemon in the foreground: on the sockets that a service manager hands over, else on
$XDG_RUNTIME_DIR/zotd/zotd.sock ($ZOT_HOME/run/zotd.sock where that is not set).

  --idle-timeout S    end after S seconds without a client and without a turn that runs or waits
  --listen ADDRESS    listen there too: unix:PATH or ws://127.0.0.1:PORT; repeatable
  --log auto|FILE     write the log there (auto: $ZOT_HOME/logs/zotd.log) instead of to standard error
  --log-level LEVEL   the least that is written: debug, info (the default), warn or error
  other flags         what sessions of clients that say nothing else begin with, such as --provider
"""


def run(argv: list[str]) -> int:
    """The words after `zotd daemon run`. Returns the exit code: 2 when the place is taken or unusable."""
    from zotd.cli.flags import UsageError, parse

    if any(word in ("-h", "--help") for word in argv):
        sys.stdout.write(HELP)
        return 0
    try:
        argv, log = _log_of(argv)
        flags = parse(["rpc", *argv])
        if flags.mode != "rpc" or flags.connect or flags.session or flags.latest:
            raise UsageError("daemon run serves others: it takes no mode, --connect, --session or --continue")
    except UsageError as wrong:
        sys.stderr.write(f"zotd: {wrong}\n")
        return 2
    from zotd.cli.app import run as serve

    flags.daemon, flags.log = True, log
    return serve(flags)


def _log_of(argv: list[str]) -> tuple[list[str], str]:
    """The words without `--log` and its value, and that value. Raises UsageError."""
    from zotd.cli.flags import UsageError

    log, rest, words = "", [], iter(argv)
    for word in words:
        name, given, value = word.partition("=")
        if name != "--log":
            rest.append(word)
            continue
        log = value if given else next(words, "")
        if not log.strip():
            raise UsageError("--log: expected auto or the path of a file, got nothing")
    return rest, log
