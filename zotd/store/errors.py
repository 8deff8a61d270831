"""Owns what can be wrong with a saved session. Each message is written for the person who asked for it."""

from __future__ import annotations

from pathlib import Path


class StoreError(Exception):
    """A saved session cannot be had. `kind` is the stable word of it.

    hint: what a client can do. in_shell: what a person at a shell can do.
    """

    kind = "session_not_found"
    hint = "session/list has those there are"
    in_shell = "`zotd sessions list` shows those there are"


class NoSession(StoreError):
    """Nothing is saved under that id, path or directory."""


class Ambiguous(StoreError):
    """Several sessions begin with what was given."""

    hint = in_shell = "give more of the id"


class SeveralFiles(Ambiguous):
    """Several files are the session that was given: all but one are copies."""

    hint = "session/load takes the path of one; import a copy: that gives it an id of its own"
    in_shell = "name one by its file"


class NoMessage(StoreError):
    """The conversation has no message of that id."""

    kind = "message_not_found"
    hint = "session/messages lists them"
    in_shell = "`zotd sessions show` has their numbers in brackets"


class SessionLocked(StoreError):
    """Another process has the file open for writing; `pid` is that process, 0 where it is not known."""

    kind = "session_locked"
    hint = in_shell = "end that process first, or fork the session"

    def __init__(self, path: Path, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"{who} has the session open: {path}")
        self.path = path
        self.pid = pid


class OpenAlready(StoreError):
    """This process has a session of that id open, from another file: one of them is a copy."""

    kind = "session_locked"
    hint = in_shell = "close the other one, or import the file: that gives it an id of its own"


class BadSessionFile(StoreError):
    """The file holds no session. `line` is counted from 1, 0 where the whole file is meant."""

    kind = "bad_session_file"

    def __init__(self, path: Path | None, line: int, why: str) -> None:
        where = f"{path or 'the text'}{f', line {line}' if line else ''}"
        super().__init__(f"{where}: {why}")
        self.path = path
        self.line = line
        self.why = why
        self.hint = self.in_shell = "a session has JSON lines, as zot and zotd write them" if line else ""
