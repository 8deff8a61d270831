"""Owns what is kept so that turns can be undone: what files held before, and which turn touched them.

In memory, or in a directory of its own: a blob for each content, named by its digest, and `index.jsonl`, to
which a row is added before the file itself changes. The last row of a turn about a file counts.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from zotd.base.files import append, open_regular

_INDEX = "index.jsonl"
_SPARE_ROWS = 256  # as many that count no more may stand in an index before it is written anew


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn did to a file, or what became of the turn.

    path: absolute, without links, in the system's bytes; empty in a row about the turn.
    before: digest of what the file held when the turn first touched it, empty when there was none.
    size: of that in bytes.
    left: digest of what it holds once the tool is done.
    made: directories that had to be made for it, the outermost first.
    state: `void` takes the row of a file back, `dropped` and `reverted` are about the turn.
    """

    turn: str
    path: bytes = b""
    before: str = ""
    size: int = 0
    left: str = ""
    made: tuple[bytes, ...] = ()
    state: Literal["", "void", "dropped", "reverted"] = ""

    @property
    def sound(self) -> bool:
        """Whether it can be what `add` wrote; a file can say anything."""
        paths = (self.path, *self.made) if self.path else self.made
        return (
            all(path.startswith(b"/") and b"\0" not in path for path in paths)
            and all(not name or _is_digest(name) for name in (self.before, self.left))
            and self.size >= 0
        )


class ContentLost(Exception):
    """What a file held before cannot be read any more."""


def digest(data: bytes) -> str:
    """What a content is known by."""
    from hashlib import sha256

    return sha256(data).hexdigest()


def _is_digest(name: str) -> bool:
    return len(name) == 64 and set(name) <= set("0123456789abcdef")


class UndoLog:
    """Rows by turn, the oldest turn first, and the contents they name.

    directory: where all is kept, made in the one above when there is something to keep; None for memory.
    size: bytes of contents and rows together; beyond it the oldest turns are dropped.
    turns: of which anything is known.

    Nothing is read before the first use. One thread at a time.
    """

    def __init__(self, directory: Path | None, size: int, turns: int) -> None:
        self._directory = directory
        self._room = size
        self._most = turns
        self._turns: dict[str, dict[bytes, Row]] = {}
        self._ended: dict[str, Literal["dropped", "reverted"]] = {}
        self._memory: dict[str, bytes] = {}
        self._uses: Counter[str] = Counter()
        self._weight = 0
        self._rows_written = 0
        self._loaded = directory is None

    @property
    def at_hand(self) -> bool:
        """Whether nothing has to be read any more."""
        return self._loaded

    def state(self, turn: str) -> Literal["", "kept", "dropped", "reverted"]:
        """Whether the files of a turn can be restored; empty when it is not known to have touched any."""
        self._load()
        return "kept" if turn in self._turns else self._ended.get(turn, "")

    def rows(self, turn: str) -> list[Row]:
        """What a turn did to files, in order."""
        self._load()
        return list(self._turns.get(turn, {}).values())

    def row(self, turn: str, path: bytes) -> Row | None:
        """What a turn did to one file so far."""
        self._load()
        return self._turns.get(turn, {}).get(path)

    def touched_after(self, turn: str, path: bytes) -> bool:
        """Whether a later turn that was not reverted touched a file too."""
        turns = list(self._turns)
        return any(path in self._turns[other] for other in turns[turns.index(turn) + 1 :])

    def content(self, name: str) -> bytes:
        """A content by its digest. Raises ContentLost."""
        try:
            data = self._memory[name] if self._directory is None else self._read(name)
        except (KeyError, OSError):
            raise ContentLost(name) from None
        if digest(data) != name:
            raise ContentLost(name)
        return data

    def add(self, row: Row, before: bytes | None) -> None:
        """Keep a row and, the first time, the content that its `before` names.

        A turn whose files cannot be kept counts as dropped, and nothing more is kept of it.
        """
        self._load()
        if row.turn in self._ended:
            return
        try:
            if before is not None and not self._uses[row.before]:
                self._store(row.before, before)
            self._append(row)
        except OSError:
            self.end(row.turn, "dropped")
            return
        self._count(row)
        while self._weight > self._room or len(self._turns) > self._most:
            # One turn that is larger than all there is room for does not drive out the others.
            alone = sum(map(_weight, self._turns.get(row.turn, {}).values())) > self._room
            self.end(row.turn if alone else next(iter(self._turns)), "dropped")

    def take_back(self, turn: str, path: bytes, previous: Row | None) -> None:
        """A file did not change after all: what was known of it before its last row counts again."""
        if path in self._turns.get(turn, {}):
            row = previous or Row(turn=turn, path=path, state="void")
            try:
                self._append(row)
            finally:
                self._count(row)

    def end(self, turn: str, state: Literal["dropped", "reverted"]) -> None:
        """Give up what is kept of a turn."""
        self._load()
        row = Row(turn=turn, state=state)
        try:
            self._append(row)
        except OSError:  # a disk that is full
            self._overwrite(row)
        self._count(row)

    def _count(self, row: Row) -> None:
        """Have a row count, and forget what no row needs any more."""
        if row.state in ("dropped", "reverted"):
            for old in self._turns.pop(row.turn, {}).values():
                self._discount(old)
            self._ended.pop(row.turn, None)
            self._ended[row.turn] = row.state
            if len(self._ended) > self._most:
                del self._ended[next(iter(self._ended))]
            return
        files = self._turns.setdefault(row.turn, {})
        if (replaced := files.get(row.path)) is not None:
            del files[row.path]
        if row.state != "void":
            files[row.path] = row
            self._uses[row.before] += 1
            self._weight += _weight(row)
        elif not files:
            del self._turns[row.turn]
        if replaced is not None:
            self._discount(replaced)

    def _discount(self, row: Row) -> None:
        self._weight -= _weight(row)
        self._uses[row.before] -= 1
        if not self._uses[row.before]:
            del self._uses[row.before]
            self._memory.pop(row.before, None)
            if self._directory is not None and row.before and self._loaded:
                (self._directory / row.before).unlink(missing_ok=True)

    # The directory

    def _store(self, name: str, data: bytes) -> None:
        if self._directory is None:
            self._memory[name] = data
        else:
            self._replace(name, data)

    def _append(self, row: Row) -> None:
        if self._directory is None:
            return
        kept = sum(map(len, self._turns.values())) + len(self._ended)
        if self._rows_written > 2 * kept + _SPARE_ROWS:
            self._rewrite()
        self._make_directory()
        handle = open_regular(self._directory / _INDEX, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            append(handle, msgspec.json.encode(row) + b"\n")
        finally:
            os.close(handle)
        self._rows_written += 1

    def _overwrite(self, row: Row) -> None:
        """Put a row about a turn over its last one about a file, which is longer: that takes no room.

        Else a part of the turn's files would pass for all of them. Where nothing can be written it stays so.
        """
        assert self._directory is not None
        place = None
        at = 0
        try:
            for line in self._read(_INDEX).splitlines(keepends=True):
                with suppress(msgspec.MsgspecError):
                    if msgspec.json.decode(line, type=Row).turn == row.turn:
                        place = at, len(line) - 1
                at += len(line)
            if place is None:
                return
            handle = open_regular(self._directory / _INDEX, os.O_WRONLY)
            try:
                os.pwrite(handle, msgspec.json.encode(row).ljust(place[1]), place[0])
            finally:
                os.close(handle)
        except OSError:
            return

    def _rewrite(self) -> None:
        """The index without the rows that count no more."""
        rows = [Row(turn=turn, state=state) for turn, state in self._ended.items()]
        rows += [row for files in self._turns.values() for row in files.values()]
        self._replace(_INDEX, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        self._rows_written = len(rows)

    def _replace(self, name: str, data: bytes) -> None:
        assert self._directory is not None
        self._make_directory()
        beside = self._directory / f"{name}.new"
        try:
            handle = open_regular(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            beside.replace(self._directory / name)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _read(self, name: str) -> bytes:
        """A file, as much of it as can be ours. Raises OSError."""
        assert self._directory is not None
        with os.fdopen(open_regular(self._directory / name), "rb") as file:
            return file.read(self._room + 1)

    def _make_directory(self) -> None:
        assert self._directory is not None
        self._directory.mkdir(mode=0o700, exist_ok=True)

    def _load(self) -> None:
        """Read the index, once. A row that was cut off, by a crash, counts for nothing."""
        if self._loaded:
            return
        self._loaded = True
        assert self._directory is not None
        try:
            data = self._read(_INDEX)
        except OSError:
            return
        self._loaded = False  # so that no content goes while later rows may name it again
        for line in data.splitlines():
            self._rows_written += 1
            try:
                row = msgspec.json.decode(line, type=Row)
            except msgspec.MsgspecError:
                continue
            if row.sound and (row.path or row.state in ("dropped", "reverted")):
                self._count(row)
        self._loaded = True
        try:
            self._tidy(data)
        except OSError:
            return  # what nobody needs stays for another time

    def _tidy(self, index: bytes) -> None:
        """Away with what a crash left: contents that no row names, and half a row at the end."""
        assert self._directory is not None
        for entry in self._directory.iterdir():
            if entry.name != _INDEX and not self._uses.get(entry.name):
                entry.unlink(missing_ok=True)
        if not index.endswith(b"\n"):
            self._rewrite()


def _weight(row: Row) -> int:
    return row.size + len(row.path) + sum(map(len, row.made)) + 256  # what else a row takes, in bytes
