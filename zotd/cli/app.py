"""Owns the composition: the one place where a process is built from flags."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from zotd.base.limits import Limits
from zotd.base.paths import absolute, user_home, zot_home
from zotd.base.secret import Secret
from zotd.cli.flags import Flags
from zotd.daemon.spec import TOKEN_VARIABLES, SessionSpec


def run(flags: Flags) -> int:
    """Do what the flags say. Returns the exit code."""
    supervisor = None
    if flags.mode == "rpc":
        from zotd.daemon.supervisor import Supervisor

        try:
            supervisor = Supervisor(os.environ)
        except OSError as wrong:
            return _complain(str(wrong), 2)
        if flags.idle_timeout and not (flags.daemon or flags.listen or supervisor.inherited):
            return _complain("--idle-timeout goes with --listen: the only client on stdio is never away", 2)
    environ = dict(os.environ)
    tokens = [environ.pop(name) for name in TOKEN_VARIABLES if name in environ]
    try:
        spec = _spec(flags, environ)
    except OSError as wrong:
        return _complain(str(wrong), 2)
    if flags.mode in ("print", "json") and (fault := _misconfigured(spec)):
        return _complain(fault, 2)
    limits = Limits()
    if flags.mode == "models":
        from zotd.cli.models import list_models

        return list_models(environ)
    if flags.session or flags.latest:
        from zotd.cli.which import NotThere, going_on

        try:
            spec = going_on(spec, flags.session, limits, joined=bool(flags.connect))
        except NotThere as wrong:
            return _complain(str(wrong), 2)
    if supervisor is not None:
        from zotd.cli.serve import serve

        token = next(filter(None, tokens), "")
        return drive(serve(flags, spec, limits, token, supervisor), limits, fast=True)
    from zotd.cli.oneshot import oneshot

    token = next(filter(None, tokens), "")
    return drive(oneshot(flags, spec, limits, token), limits)


def _misconfigured(spec: SessionSpec) -> str:
    """What a person at a shell mends before anything runs. A daemon goes on and tells of it."""
    from zotd.base.settings import of_environment, of_user
    from zotd.daemon.configured import unknown_names

    for layer in (of_environment(spec.environ), of_user(spec.home)):
        if faults := [str(fault) for fault in layer.faults if fault.wrong] + unknown_names(layer):
            return faults[0]
    return ""


def _spec(flags: Flags, environ: dict[str, str]) -> SessionSpec:
    cwd = absolute(flags.cwd or ".", "--cwd")
    if not cwd.is_dir():
        raise NotADirectoryError(f"--cwd {flags.cwd}: {cwd} is not a directory")
    return SessionSpec(
        cwd=cwd,
        home=zot_home(environ),
        user_home=user_home(environ),
        environ=environ,
        provider=flags.provider,
        model=flags.model,
        base_url=flags.base_url,
        api_key=Secret(flags.api_key) if flags.api_key else None,
        reasoning=flags.reasoning,
        script=Path(flags.script).absolute() if flags.script else None,
        tools=flags.tools,
        skills=flags.skills,
        system_prompt=flags.system_prompt,
        append_system_prompt=flags.append_system_prompt,
        extensions=tuple(absolute(path, "--ext") for path in flags.extensions),
        discover_extensions=flags.discover_extensions,
        max_steps=flags.max_steps,
        approval=flags.approval,
        ephemeral=flags.no_session or (flags.mode == "rpc" and not (flags.session or flags.latest)),
    )


def drive(work: Coroutine[Any, Any, int], limits: Limits, *, fast: bool = False) -> int:
    """Run to the end; the exit code. Threads that hang by then are not waited for, nor by the interpreter."""
    factory = None
    if fast:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        code = 1
        try:
            code = runner.run(work)
        finally:
            if threading.active_count() > 1:
                last = threading.Timer(limits.threads_end_s, _leave, [code])
                last.daemon = True
                try:
                    last.start()
                except RuntimeError:  # no thread can be had: nor one to wait for the others in
                    _leave(code)
    return code


def _leave(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)


def _complain(message: str, code: int) -> int:
    from zotd.cli.console import complain

    complain(message)
    return code
