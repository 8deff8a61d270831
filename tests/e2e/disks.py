"""Small disks for tests: they can be filled and freed, and made read-only and writable again.

Root mounts them where they are wanted. For anybody else they are mounted in a namespace of their own, which
programs of a test enter, and which the test looks into through the process that holds it. Where neither is
possible, the test fails and says so.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients import Machine

PAGE = 4096
_SPARE_FILES = 200


class Disk:
    """A file system of its own; its top directory is empty at first and has mode 0700.

    at: where programs meet it. path: where the test does. enter: words before the command of a program.
    """

    def __init__(self, at: Path, pages: int) -> None:
        at.mkdir(exist_ok=True)
        self.at = self.path = at
        self.enter: list[str] = []
        self._holder: subprocess.Popen[bytes] | None = None
        self._filled = 0
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
        pid = str(self._holder.pid)
        self.path = Path(f"/proc/{pid}/root{self.at}")
        self.enter = ["nsenter", "--preserve-credentials", "--user", "--mount", "--target", pid]

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [*self.enter, *command], capture_output=True, text=True, timeout=10, check=False
        )
        assert done.returncode == 0, (
            f"a small disk is needed for this test, and {command} said: {done.stderr}"
        )

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
        self._run("mount", "-o", "remount,ro", str(self.at))

    def writable(self) -> None:
        self._run("mount", "-o", "remount,rw", str(self.at))

    def holds(self, machine: Machine) -> None:
        """Have the programs of a machine see it."""
        if self.enter:
            program = machine.root / "inside"
            program.write_text(
                f'#!/bin/sh\nexec {shlex.join(self.enter)} --wd="$PWD" {machine.program} "$@"\n'
            )
            program.chmod(0o755)
            machine.program = program

    def remove(self) -> None:
        self._run("umount", "--lazy", str(self.at))
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
