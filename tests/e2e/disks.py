"""Small disks for tests: they can be filled and freed, and made read-only and writable again.

Root mounts them where they are wanted. Anybody else has them mounted in a namespace of its own, and reaches
them through the process that holds it. Where neither is possible, the test fails and says so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = 4096
_SPARE_FILES = 200


class Disk:
    """A file system of its own. `path` is its top directory, empty at first, mode 0700."""

    def __init__(self, at: Path, pages: int) -> None:
        at.mkdir(exist_ok=True)
        self._at = at
        self._holder: subprocess.Popen[bytes] | None = None
        self._filled = 0
        self.path = at
        if os.geteuid() != 0:
            self._enter_namespace()
        options = f"size={pages * PAGE},nr_inodes={_SPARE_FILES},mode=0700"
        self._run("mount", "-t", "tmpfs", "-o", options, "small", str(at))

    def _enter_namespace(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "echo; read _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline(), (
            "a small disk cannot be mounted: run this test as root, or allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1)"
        )
        self.path = Path(f"/proc/{self._holder.pid}/root{self._at}")

    def _run(self, *command: str) -> None:
        if self._holder is not None:
            enter = ["nsenter", "--preserve-credentials", "--user", "--mount", "-t", str(self._holder.pid)]
            command = (*enter, *command)
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        assert done.returncode == 0, f"a small disk is needed for this test, and {command} said: {done.stderr}"

    def fill(self, *, files: bool = True) -> None:
        """Leave no page. files: nor room for one more file, though it be empty."""
        while files and self._grow(b""):
            pass
        if not files:
            self._grow(b"")
        with (self.path / "fill0").open("ab", buffering=0) as heap:
            try:
                while heap.write(b"x" * PAGE):
                    pass
            except OSError:
                return

    def _grow(self, data: bytes) -> bool:
        try:
            (self.path / f"fill{self._filled}").write_bytes(data)
        except OSError:
            return False
        self._filled += 1
        return True

    def free(self) -> None:
        """Take away what `fill` has put there."""
        for number in range(self._filled):
            (self.path / f"fill{number}").unlink()
        self._filled = 0

    def read_only(self) -> None:
        """Nobody may have a file open for writing."""
        self._run("mount", "-o", "remount,ro", str(self._at))

    def writable(self) -> None:
        self._run("mount", "-o", "remount,rw", str(self._at))

    def remove(self) -> None:
        self._run("umount", "--lazy", str(self._at))
        if self._holder is not None:
            self._holder.communicate(b"\n", timeout=10)


@contextmanager
def disk(at: Path, pages: int = 256) -> Iterator[Disk]:
    """A disk of so many pages of 4 KiB, as long as it is needed."""
    made = Disk(at, pages)
    try:
        yield made
    finally:
        made.remove()
