"""Owns `zotd sessions`: looking at saved sessions, copying them and removing them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotd.agent.ports import NotKept
from zotd.base.limits import Limits
from zotd.base.paths import absolute, user_home, zot_home
from zotd.cli.console import complain, escaped, local_time, put, put_json, put_table, unbroken
from zotd.cli.flags import Parser, UsageError
from zotd.cli.which import counted, file_of, name_of, short, told
from zotd.daemon.trusting import is_trusted
from zotd.protocol.session_methods import SessionRow
from zotd.store.catalog import Ambiguous, NoMessage, NoSession, SessionStore, StoreError
from zotd.store.log import real_path
from zotd.wire.codec import to_wire

if TYPE_CHECKING:
    from zotd.store.export import Format

_FORMATS: dict[str, Format] = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}
"""What a file's name says about the format it is to have; any other is jsonl."""


def main(argv: list[str]) -> int:
    """Run the command in `argv` (after `sessions`).

    Returns 0, 1 when it could not be done, 2 for wrong usage and for a session that is not there.
    """
    parser, commands = _parsers()
    if not argv or "--help" in argv or "-h" in argv:
        put(commands.get(argv[0] if argv else "", parser).format_help())
        return 0
    try:
        known = parser.parse_args(argv)
        errand = _errand(known)
        return unbroken(lambda: known.run(errand))
    except (UsageError, argparse.ArgumentError, NoSession, Ambiguous, NoMessage) as wrong:
        complain(f"sessions: {_told(wrong)}")
        return 2
    except (StoreError, NotKept, OSError) as failure:
        complain(f"sessions: {told(failure)}")
        return 1


def _errand(known: argparse.Namespace) -> _Errand:
    """What to do and where. Raises UsageError."""
    try:
        return _Errand(zot_home(), absolute(getattr(known, "cwd", None) or ".", "--cwd"), known)
    except OSError as wrong:
        raise UsageError(str(wrong)) from None


def _told(wrong: Exception) -> str:
    """What is wrong and what to do."""
    if isinstance(wrong, argparse.ArgumentError):
        return f"{wrong.argument_name}: {wrong.message}" if wrong.argument_name else wrong.message
    return told(wrong)


class _Errand:
    """What every command works with."""

    def __init__(self, home: Path, cwd: Path, known: argparse.Namespace) -> None:
        self.known = known
        self.cwd = cwd
        self.limits = Limits()
        self.store = SessionStore(home, self.limits, partial(is_trusted, home))

    def file(self, word: str) -> Path:
        return file_of(self.store, word)

    def rows(self) -> list[SessionRow]:
        """The saved sessions of the folder that is meant, or of all."""
        where = None if self.known.all else self.cwd
        return [listed.row for listed in self.store.rows(where)]

    def answer(self, value: Any, text: str) -> int:
        """Print what was done, as JSON where that was asked for."""
        if self.known.json:
            put_json(value)
        else:
            put(text + "\n")
        return 0


def _list(errand: _Errand) -> int:
    rows = errand.rows()
    if errand.known.json:
        put_json({"sessions": [to_wire(row) for row in rows]})
    elif not rows:
        put(_none(errand))
    else:
        everywhere = ("folder",) if errand.known.all else ()
        table = [
            (
                short(row.session_id),
                local_time(row.updated),
                str(row.message_count),
                row.model,
                *((row.cwd,) if everywhere else ()),
                name_of(row),
            )
            for row in rows
        ]
        put_table(("id", "changed", "messages", "model", *everywhere, "title or first prompt"), table)
    return 0


def _none(errand: _Errand) -> str:
    if errand.known.all:
        return "no session is saved\n"
    return f"no session of {errand.cwd} is saved; --all lists those of every folder\n"


def _show(errand: _Errand) -> int:
    path = errand.file(errand.known.session)
    saved, row = errand.store.read(path), errand.store.row(path)
    if errand.known.json:
        from zotd.daemon.view_service import row_of

        messages = [
            to_wire(row_of(number, message)) for number, message in enumerate(saved.messages, saved.first_id)
        ]
        put_json({"session": to_wire(row), "messages": messages})
        return 0
    from zotd.cli.conversation import conversation

    for line in conversation(saved, row, errand.limits):
        put(line + "\n")
    return 0


def _export(errand: _Errand) -> int:
    from zotd.daemon.calls import Refused
    from zotd.daemon.export_service import for_people, write_new
    from zotd.store.export import export

    known = errand.known
    saved = errand.store.read(errand.file(known.session))
    saved = replace(saved, messages=[for_people(message) for message in saved.messages])
    form: Format = known.format or _FORMATS.get(Path(known.output or "").suffix.lower(), "jsonl")
    content = export(saved, form, str(user_home(os.environ)), errand.limits)
    if known.output is None:
        return errand.answer({"content": content}, content.removesuffix("\n"))
    path = absolute(known.output, "-o")
    try:
        write_new(path, content.encode())
    except Refused as no:
        raise OSError(f"{no}; {no.hint}" if no.hint else str(no)) from None
    return errand.answer({"path": str(path)}, escaped(str(path), ""))


def _import(errand: _Errand) -> int:
    source = errand.known.file
    content = sys.stdin.buffer.read() if source == "-" else absolute(source, "file")
    if not errand.cwd.is_dir():
        raise UsageError(f"--cwd: {errand.cwd} is not a directory")
    return _made(errand, errand.store.import_file(content, errand.cwd))


def _fork(errand: _Errand) -> int:
    path = errand.file(errand.known.session)
    message = errand.known.message
    if message is None and not (message := errand.store.read(path).last_id):
        raise NoMessage(f"{path} has no message to fork at")
    return _made(errand, errand.store.fork(path, message))


def _made(errand: _Errand, path: Path) -> int:
    """Tell of a session that is new."""
    row = errand.store.row(path)
    return errand.answer({"session": to_wire(row)}, f"{short(row.session_id)}  {escaped(str(path), '')}")


def _rename(errand: _Errand) -> int:
    path = errand.file(errand.known.session)
    errand.store.rename(path, errand.known.title)
    row = errand.store.row(path)
    return errand.answer({"session": to_wire(row)}, f"{short(row.session_id)}  {name_of(row)}")


def _remove(errand: _Errand) -> int:
    named = map(errand.file, errand.known.session)
    rows = [errand.store.row(file) for file in {real_path(file): file for file in named}.values()]
    if not errand.known.yes and not _agreed(rows):
        complain("sessions: nothing was removed")
        return 1
    removed: list[str] = []
    try:
        for row in rows:
            errand.store.delete(Path(row.path or ""))
            removed.append(row.session_id)
    finally:
        if removed:
            errand.answer({"removed": removed}, "\n".join(f"removed {short(one)}" for one in removed))
    return 0


def _agreed(rows: Sequence[SessionRow]) -> bool:
    """Ask whoever sits there. Raises UsageError where nobody does."""
    if not sys.stdin.isatty():
        raise UsageError("rm asks before it removes, and here it cannot: add --yes")
    for row in rows:
        sys.stderr.write(f"{short(row.session_id)}  {counted(row.message_count)}  {name_of(row)}\n")
    sys.stderr.write("remove for good? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def _tree(errand: _Errand) -> int:
    from zotd.cli.family import drawn, family

    rows = errand.rows()
    if errand.known.json:
        put_json({"sessions": [{**to_wire(row), "depth": depth} for row, depth in family(rows)]})
    elif not rows:
        put(_none(errand))
    else:
        for line in drawn(rows):
            put(line + "\n")
    return 0


# The command line


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and that of each command by its name."""
    parser = Parser(
        prog="zotd sessions",
        usage="zotd sessions COMMAND [flags]",
        description="A session is named by the beginning of its id, or by its file.",
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this; after a command, its flags")
    made: dict[str, Parser] = {}
    under = parser.add_subparsers(
        dest="command", title="commands", metavar="COMMAND", required=True, prog="zotd sessions"
    )

    def command(name: str, run: Callable[[_Errand], int], about: str) -> Callable[..., Any]:
        one = under.add_parser(name, help=about)
        one.set_defaults(run=run)
        one.add_argument("-h", "--help", action="store_true", help="show this and exit")
        one.add_argument("--json", action="store_true", help="print one JSON value")
        made[name] = one
        return one.add_argument

    for name, run, about in (
        ("list", _list, "list those of this folder, the one that was changed last first"),
        ("tree", _tree, "draw which was forked from which"),
    ):
        add = command(name, run, about)
        add("--cwd", default="", metavar="DIR", help="of that folder")
        add("--all", action="store_true", help="of every folder")
    add = command("show", _show, "print the conversation")
    add("session", metavar="SESSION")
    add = command("export", _export, "write it down for people or other programs")
    add("session", metavar="SESSION")
    add("--format", type=_format, metavar="FORMAT", help="jsonl (to import again), markdown, html")
    add("-o", "--output", metavar="FILE", help="a new file, whose name may say the format; else printed")
    add = command("import", _import, "make a session of an exported one (jsonl)")
    add("file", metavar="FILE", help="- for standard input")
    add("--cwd", default="", metavar="DIR", help="the folder it is to work in; this one by default")
    add = command("fork", _fork, "make one that begins the same")
    add("session", metavar="SESSION")
    add(
        "message",
        nargs="?",
        type=_message,
        metavar="MESSAGE",
        help="the last they share, as `show` numbers it",
    )
    add = command("rename", _rename, "give it a title")
    add("session", metavar="SESSION")
    add("title", metavar="TITLE", help="one line; '' takes the title away")
    add = command("rm", _remove, "remove for good")
    add("session", nargs="+", metavar="SESSION")
    add("--yes", action="store_true", help="do not ask")
    return parser, made


def _format(text: str) -> str:
    if text not in ("jsonl", "markdown", "html"):
        raise argparse.ArgumentTypeError(f"{text or 'nothing'} is none of jsonl, markdown, html")
    return text


def _message(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number of a message; `show` has them in brackets")
    return int(text)
