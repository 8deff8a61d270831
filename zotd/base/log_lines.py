"""Owns how lines of the log come to be: gathered in the loop, written by a thread, which may wait."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections import deque
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zotd.base.clock import now
from zotd.base.limits import Limits
from zotd.base.log import write_to

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from zotd.base.log_file import LogFile

    Line = MutableMapping[str, Any]

_AT_ONCE = 256
"""Lines in one write."""


def start_log(level: str, limits: Limits, *, plain: bool = True, path: Path | None = None) -> LogLines:
    """Write lines of `level` and above, until `end`: one JSON object each, or for a terminal to be read.

    path: a file, which standard output and error go to as well; standard error otherwise. plain: what is
    said to a person stays plain, on standard error. Raises OSError for a file that cannot be used.
    """
    file: LogFile | None = None
    if path is not None:
        from zotd.base.log_file import LogFile

        file = LogFile(path, limits.log_bytes, limits.log_files)
        file.take_standard_streams()
    lines = LogLines(limits, file or _StandardError(), pretty=file is None and os.isatty(2))
    write_to(lines.put, level, plain=plain)
    if file is not None:
        sys.stdout = sys.stderr = _Printed(lines.put)
    return lines


class Sink(Protocol):
    """Where lines go; whether they are in. It may take its time."""

    def write(self, data: bytes) -> bool: ...


class LogLines:
    """Lines on their way. One that finds no room is dropped and counted; the count is told once there is."""

    def __init__(self, limits: Limits, sink: Sink, *, pretty: bool) -> None:
        self._limits = limits
        self._sink = sink
        self._pretty = pretty
        self._waiting: deque[tuple[str, str, str, dict[str, Any]]] = deque()
        self._refused = 0  # lines, counted by whoever brings them
        self._lost = self._told = 0  # lines that found no room, and those of all that were told of
        self._some = threading.Event()
        self._over = threading.Event()
        self._writer: threading.Thread | None = None
        self._lines: list[bytes] = []

    def put(self, event: str, level: str, fields: dict[str, Any]) -> None:
        """Take a line. Costs a microsecond, whatever the disk does."""
        if len(self._waiting) >= self._limits.log_lines_waiting:
            self._refused += 1
            return
        self._waiting.append((now(), "warning" if level == "warn" else level, event, fields))
        if not self._some.is_set():
            self._some.set()
            if self._writer is None:
                writer = threading.Thread(target=self._work, name="log", daemon=True)
                try:
                    writer.start()
                    self._writer = writer
                except RuntimeError:  # no thread can be had: with the next line, perhaps
                    self._some.clear()

    def end(self) -> None:
        """No more lines. Those that wait are written, if that takes no longer than it may."""
        write_to(None)
        if isinstance(sys.stderr, _Printed):
            sys.stdout = sys.stderr = sys.__stderr__
        self._over.set()
        self._some.set()
        if self._writer is not None:
            self._writer.join(self._limits.threads_end_s)

    def _work(self) -> None:
        """What comes within a moment is written together: waking for each line would cost the loop."""
        while not self._over.is_set():
            self._some.wait()
            self._over.wait(self._limits.log_gather_s)
            self._some.clear()
            self._write_all()
        self._write_all()

    def _write_all(self) -> None:
        while self._waiting:
            dropped = self._refused + self._lost - self._told
            if dropped:
                self._render("log lines dropped", "warning", now(), {"count": dropped})
            count = 0
            while self._waiting and count < _AT_ONCE:
                time, level, event, fields = self._waiting.popleft()
                self._render(event, level, time, fields)
                count += 1
            lines, self._lines = b"".join(self._lines), []
            if self._sink.write(lines):
                self._told += dropped
            else:
                self._lost += count

    def _render(self, event: str, level: str, time: str, fields: dict[str, Any]) -> None:
        try:
            self._logger.msg(event, **{**fields, "time": time, "level": level})
        except Exception:  # of whatever `str()` of a field raises, the log should not end
            self._lost += 1

    @cached_property
    def _logger(self) -> Any:
        """structlog, which is loaded when there is something to write; what it makes comes to `msg`."""
        import structlog

        last = [_one_line, structlog.dev.ConsoleRenderer(timestamp_key="time")] if self._pretty else [_json]
        return structlog.wrap_logger(self, [self._shown, *last], wrapper_class=structlog.BoundLogger)

    def msg(self, line: bytes | str) -> None:
        """A rendered line."""
        self._lines.append((line.encode("utf-8", "replace") if isinstance(line, str) else line) + b"\n")

    def _shown(self, logger: Any, method: str, line: Line) -> Line:
        """The order in which people look for things, values cut, and no key in any of them."""
        from zotd.base.redact import redacted

        most = self._limits.log_value_chars
        head = {"time": line.pop("time"), "level": line.pop("level"), "event": line.pop("event")}
        return {**head, **{name: _cut(value, most) for name, value in redacted(line).items()}}


def _cut(value: Any, most: int) -> Any:
    if not isinstance(value, str):
        return value
    shown = value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"
    return shown if shown.isascii() else shown.encode("utf-8", "replace").decode()


def _json(logger: Any, method: str, line: Line) -> bytes:
    import orjson

    return orjson.dumps(line, default=str)


def _one_line(logger: Any, method: str, line: Line) -> Line:
    """What would move the cursor or begin another line is shown as what it is."""
    return {
        name: "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in value)
        if isinstance(value, str)
        else value
        for name, value in line.items()
    }


class _StandardError:
    """For a terminal, or whatever a service manager reads."""

    def write(self, data: bytes) -> bool:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(2, view) :]
        except OSError:
            return False
        return True


class _Printed(io.TextIOBase):
    """Standard error of the interpreter: what libraries print there, such as tracebacks, becomes lines."""

    def __init__(self, put: Callable[[str, str, dict[str, Any]], None]) -> None:
        self._put = put
        self._held = ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def write(self, text: str) -> int:
        *lines, self._held = (self._held + text).split("\n")
        for line in lines:
            if line:
                self._put("printed", "error", {"text": line})
        return len(text)
