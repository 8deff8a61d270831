"""Owns the log of an extension: its stderr, and what the host has to say about it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from zotd.base.files import MAKE_ROOM, make_private, open_regular

MARK = "[zotd] "
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
_WIDTH = 2_000  # of one remark, in characters: enough for any error, too little to flood the file


class Journal:
    """An append-only file. One write a remark, so that lines of the extension and ours never mix."""

    def __init__(self, path: Path) -> None:
        """Opens `path`, making its directory. Raises OSError with a sentence, also for no regular file."""
        self.path = path
        try:
            make_private(path.parent)
            # An extension may print what only its user should see: nobody else can read it.
            self.fd = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            blocked = isinstance(error, FileExistsError | NotADirectoryError)
            why = "expected a directory" if blocked else str(error.strerror)
            if error.errno in _NO_ROOM:
                why += f"; {MAKE_ROOM}"
            raise OSError(f"its log cannot be written: {error.filename or path}: {why}") from None

    def remark(self, text: str) -> None:
        """Add one line with our mark. A full disk must not end a session, so a failed write is let go."""
        if self.fd < 0:
            return
        line = MARK + text[:_WIDTH].replace("\r", "\\r").replace("\n", "\\n") + "\n"
        try:
            os.write(self.fd, line.encode("utf-8", "replace"))
        except OSError:
            return

    def close(self) -> None:
        """Give the descriptor back; remarks after this are dropped."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
