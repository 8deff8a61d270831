"""Owns the sentences that say why a program does not start, and what to do about it.

The kernel's answer to a missing script interpreter is the same "No such file or directory" as to a
missing script; people lose hours to that. Every sentence here names the path that is at fault.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from zotd.base.files import is_file, is_folder, is_there, open_regular

_TAKE_APART = "; it has a space: arguments are given apart from the program, in a manifest as `args`"
_FOLDERS_NAMED = 3  # of PATH: enough to see whose it is
_SHEBANG_BYTES = 256  # what Linux itself reads of a first line


def why_not_started(argv: Sequence[str], cwd: Path, env: Mapping[str, str], error: OSError) -> str:
    """One line: which program, what is wrong with which path, how to fix it."""
    name = argv[0]
    if not is_folder(cwd):
        state = "is not a directory" if is_there(cwd) else "does not exist"
        return f"cannot start {name}: its working directory {cwd} {state}; create it or name another"
    if error.errno == errno.E2BIG:
        return (
            f"cannot start {name}: its arguments and environment are too long for the system; "
            "put long text into a file and pass the file's path"
        )
    if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR):
        return f"cannot start {name}: {os.strerror(error.errno or 0)}{_resource_fix(error.errno)}"
    hint = _TAKE_APART if " " in name and _on_path(name.split()[0], cwd, env) else ""
    return f"cannot start {name}: {_fault_of_path(name, cwd, env)}{hint}"


def missing_env_program(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Says that a script's `#!/usr/bin/env NAME` names a program that is not there; else "".

    The kernel starts `env` without complaint, so that nobody else would say it before exit code 127.
    """
    if "/" not in argv[0]:
        return ""
    path = cwd / argv[0]
    words = _shebang(path)
    if len(words) < 2 or Path(words[0]).name != "env":
        return ""
    rest = words[2:] if words[1] in ("-S", "--split-string") else words[1:]
    # Other options and assignments change where `env` looks; it will speak for itself then.
    if not rest or rest[0].startswith("-") or "=" in rest[0] or _on_path(rest[0], cwd, env):
        return ""
    return f"cannot start {argv[0]}: {_interpreter_missing(path, rest[0])}"


def _fault_of_path(name: str, cwd: Path, env: Mapping[str, str]) -> str:
    if "/" in name:
        path = cwd / name
    else:
        found = _on_path(name, cwd, env)
        if found is None:
            return f"{name} is not on PATH{_searched(env)}; install it or give its full path"
        path = found
    if not is_there(path):
        return f"{path} does not exist; check the path, or build or install it"
    if is_folder(path):
        return f"{path} is a directory; name the program inside it"
    if not is_file(path):
        return f"{path} is not a regular file; name a program"
    if not os.access(path, os.X_OK):
        return f"{path} is not executable; run: chmod +x {_quoted(path)}"
    words = _shebang(path)
    if words and not is_there(cwd / words[0].rstrip("\r")):
        return _interpreter_missing(path, words[0])
    if words and words[0].endswith("\r"):
        return _interpreter_missing(path, words[0])
    if words:
        return f"{words[0]}, named in the first line of {path}, cannot be run; check that it is a program"
    if _head(path)[:4] == b"\x7fELF":
        return f"{path} was built for another system, or its loader is missing; install a build for this one"
    return f"{path} is neither a program nor a script; begin it with a line such as #!/usr/bin/env python3"


def _interpreter_missing(path: Path, interpreter: str) -> str:
    if interpreter.endswith("\r"):
        return f"the first line of {path} ends in CRLF; convert it: sed -i 's/\\r$//' {_quoted(path)}"
    return (
        f"the first line of {path} asks for {interpreter}, which is not there; install it or change that line"
    )


def _quoted(path: Path) -> str:
    from shlex import quote

    return quote(str(path))


def _shebang(path: Path) -> list[str]:
    """The words after `#!`, a carriage return at the end of the line kept on the last one."""
    head = _head(path)
    if not head.startswith(b"#!"):
        return []
    line = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace")
    return [word for word in line.replace("\t", " ").split(" ") if word.strip()]


def _head(path: Path) -> bytes:
    """How a program begins; empty when it cannot be read."""
    try:
        handle = open_regular(path)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(handle, _SHEBANG_BYTES)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _on_path(name: str, cwd: Path, env: Mapping[str, str]) -> Path | None:
    if "/" in name:
        return cwd / name if is_there(cwd / name) else None
    for folder in os.get_exec_path(dict(env)):
        path = cwd / folder / name
        if is_file(path):
            return path
    return None


def _searched(env: Mapping[str, str]) -> str:
    """Where a program was looked for, the first few places by name."""
    first, more = (folders := os.get_exec_path(dict(env)))[:_FOLDERS_NAMED], len(folders) - _FOLDERS_NAMED
    return f" ({', '.join(first)}{f' and {more} more' if more > 0 else ''})"


def _resource_fix(code: int | None) -> str:
    if code in (errno.EMFILE, errno.ENFILE):
        return "; close something or raise the limit: ulimit -n"
    if code in (errno.EAGAIN, errno.ENOMEM):
        return "; end other programs or raise the limit: ulimit -u"
    return ""
