"""Counts that do not depend on how busy the machine is: modules imported, instructions executed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.ways import PYTHON, Way, clean_environment


class WayFailed(Exception):
    """The command did not do what is measured, so that its figure would mean nothing."""


def run(way: Way, *prefix: str) -> str:
    """Runs the way behind `prefix` (the interpreter comes last in it) and returns its stderr.

    Raises WayFailed when it exits non-zero or its output lacks what the way expects.
    """
    environment = clean_environment()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*prefix, *way.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            cwd=environment["HOME"],
        )
        assert process.stdin is not None and process.stdout is not None
        for _ in range(way.turns):
            process.stdin.write(way.stdin)
            process.stdin.flush()
            process.stdout.readline()
        stdout, _ = process.communicate(way.stdin, timeout=120)
        errors.seek(0)
        stderr = errors.read().decode(errors="replace")
    if process.returncode or way.expects not in stdout:
        said = "\n".join(line for line in stderr.splitlines() if not line.startswith("import time:"))
        raise WayFailed(f"{way.name}: exit {process.returncode}, stdout {stdout[-300:]!r}\n{said[-3000:]}")
    return stderr


def imported_modules(way: Way) -> set[str]:
    """The names of all modules that the run imports, those of the bare interpreter included."""
    stderr = run(way, PYTHON, "-X", "importtime")
    names = re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", stderr, flags=re.MULTILINE)
    return set(names)


def instruction_counter() -> str | None:
    """`perf` where the kernel lets us count, else `valgrind`, else None."""
    if shutil.which("perf"):
        with tempfile.NamedTemporaryFile() as out:
            probe = subprocess.run([*_perf(out.name), "true"], capture_output=True)
            if probe.returncode == 0 and re.match(rb"\d+,", _last_line(out.read())):
                return "perf"
    return "valgrind" if shutil.which("valgrind") else None


def instructions(way: Way, counter: str) -> int:
    """Instructions in user space from exec to exit of the process itself, not of its children."""
    if counter == "valgrind":
        stderr = run(
            way, "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", PYTHON
        )
        return max(int(found.replace(",", "")) for found in re.findall(r"I +refs: +([\d,]+)", stderr))
    with tempfile.NamedTemporaryFile() as out:
        run(way, *_perf(out.name), PYTHON)
        return int(_last_line(Path(out.name).read_bytes()).split(b",")[0])


def _perf(out: str) -> list[str]:
    return ["perf", "stat", "--no-inherit", "-x,", "-e", "instructions:u", "-o", out, "--"]


def _last_line(text: bytes) -> bytes:
    return text.strip().rpartition(b"\n")[2]
