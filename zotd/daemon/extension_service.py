"""Owns what the JSON-RPC methods about tools, commands, extensions and panels do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from zotd.base.files import open_regular
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.session import Session
from zotd.extensions.asking import AskFailed
from zotd.extensions.panels import NoPanel, Panels
from zotd.protocol import extension_methods as m
from zotd.protocol.params import SessionRef


async def tool_list(caller: Caller, params: m.ToolList) -> m.Tools:
    session = await _loaded(caller, params)
    box = session.toolbox
    rows = [
        m.ToolRow(
            name=tool.name,
            description=tool.description,
            schema=tool.schema,
            source="extension" if box.owner(tool.name) else "builtin",
            extension=box.owner(tool.name) or None,
            deferred=deferred,
            active=active,
        )
        for tool, deferred, active in box.listed()
    ]
    return m.Tools(tools=rows)


async def command_list(caller: Caller, params: m.CommandList) -> m.CommandRows:
    session = await _loaded(caller, params)
    return m.CommandRows(commands=session.commands.all())


async def command_run(caller: Caller, params: m.CommandRun) -> m.CommandRan:
    session = await _loaded(caller, params)
    invocation = session.commands.named(params.name, params.args)
    if invocation is None:
        raise Refused(
            f"no command is named {params.name!r}",
            kind="command_not_found",
            hint="command/list shows those there are",
        )
    accepted = session.run_command(invocation, caller.name)
    accepted.begin()
    answer = await asyncio.shield(accepted.answered)
    return m.CommandRan(action=answer.action, turn_id=accepted.turn_id, error=answer.error or None)


async def extension_list(caller: Caller, params: m.ExtensionList) -> m.Extensions:
    session = await _loaded(caller, params)
    return m.Extensions(extensions=session.host.states() if session.host is not None else [])


async def extension_reload(caller: Caller, params: m.ExtensionReload) -> m.Reloaded:
    session = session_of(caller, params)
    caller.sessions.ask_trust(session)
    done = await session.reload()
    errors = [m.LoadProblem(path=error.path, message=error.message) for error in done.errors]
    return m.Reloaded(stopped=done.stopped, loaded=done.loaded, ready=done.ready, errors=errors)


async def extension_log(caller: Caller, params: m.ExtensionLog) -> m.LogTail:
    session = session_of(caller, params)
    rows = session.host.states() if session.host is not None else []
    path = next((row.log_path for row in rows if row.name == params.name), None)
    if path is None:
        raise Refused(
            f"no extension is named {params.name!r}",
            kind="extension_not_found",
            hint="extension/list shows those that were found",
        )
    return m.LogTail(text=_tail(Path(path), params.lines, session.limits.log_tail_bytes), path=path)


async def panel_key(caller: Caller, params: m.PanelKeyParams) -> Then:
    if params.key == "rune" and not params.text:
        raise Refused("$.text: expected the character that was typed", kind="invalid_params")
    return _then(
        lambda: _panels(caller, params).key(params.extension, params.panel_id, params.key, params.text)
    )


async def panel_resize(caller: Caller, params: m.PanelResizeParams) -> Then:
    return _then(
        lambda: _panels(caller, params).resize(params.extension, params.panel_id, params.width, params.height)
    )


async def panel_close(caller: Caller, params: m.PanelCloseParams) -> Then:
    return _then(lambda: _panels(caller, params).dismissal(params.extension, params.panel_id))


EXTENSION_METHODS: dict[str, Method] = {
    "tool/list": tool_list,
    "command/list": command_list,
    "command/run": command_run,
    "extension/list": extension_list,
    "extension/reload": extension_reload,
    "extension/log": extension_log,
    "panel/key": panel_key,
    "panel/resize": panel_resize,
    "panel/close": panel_close,
}


async def _loaded(caller: Caller, params: SessionRef) -> Session:
    """The session, with its extensions loaded so far as anybody waits for them."""
    session = session_of(caller, params)
    await session.loaded()
    return session


def _panels(caller: Caller, params: m.PanelRef) -> Panels:
    host = session_of(caller, params).host
    if host is None:
        raise NoPanel("no extension has a panel open")
    return host.panels


def _then(act: Callable[[], Callable[[], None]]) -> Then:
    """Do something to a panel; what clients see of it follows the answer."""
    try:
        return Then(None, act())
    except NoPanel as closed:
        raise Refused(str(closed), kind="panel_not_found", hint="it may have closed meanwhile") from None
    except AskFailed as failure:
        raise Refused(str(failure), kind="extension_gone", hint="extension/log tells more") from None


def _tail(path: Path, lines: int, most: int) -> str:
    """The last lines of a file that others write to; empty while there is none."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            text = file.read(most).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    return "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""
