"""Starts processes that try to get away, prints the pid of each, one a line, and then does what it is told.

`escapes.py wait` stays until it is killed, `escapes.py leave` exits with status 3. `escapes.py storm` prints
its own pid and then forks for ever (for ten seconds, should nobody stop it): every process in it leads a
session of its own, and as many end as begin.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def sleep_for_ever(environment: dict[str, str]) -> None:
    os.write(1, f"{os.getpid()}\n".encode())
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.execve("/bin/sleep", ["sleep", "1000"], environment)


def plain() -> None:
    sleep_for_ever(dict(os.environ))


def of_its_own_session() -> None:
    os.setsid()
    sleep_for_ever(dict(os.environ))


def daemonized_and_nameless() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setsid()
    sleep_for_ever({})


def storm() -> None:
    end = time.monotonic() + 10
    os.write(1, f"{os.getpid()}\n".encode())
    while time.monotonic() < end:
        if os.fork():
            signal.sigtimedwait([], 0.02)
            os._exit(0)
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            signal.pause()


ESCAPES = (plain, of_its_own_session, daemonized_and_nameless)


def main(mode: str) -> None:
    if mode == "storm":
        storm()
    for escape in ESCAPES:
        if os.fork() == 0:
            escape()
    if mode == "leave":
        os._exit(3)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
