"""Owns the question who is at the other end of a Unix socket, as the system answers it."""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress


def may_connect(connected: socket.socket) -> tuple[bool, int]:
    """Whether the other end is the user this process runs as, or root, who can do all that anyway.

    With it the uid of that end, -1 where the system does not tell: nobody is let in then.
    """
    uid = _uid(connected)
    return uid in (0, os.geteuid()), uid


def peer_of(connected: socket.socket) -> dict[str, int]:
    """The `uid` and `pid` of the other end of a Unix socket; without what the system does not tell."""
    if connected.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return {}
    with suppress(OSError):
        told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", told)
        return {"uid": uid, "pid": pid}
    return {}


def _uid(connected: socket.socket) -> int:
    platform: str = sys.platform
    try:
        if platform == "linux":
            told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", told)[1])
        return _getpeereid(connected.fileno())
    except OSError:
        return -1


def _getpeereid(fd: int) -> int:
    """macOS and the BSDs have a call for it, which Python does not offer."""
    import ctypes

    uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
    if ctypes.CDLL(None).getpeereid(fd, ctypes.byref(uid), ctypes.byref(gid)) != 0:
        return -1
    return uid.value
