"""Owns what waits for an extension that is slow to read: how much, and when it is too much."""

from __future__ import annotations

from collections import deque

from zotd.base.limits import Limits
from zotd.process.spawn import Input


class Outbox:
    """Frames on their way into one extension's standard input, bounded in number and bytes."""

    def __init__(self, writer: Input, limits: Limits) -> None:
        self._writer = writer
        self._limits = limits
        self._sent = 0  # bytes ever given to the writer
        self._ends: deque[int] = deque()  # where in that stream each frame that still waits ends

    @property
    def waiting(self) -> int:
        """Frames that were not read in full yet."""
        taken = self._sent - self._writer.buffered
        while self._ends and self._ends[0] <= taken:
            self._ends.popleft()
        return len(self._ends)

    def put(self, data: bytes) -> bool:
        """Send one frame; False when too much waits or its end is closed. An empty queue takes any size."""
        if self._writer.closed:
            return False
        buffered = self._writer.buffered
        if buffered:
            full = (
                self.waiting >= self._limits.outgoing_frames
                or buffered + len(data) > self._limits.outgoing_bytes
            )
            if full:
                return False
        self._sent += len(data)
        self._writer.write(data)
        if self._writer.buffered:
            self._ends.append(self._sent)
        return not self._writer.closed

    def finish(self) -> None:
        """No more frames: end the input after those that wait."""
        self._writer.close()
