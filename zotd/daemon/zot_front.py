"""Owns the zot dialect on one connection: commands in, responses and events out, one session.

`ping` and `hello` are answered without the agent; the session is opened by the first command that needs
it, or shortly after connecting, so that extensions start and their notes are seen.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from zotd import __version__
from zotd.base.reasoning import LEVELS, SAME
from zotd.base.tasks import Tasks
from zotd.daemon.capabilities import declared
from zotd.daemon.connection import Connection
from zotd.wire import dialect
from zotd.wire.dialect import Command, Refusal

if TYPE_CHECKING:
    from zotd.daemon.session import Client, Session
    from zotd.extensions.panels import Panels
    from zotd.store.ring import Published

_LIGHT = frozenset({"ping", "hello", "get_models"})
"""Commands that are answered without the agent."""


class Desk(Protocol):
    """What a front needs of the process. `open` may be slow the first time: it loads the agent."""

    @property
    def tasks(self) -> Tasks: ...
    @property
    def token(self) -> str: ...
    def identity(self) -> tuple[str, str]: ...
    def models(self) -> list[dict[str, Any]]: ...
    def open(self) -> Session: ...
    def start(self, session: Session) -> None: ...
    def set_model(self, session: Session, model: str) -> None: ...
    def set_reasoning(self, session: Session, level: str) -> None: ...
    async def leave(self, session: Session, client: Client) -> None: ...
    def fatal(self, connection: Connection, message: str) -> None: ...


class ZotFront:
    """One connection in the zot dialect. Commands are handled in the order they came."""

    def __init__(self, connection: Connection, desk: Desk) -> None:
        self._connection = connection
        self._desk = desk
        self.capabilities: frozenset[str] = frozenset()
        self._session: Session | None = None
        self._inbox: deque[Command | Refusal] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._reloads: set[asyncio.Task[None]] = set()
        self._trusted = not desk.token
        self._awaited: set[str] = set()
        self._over = False
        self._met = False
        self._handlers: dict[str, Callable[[Command, Session], Any]] = {
            "prompt": self._prompt,
            "abort": self._abort,
            "compact": self._compact,
            "clear": self._clear,
            "get_state": self._get_state,
            "get_messages": self._get_messages,
            "set_model": self._set_model,
            "set_reasoning": self._set_reasoning,
            "get_commands": self._get_commands,
            "run_command": self._run_command,
            "get_extensions": self._get_extensions,
            "reload_ext": self._reload_ext,
            "panel_key": self._panel,
            "panel_resize": self._panel,
            "panel_close": self._panel,
        }
        grace = connection.limits.health_grace_s
        self._warm_up = asyncio.get_running_loop().call_later(grace, self._begin_session)

    # Client of a session

    @property
    def full(self) -> bool:
        return self._connection.full

    async def drained(self) -> None:
        await self._connection.drained()

    def deliver(self, event: Published) -> None:
        if event.type == "done" and not self._ends(event.turn_id):
            return
        if event.type == "queue" and "submit" not in self.capabilities:
            return  # only extensions can fill the queue behind this client's back
        self._connection.send_encoded(dialect.event(event.type, event.body))

    def _ends(self, turn_id: str) -> bool:
        """Whether a `done` is what this client waits for: it stops at the first one that it is sent.

        So a command sends none while a prompt runs, nor one that an extension has run.
        """
        active = self._session.turns.active if self._session is not None else None
        awaited = turn_id in self._awaited
        self._awaited.discard(turn_id)
        return awaited if active is None else turn_id == active.id

    # Front

    def receive(self, value: Any) -> None:
        if self._over:  # turned away: what else is in the pipe counts for nothing
            return
        command = dialect.parse(value)
        if not self._trusted and not self._authenticate(command):
            return
        if not self._met:
            self._met = True
            if self._identity() is None:
                return
        self._take(command)

    def malformed(self, message: str) -> None:
        self._take(Refusal(dialect.malformed(message)))

    def _take(self, item: Command | Refusal) -> None:
        """Serve at once what needs no agent, unless something waits ahead of it: answers keep their order."""
        if self._pump is None and (isinstance(item, Refusal) or item.type in _LIGHT):
            self._answer_light(item)
            return
        self._inbox.append(item)
        if self._pump is None:
            self._pump = self._desk.tasks.create_task(self._work(), name="zot dialect commands")

    async def finished(self) -> None:
        """Until everything that was accepted is done."""
        if self._pump is not None:
            await asyncio.wait([self._pump])
        if self._reloads:
            await asyncio.wait(self._reloads)
        if self._session is not None:
            await self._session.finish()

    async def closed(self) -> None:
        self._over = True
        self._warm_up.cancel()
        if self._session is not None:
            await self._desk.leave(self._session, self)

    def _authenticate(self, command: Command | Refusal) -> bool:
        """The token must come first, in `hello`. Compared in constant time."""
        if isinstance(command, Refusal):  # it needs the token whatever else is wrong with it
            answer = command.response
            command = Command(answer["command"], answer.get("id"), {})
        if command.type != "hello":
            self._refuse(command, "auth required: send hello with token first")
            return False
        if not hmac.compare_digest(str(command.params.get("token", "")).encode(), self._desk.token.encode()):
            self._refuse(command, "invalid token")
            self._connection.flush()
            self._fail("invalid token")
            return False
        self._trusted = True
        return True

    async def _work(self) -> None:
        try:
            while self._inbox:
                item = self._inbox.popleft()
                if isinstance(item, Refusal) or item.type in _LIGHT:
                    self._answer_light(item)
                elif (session := self._begin_session()) is not None:
                    await self._handle(item, session)
        finally:
            self._pump = None

    async def _handle(self, command: Command, session: Session) -> None:
        """A fault of ours is one command's failure, never the end of a daemon that serves others."""
        try:
            outcome = self._handlers[command.type](command, session)
            if outcome is not None:
                await outcome
        except Exception:
            import traceback

            traceback.print_exc()
            self._refuse(command, "internal error")

    def _begin_session(self) -> Session | None:
        if self._session is None and not self._over and self._trusted:
            self._warm_up.cancel()
            try:
                self._session = self._desk.open()
                self._session.attach(self)
                self._desk.start(self._session)
            except Exception as problem:
                self._fail(str(problem))
                return None
        return self._session

    # Commands

    def _answer_light(self, item: Command | Refusal) -> None:
        if isinstance(item, Refusal):
            self._connection.send(item.response)
        elif item.type == "hello":
            self._say_hello(item)
        elif item.type == "ping":
            self._reply(item, {"pong": True})
        else:
            self._reply(item, {"models": self._desk.models()})

    def _say_hello(self, command: Command) -> None:
        if (said := command.params.get("capabilities")) is not None:
            self.capabilities = declared(said)
        if (identity := self._identity()) is not None:
            provider, model = identity
            hello = {"protocol_version": 1, "version": __version__, "provider": provider, "model": model}
            self._reply(command, hello)

    def _identity(self) -> tuple[str, str] | None:
        if self._session is not None:
            return self._session.provider, self._session.model.id
        try:
            return self._desk.identity()
        except Exception as problem:
            self._fail(str(problem))
            return None

    def _fail(self, problem: str) -> None:
        self._over = True
        self._desk.fatal(self._connection, problem)

    async def _prompt(self, command: Command, session: Session) -> None:
        from zotd.daemon.pictures import pictures
        from zotd.daemon.turns import QueueFull

        message = command.params["message"]
        try:
            images = pictures(command.params.get("images", []))
        except ValueError as problem:
            self._refuse(command, str(problem))
            return
        if not message.strip() and not images:
            self._refuse(command, "message is empty")
            return
        started = lambda: self._reply(command, {"started": True})  # noqa: E731 - one call, one place
        try:
            accepted = await session.submit(message, images, started=started)
        except QueueFull as full:
            self._refuse(command, str(full))
            return
        self._awaited.add(accepted.turn_id)
        accepted.begin()

    def _compact(self, command: Command, session: Session) -> None:
        """As a prompt: answered when its turn comes."""
        from zotd.daemon.turns import QueueFull

        started = lambda: self._reply(command, {"started": True})  # noqa: E731 - one call, one place
        try:
            accepted = session.commands.compact(command.params.get("instructions", ""), started=started)
        except QueueFull as full:
            self._refuse(command, str(full))
        else:
            self._awaited.add(accepted.turn_id)
            accepted.begin()

    def _abort(self, command: Command, session: Session) -> None:
        self._reply(command, None)
        session.abort()

    def _clear(self, command: Command, session: Session) -> None:
        if session.busy:
            self._refuse(command, "a turn is running: abort it first")
        else:
            self._reply(command, None)
            session.clear()

    def _get_state(self, command: Command, session: Session) -> None:
        usage = session.transcript.usage
        self._reply(
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

    def _get_messages(self, command: Command, session: Session) -> None:
        from zotd.agent.transcript import shown
        from zotd.wire.codec import to_wire

        rows = [to_wire(shown(message)) for message in session.transcript.messages]
        self._reply(command, {"messages": [dialect.message(row) for row in rows]})

    def _set_model(self, command: Command, session: Session) -> None:
        model = command.params.get("model")
        if not isinstance(model, str) or not model:
            self._refuse(command, "model must be a non-empty string")
            return
        try:
            self._desk.set_model(session, model)
        except Exception as problem:
            self._refuse(command, str(problem))
        else:
            self._reply(command, {"model": session.model.id})
            session.changed()

    def _set_reasoning(self, command: Command, session: Session) -> None:
        level = command.params.get("reasoning")
        if level not in ("", *LEVELS):
            self._refuse(command, f"reasoning must be one of {', '.join(LEVELS)}, got {level!r}")
            return
        self._desk.set_reasoning(session, SAME.get(level, level))
        self._reply(command, {"reasoning": session.model.reasoning})
        session.changed()

    async def _get_commands(self, command: Command, session: Session) -> None:
        await session.loaded()
        self._reply(command, {"commands": session.commands.all()})

    async def _run_command(self, command: Command, session: Session) -> None:
        await session.loaded()
        name = command.params["name"]
        found = session.commands.named(name, command.params.get("args", ""))
        if found is None:
            self._refuse(command, f"no command is named {name!r}")
        else:
            accepted = session.run_command(found)
            self._awaited.add(accepted.turn_id)
            self._reply(command, {"turn_id": accepted.turn_id})
            accepted.begin()

    async def _get_extensions(self, command: Command, session: Session) -> None:
        await session.loaded()
        self._reply(command, {"extensions": session.host.states() if session.host is not None else []})

    def _reload_ext(self, command: Command, session: Session) -> None:
        """Answered when it is done; what comes meanwhile is served, for it may take seconds."""
        from dataclasses import asdict

        async def reload() -> None:
            self._reply(command, asdict(await session.reload()))

        task = self._desk.tasks.create_task(reload(), name="reload_ext")
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    def _panel(self, command: Command, session: Session) -> None:
        from zotd.extensions.asking import AskFailed
        from zotd.extensions.panels import NoPanel

        assert session.host is not None
        try:
            afterwards = _act(session.host.panels, command)
        except (NoPanel, AskFailed, ValueError) as problem:
            self._refuse(command, f"{command.type}: {problem}")
        else:
            self._reply(command, None)
            afterwards()

    def _reply(self, command: Command, data: dict[str, Any] | None) -> None:
        self._connection.send(dialect.response(command.type, command.id, data=data))

    def _refuse(self, command: Command, error: str) -> None:
        self._connection.send(dialect.response(command.type, command.id, error=error))


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
