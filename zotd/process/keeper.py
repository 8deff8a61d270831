"""The keeper: a process of its own that starts a daemon's children, and ends them when the daemon has ended.

It imports nothing of zotd, and of the library the bare parts: the first program of a session waits for it.
One keeper serves one daemon. For each scope, a set of programs that end together, it forks a sub-keeper,
and that one starts the programs. Both are "child subreapers": a process below them whose parent ends
becomes their own child, whatever session or environment it has given itself. So nobody gets away, and a
sub-keeper knows that it is done when the system says that it has no children left.

A sub-keeper speaks with the daemon over a socket of its own. Each frame is a length (4 bytes, little
endian) and a marshalled tuple; standard input, output and error of a program travel with its frame:

    to the sub-keeper   ("spawn", number, argv, cwd, env)   ("signal", group, signal)   ("ping", number)
    to the daemon       ("started", number, pid)   ("failed", number, errno)   ("exited", pid, code)
                        ("serving", its own pid, 0), at first   ("pong", number, 0)
                        ("refused", errno, 0), by the keeper: there is no sub-keeper

The end of that socket is the order to end everything. It comes with the daemon's end too, of whatever kind.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` and `socket` wrap these in enums, which take longer
import _socket  # to load than all the rest
import errno
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_PR_SET_CHILD_SUBREAPER = 36
_RESET = _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}
_PAUSE_MS = 5  # between two looks at what is left
_AT_ONCE = 1 << 16  # bytes and descriptors of one look into a socket
_FDS = 3
_INT = 4


class Watch:
    """Wakes a loop when a child has ended or a socket can be read."""

    def __init__(self, fd: int) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        _signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        self._wakeups = reading
        self._writing = writing
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(reading, select.POLLIN)
        self._poll.register(fd, select.POLLIN)

    def wait(self) -> bool:
        """Whether the socket can be read; False when it was only a child."""
        ready = [fd for fd, _ in self._poll.poll()]
        if self._wakeups in ready:
            self._drain()
        return self._fd in ready

    def wait_for_child(self, milliseconds: int) -> None:
        poll = select.poll()
        poll.register(self._wakeups, select.POLLIN)
        if poll.poll(milliseconds):
            self._drain()

    def _drain(self) -> None:
        os.read(self._wakeups, _AT_ONCE)

    def close(self) -> None:
        _signal.set_wakeup_fd(-1)
        os.close(self._wakeups)
        os.close(self._writing)


class SubKeeper:
    """The programs of one scope: starts them, says how they end, ends them all."""

    def __init__(self, socket: _socket.socket, seconds: float) -> None:
        self._socket = socket
        self._seconds = seconds
        self._watch = Watch(socket.fileno())
        self._received = bytearray()
        self._fds: list[int] = []
        self._running: set[int] = set()
        self._left: set[int] = set()
        """Groups whose leader has ended and been collected, and which may have members still."""

    def serve(self) -> int:
        """Returns when the socket has ended: 0 if every process below is gone, 1 if some cannot be ended."""
        self._say("serving", os.getpid(), 0)
        while True:
            self._collect()
            if self._watch.wait() and not self._receive():
                return self._end()

    def _receive(self) -> bool:
        """Do what was asked for. False at the end of the socket."""
        try:
            room = _socket.CMSG_SPACE(_FDS * _INT)
            data, ancillary, _, _ = self._socket.recvmsg(_AT_ONCE, room, _socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        self._fds += _descriptors(ancillary)
        if not data:
            return False
        self._received += data
        while len(self._received) >= _INT:
            end = _INT + int.from_bytes(self._received[:_INT], "little")
            if len(self._received) < end:
                break
            kind, *rest = marshal.loads(self._received[_INT:end])
            del self._received[:end]
            if kind == "spawn":
                self._spawn(*rest)
            elif kind == "ping":
                self._say("pong", *rest, 0)
            else:
                self._signal(*rest)
        return True

    def _spawn(self, number: int, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes]) -> None:
        fds, self._fds = self._fds[:_FDS], self._fds[_FDS:]
        fault = 0
        try:
            os.chdir(cwd)
            pid = _start(argv, env, fds)
        except OSError as error:
            fault = error.errno or errno.EIO
        for fd in fds:  # before the answer: from then on the program alone decides when its pipes end
            os.close(fd)
        if fault:
            self._say("failed", number, fault)
            return
        self._running.add(pid)
        self._left.discard(pid)
        self._say("started", number, pid)

    def _signal(self, group: int, number: int) -> None:
        # A number that we have not collected belongs to nobody else.
        if group in self._running:
            _kill_group(group, number)
        elif group in self._left and not _kill_below(lambda its: its == group, number):
            self._left.discard(group)

    def _collect(self) -> bool:
        """Take note of all that has ended. Whether there are children still."""
        return reap(self._ended)

    def _ended(self, pid: int, status: int) -> None:
        if pid in self._running:
            self._running.discard(pid)
            self._left.add(pid)
            self._say("exited", pid, os.waitstatus_to_exitcode(status))

    def _end(self) -> int:
        for group in self._running:
            _kill_group(group, _signal.SIGKILL)
        return 0 if end_all(self._collect, self._watch, self._seconds) else 1

    def _say(self, *values: str | int) -> None:
        data = marshal.dumps(values)
        try:
            self._socket.sendall(len(data).to_bytes(_INT, "little") + data)
        except OSError:
            return  # nobody listens any more, which the next look at the socket tells


class Keeper:
    """Makes sub-keepers on request, and clears up after one that was killed."""

    def __init__(self, socket: _socket.socket, seconds: float) -> None:
        self._socket = socket
        self._seconds = seconds
        self._watch = Watch(socket.fileno())
        self._sub_keepers: set[int] = set()
        self._orphans = False

    def serve(self) -> int:
        """Returns when the daemon and every sub-keeper has ended. Returns in a sub-keeper too."""
        while True:
            self._collect()
            if self._orphans:
                self._orphans = _kill_below(lambda _: True, _signal.SIGKILL, spare=self._sub_keepers)
                self._watch.wait_for_child(_PAUSE_MS)
                continue
            if not self._watch.wait():
                continue
            try:
                room = _socket.CMSG_SPACE(_INT)
                data, ancillary, _, _ = self._socket.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC)
            except OSError:
                break
            if not data:
                break
            for fd in _descriptors(ancillary):
                if (sub_keeper := self._fork(fd)) is not None:
                    return sub_keeper.serve()
        deadline = time.monotonic() + self._seconds
        while self._collect() and self._sub_keepers and time.monotonic() < deadline:
            self._watch.wait_for_child(_PAUSE_MS)
        return 0 if end_all(self._collect, self._watch, self._seconds) else 1

    def _fork(self, fd: int) -> SubKeeper | None:
        """What to do, in the new process."""
        try:
            pid = os.fork()
        except OSError as none_left:
            self._refuse(fd, marshal.dumps(("refused", none_left.errno, 0)))
            return None
        if pid:
            os.close(fd)
            self._sub_keepers.add(pid)
            return None
        self._watch.close()
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, self._socket.fileno())  # the daemon shall see when the keeper alone has ended
        os.close(null)
        become_subreaper()
        return SubKeeper(_socket.socket(fileno=fd), self._seconds)

    def _refuse(self, fd: int, data: bytes) -> None:
        try:
            os.write(fd, len(data).to_bytes(_INT, "little") + data)
        except OSError:
            return  # nobody waits for it any more
        finally:
            os.close(fd)  # the daemon reads that as the end of the sub-keeper

    def _collect(self) -> bool:
        return reap(self._ended)

    def _ended(self, pid: int, status: int) -> None:
        if pid in self._sub_keepers:
            self._sub_keepers.discard(pid)
            # One that was killed, or gave up, leaves us what it kept.
            self._orphans = self._orphans or status != 0


def reap(ended: Callable[[int, int], None]) -> bool:
    """Collect every child that has ended, with its number and status. Whether there are children still."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        ended(pid, status)


def end_all(collect: Callable[[], bool], watch: Watch, seconds: float) -> bool:
    """Kill what is below this process until `collect` finds that nothing is, at most for `seconds`."""
    deadline = time.monotonic() + seconds
    while collect():
        if time.monotonic() > deadline:
            return False
        _kill_below(lambda _: True, _signal.SIGKILL)
        watch.wait_for_child(_PAUSE_MS)
    return True


def become_subreaper() -> None:
    from ctypes import CDLL

    if CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit("this system has no child subreapers")


def _start(argv: list[bytes], env: dict[bytes, bytes], fds: list[int]) -> int:
    """The new process leads a session of its own and has the signals of a fresh one."""
    fault = OSError(errno.ENOENT, "")
    for path in _candidates(argv[0], env):
        try:
            return os.posix_spawn(
                path,
                argv,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
                setsid=True,
                setsigmask=(),
                setsigdef=_RESET,
            )
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                fault = error
    raise fault


def _candidates(name: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    if b"/" in name:
        return [name]
    folders = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    paths = [os.path.join(folder, name) for folder in folders]  # noqa: PTH118 - pathlib takes long to load
    return [path for path in paths if os.access(path, os.F_OK)]


def _kill_below(wanted: Callable[[int], bool], number: int, spare: Collection[int] = ()) -> bool:
    """Signal every process below this one whose group is `wanted`; whether there was any.

    spare: children that are left alone, with all below them. A process that has ended and was not collected
    counts too: its number, and that of its group, cannot be anybody else's before we collect it.
    """
    me = os.getpid()
    children: dict[int, list[tuple[int, int]]] = {}
    for pid, parent, group in _processes():
        children.setdefault(parent, []).append((pid, group))
    found = False
    groups = set()
    for pid, group in children.get(me, ()):
        if pid in spare:
            continue
        if wanted(group):
            # One signal to a group also meets what is being forked in it at this moment.
            found = True
            groups.add(group)
        for below, its_group in _below(pid, children):
            if wanted(its_group) and its_group not in groups:
                found = True
                _kill_exactly(below, its_group, number)
    for group in groups:
        _kill_group(group, number)
    return found


def _below(pid: int, children: dict[int, list[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            yield child
            waiting.append(child[0])


def _kill_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        return  # nobody is in it any more, or nobody that we may signal


def _kill_exactly(pid: int, group: int, number: int) -> None:
    """Signal a process that is not our child, provided that it is still below us and in the group."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        above = pid
        while above > 1 and above != os.getpid():
            above = _stat(str(above))[1]
        if above == os.getpid() and _stat(str(pid))[2] == group:
            _signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        os.close(handle)


def _processes() -> Iterator[tuple[int, int, int]]:
    """Process, parent and group of all that run on this system or wait to be collected."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes long to load
        if name.isdigit():
            try:
                row = _stat(name)
            except OSError:
                continue  # it ended while we looked
            yield row


def _stat(name: str) -> tuple[int, int, int]:
    fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
    try:
        stat = os.read(fd, 4096)
    finally:
        os.close(fd)
    # The name in parentheses may hold anything, so the fields are counted from its end.
    _, parent, group = stat[stat.rindex(b")") + 2 :].split(b" ", 3)[:3]
    return int(stat[: stat.index(b" ")]), int(parent), int(group)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            found += memoryview(data[: len(data) - len(data) % _INT]).cast("i")
    return found


def main() -> None:
    """The daemon's socket is descriptor 0; the argument is how many seconds ending may take."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    _stat("self")  # where this cannot be read, nothing could be found
    become_subreaper()
    os._exit(Keeper(_socket.socket(fileno=0), float(sys.argv[1])).serve())
