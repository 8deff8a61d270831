"""Owns what each command of the zot dialect does to the session of its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zotd.agent.ports import NotKept
from zotd.base.reasoning import LEVELS, SAME
from zotd.daemon.zot_front import ZotFront
from zotd.wire import dialect
from zotd.wire.dialect import Command

if TYPE_CHECKING:
    from zotd.daemon.session import Session
    from zotd.extensions.panels import Panels


async def _prompt(front: ZotFront, command: Command, session: Session) -> None:
    from zotd.daemon.pictures import check_size, pictures
    from zotd.daemon.turns import QueueFull

    message = command.params["message"]
    try:
        images = pictures(command.params.get("images", []))
        check_size([message], images, session.limits)
    except ValueError as problem:
        front.refuse(command, str(problem))
        return
    if not message.strip() and not images:
        front.refuse(command, "message is empty")
        return
    started = lambda: front.reply(command, {"started": True})  # noqa: E731 - one call, one place
    try:
        accepted = await session.submit(message, images, started=started)
    except QueueFull as full:
        front.refuse(command, str(full))
        return
    front.awaited.add(accepted.turn_id)
    accepted.begin()


def _compact(front: ZotFront, command: Command, session: Session) -> None:
    """As a prompt: answered when its turn comes."""
    from zotd.daemon.turns import QueueFull

    started = lambda: front.reply(command, {"started": True})  # noqa: E731 - one call, one place
    try:
        accepted = session.commands.compact(command.params.get("instructions", ""), started=started)
    except QueueFull as full:
        front.refuse(command, str(full))
    else:
        front.awaited.add(accepted.turn_id)
        accepted.begin()


def _abort(front: ZotFront, command: Command, session: Session) -> None:
    front.reply(command, None)
    session.abort()


def _clear(front: ZotFront, command: Command, session: Session) -> None:
    try:
        tell = session.clear()
    except NotKept as no:
        front.refuse(command, str(no))
    else:
        front.reply(command, None)
        tell()


def _get_state(front: ZotFront, command: Command, session: Session) -> None:
    usage = session.transcript.usage
    front.reply(
        command,
        {
            "provider": session.provider,
            "model": session.model.id,
            "cwd": str(session.cwd),
            "message_count": len(session.transcript.messages),
            "busy": session.busy,
            "reasoning": session.model.reasoning,
            "usage": {
                "input": usage.input,
                "output": usage.output,
                "cache_read": usage.cache_read,
                "cache_write": usage.cache_write,
                "cost_usd": usage.cost_usd,
            },
        },
    )


def _get_messages(front: ZotFront, command: Command, session: Session) -> None:
    from zotd.agent.transcript import shown
    from zotd.wire.codec import to_wire

    rows = [to_wire(shown(message)) for message in session.transcript.messages]
    front.reply(command, {"messages": [dialect.message(row) for row in rows]})


def _set_model(front: ZotFront, command: Command, session: Session) -> None:
    model = command.params.get("model")
    if not isinstance(model, str) or not model:
        front.refuse(command, "model must be a non-empty string")
        return
    try:
        front.desk.set_model(session, model)
    except Exception as problem:
        front.refuse(command, str(problem))
    else:
        front.reply(command, {"model": session.model.id})
        session.changed()


def _set_reasoning(front: ZotFront, command: Command, session: Session) -> None:
    level = command.params.get("reasoning")
    if level not in ("", *LEVELS):
        front.refuse(command, f"reasoning must be one of {', '.join(LEVELS)}, got {level!r}")
        return
    try:
        front.desk.set_reasoning(session, SAME.get(level, level))
    except NotKept as no:
        front.refuse(command, str(no))
    else:
        front.reply(command, {"reasoning": session.model.reasoning})
        session.changed()


async def _get_commands(front: ZotFront, command: Command, session: Session) -> None:
    await session.loaded()
    front.reply(command, {"commands": session.commands.all()})


async def _run_command(front: ZotFront, command: Command, session: Session) -> None:
    await session.loaded()
    name = command.params["name"]
    found = session.commands.named(name, command.params.get("args", ""))
    if found is None:
        front.refuse(command, f"no command is named {name!r}")
    else:
        accepted = session.run_command(found)
        front.awaited.add(accepted.turn_id)
        front.reply(command, {"turn_id": accepted.turn_id})
        accepted.begin()


async def _get_extensions(front: ZotFront, command: Command, session: Session) -> None:
    await session.loaded()
    front.reply(command, {"extensions": session.host.states() if session.host is not None else []})


def _reload_ext(front: ZotFront, command: Command, session: Session) -> None:
    """Answered when it is done; what comes meanwhile is served, for it may take seconds."""
    from dataclasses import asdict

    async def reload() -> None:
        front.reply(command, asdict(await session.reload()))

    task = front.desk.tasks.create_task(reload(), name="reload_ext")
    front.reloads.add(task)
    task.add_done_callback(front.reloads.discard)


def _panel(front: ZotFront, command: Command, session: Session) -> None:
    from zotd.extensions.asking import AskFailed
    from zotd.extensions.panels import NoPanel

    assert session.host is not None
    try:
        afterwards = _act(session.host.panels, command)
    except (NoPanel, AskFailed, ValueError) as problem:
        front.refuse(command, f"{command.type}: {problem}")
    else:
        front.reply(command, None)
        afterwards()


def _act(panels: Panels, command: Command) -> Callable[[], None]:
    """Do to a panel what a command says. Returns what follows the answer; raises ValueError and as Panels."""
    from zotd.extensions.panels import KEYS

    params = command.params
    owner, panel_id = params["extension"], params["panel_id"]
    if command.type == "panel_close":
        return panels.dismissal(owner, panel_id)
    if command.type == "panel_resize":
        width, height = params["width"], params["height"]
        if min(width, height) < 1:
            raise ValueError(f"expected at least one cell each way, got {width} by {height}")
        return panels.resize(owner, panel_id, width, height)
    key, text = params["key"], params.get("text", "")
    if key not in KEYS:
        raise ValueError(f"no key is named {key!r}; expected one of: {', '.join(sorted(KEYS))}")
    if key == "rune" and not text:
        raise ValueError("`text`: expected the character that was typed")
    return panels.key(owner, panel_id, key, text)


HANDLERS: dict[str, Callable[[ZotFront, Command, Session], Any]] = {
    "prompt": _prompt,
    "abort": _abort,
    "compact": _compact,
    "clear": _clear,
    "get_state": _get_state,
    "get_messages": _get_messages,
    "set_model": _set_model,
    "set_reasoning": _set_reasoning,
    "get_commands": _get_commands,
    "run_command": _run_command,
    "get_extensions": _get_extensions,
    "reload_ext": _reload_ext,
    "panel_key": _panel,
    "panel_resize": _panel,
    "panel_close": _panel,
}
"""What each command does. Those that need no session of the connection's own are not among them."""
