"""Owns what becomes of standard streams that the caller has closed."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def occupy() -> None:
    """Take the numbers 0, 1 and 2: the next file opened would else be taken for a standard stream.

    A closed standard output stays one that cannot be written: a run whose answer nobody gets has failed.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if fd == 2 else os.O_RDONLY)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - kept to the end
