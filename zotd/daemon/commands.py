"""Owns the slash commands of a session: which there are, and what becomes of one that is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zotd.agent.loop import Outcome
from zotd.agent.ports import NotKept
from zotd.base.tasks import Tasks, failure_of
from zotd.daemon.refused import Refused
from zotd.daemon.turns import Accepted, QueueFull, Turn
from zotd.extensions.host import CommandAnswer, Invocation
from zotd.extensions.panels import panel_of
from zotd.protocol.content import Text
from zotd.protocol.events import (
    CommandResult,
    Done,
    Event,
    ExtDisplay,
    ExtInsert,
    ExtNotify,
    ExtPanelClose,
    ExtPanelOpen,
)

if TYPE_CHECKING:
    from zotd.daemon.session import Session
    from zotd.protocol.extension_methods import CommandRow

HOST = "zotd"
"""Whose events those of a built-in command are. Its invocations name no extension."""


def _clear(session: Session) -> tuple[CommandAnswer, Callable[[], None]]:
    """The answer, and what tells of it."""
    try:
        return CommandAnswer(HOST, "clear", "noop", "", None), session.clear()
    except (Refused, NotKept) as no:
        return CommandAnswer(HOST, "clear", "noop", "", f"{no}: {no.hint}"), lambda: None


def _compact(args: str) -> CommandAnswer:
    return CommandAnswer(HOST, "compact", "prompt", f"/compact {args}".rstrip(), None)


async def _reload(session: Session) -> CommandAnswer:
    reloaded = await session.reload()
    parts = [
        f"{word}: {', '.join(names) or 'none'}"
        for word, names in (("stopped", reloaded.stopped), ("ready", reloaded.ready))
    ]
    failed = [f"failed: {len(reloaded.errors)}"] if reloaded.errors else []
    return CommandAnswer(HOST, "reload-ext", "display", "; ".join([*parts, *failed]), None)


BUILT_IN = {
    "clear": "start over with an empty conversation",
    "compact": "have the older part of the conversation summarised; what follows the name says what to look "
    "after",
    "reload-ext": "stop all extensions, read their manifests again and start them",
}
"""Commands of our own that a prompt can be: what they do, for people."""

_TAKES_WORDS = frozenset({"compact"})
"""Those that mean something with words behind them. The others are then no commands."""


@dataclass(eq=False)
class Commands:
    """The commands of one session. Each runs also during a turn, in a task of its own if it has to wait."""

    session: Session
    tasks: Tasks

    def __post_init__(self) -> None:
        self.running: dict[asyncio.Task[None], str] = {}  # each with the id of its turn
        self._over = False

    def all(self) -> list[CommandRow]:
        """What can be run: ours first."""
        from zotd.protocol.extension_methods import CommandRow

        host = self.session.host
        own = [CommandRow(name=name, description=about, source="builtin") for name, about in BUILT_IN.items()]
        others = [
            CommandRow(name=c.name, description=c.description, source="extension", extension=c.extension)
            for c in (host.commands() if host is not None else [])
        ]
        return own + others

    def find(self, text: str) -> Invocation | None:
        """The command that a prompt is, or None."""
        if (own := self.built_in(text)) is not None:
            return own
        return self.session.host.find(text) if self.session.host is not None else None

    def built_in(self, text: str) -> Invocation | None:
        """The command of ours that a prompt is, or None."""
        typed = text.strip()
        if typed[:1] != "/" or not typed[1:2].strip():
            return None
        name, *rest = typed[1:].split(maxsplit=1)
        if (name := name.casefold()) not in BUILT_IN or (rest and name not in _TAKES_WORDS):
            return None
        return Invocation("", name, "".join(rest))

    def named(self, name: str, args: str) -> Invocation | None:
        """The command of that name, with a slash or without, or None."""
        return self.find(f"/{name.removeprefix('/')} {args}".rstrip())

    def compact(
        self, instructions: str = "", *, client: str = "client", started: Callable[[], None] = lambda: None
    ) -> Accepted:
        """Take a request to have the older part of the conversation summarised. It queues as a prompt does.

        instructions: what the summary should look after. started: called before the first event.
        Raises QueueFull.
        """
        turn = self.session.turns.make([Text(f"/compact {instructions}".rstrip())], client, started)
        turn.compact = instructions
        return self.session.turns.take(turn)

    def ready(self, turn: Turn, invocation: Invocation) -> Callable[[], None]:
        """Take it. Returns what runs it.

        A conversation is cleared here, and only the telling is left for later: a prompt that is taken right
        behind it begins anew.
        """
        if invocation.extension or invocation.name != "clear":
            return lambda: self._start(turn, invocation)
        answer, tell = _clear(self.session)

        def show() -> None:
            turn.started()
            tell()
            self._show(turn, answer)

        return show

    def _start(self, turn: Turn, invocation: Invocation) -> None:
        """Run it. Its `command_result` and `done`, or the turn it asks for, carry the turn's id."""
        turn.started()
        if self._over:  # it was closed between the answer and this
            self._show(turn, _aborted(invocation))
            return
        if not invocation.extension and invocation.name == "compact":
            self._show(turn, _compact(invocation.args))
            return
        task = self.tasks.create_task(self._run(turn, invocation), name=f"command {invocation.name}")
        self.running[task] = turn.id
        task.add_done_callback(lambda ended: self._ended(ended, turn, invocation))

    def close(self) -> None:
        """Run no more."""
        self._over = True
        self.cancel()

    def cancel(self, turn_id: str = "") -> bool:
        """Stop waiting for the answers of those that run, or of one of them. Whether there was any."""
        meant = [task for task, turn in self.running.items() if turn_id in ("", turn)]
        for task in meant:
            task.cancel()
        return bool(meant)

    def _ended(self, task: asyncio.Task[None], turn: Turn, invocation: Invocation) -> None:
        self.running.pop(task, None)
        if task.cancelled():  # before its first step: whoever waits for it has to be told
            self._show(turn, _aborted(invocation))
        elif (bug := failure_of(task)) is not None and not turn.answered.done():
            whose = invocation.extension or HOST
            error = f"internal error: {type(bug).__name__}: {bug}"
            self._show(turn, CommandAnswer(whose, invocation.name, "noop", "", error))

    async def _run(self, turn: Turn, invocation: Invocation) -> None:
        try:
            answer = await self._answer(invocation, turn.id)
        except asyncio.CancelledError:
            answer = _aborted(invocation)
        self._show(turn, answer)

    async def _answer(self, invocation: Invocation, turn_id: str) -> CommandAnswer:
        if not invocation.extension:
            return await _reload(self.session)
        if self.session.host is None:
            return _aborted(invocation)
        return await self.session.host.invoke(invocation, turn_id)

    def _show(self, turn: Turn, answer: CommandAnswer) -> None:
        """Turn an answer into events, and into a turn where it asks for one."""
        text = self._publish(answer, turn.id)
        self.session.publish(
            CommandResult(
                turn_id=turn.id,
                extension=answer.extension,
                name=answer.name,
                action=answer.action,
                error=answer.error or None,
            )
        )
        turn.answered.set_result(answer)
        if answer.action == "prompt" and not answer.error:
            turn.content, turn.started = [Text(answer.text)], lambda: None
            if answer.extension == HOST:
                turn.compact = answer.text.removeprefix("/compact").strip()
            else:
                turn.client = f"extension:{answer.extension}"
            try:
                if self.session.enqueue(turn):
                    return
            except QueueFull as full:
                answer = replace(answer, error=f"the prompt of /{answer.name} was dropped: {full}")
                self._publish(answer, turn.id)
        self.session.publish(Done(turn_id=turn.id, stop="error" if answer.error else "end_turn"))
        outcome = (
            Outcome("error", error=answer.error, kind="command") if answer.error else Outcome("end_turn")
        )
        outcome.text = text
        turn.finished.set_result(outcome)

    def _publish(self, answer: CommandAnswer, turn_id: str) -> str:
        """The event in which a command's answer is seen. Returns what it shows as text."""
        whose, text = answer.extension, answer.text

        def publish(event: Event) -> None:
            self.session.publish(event, turn_id)

        if answer.error:
            publish(ExtNotify(extension=whose, level="error", message=answer.error))
        elif answer.action == "display" and text:
            publish(ExtDisplay(extension=whose, command=answer.name, text=text))
            return text
        elif answer.action == "insert" and text:
            publish(ExtInsert(extension=whose, text=text))
            return text
        elif answer.panel is not None:  # nobody can show it: who has only text sees it once
            panel, _ = panel_of(whose, answer.panel, self.session.limits)
            publish(
                ExtPanelOpen(
                    extension=whose,
                    panel_id=panel.panel_id,
                    title=panel.title,
                    lines=panel.lines,
                    footer=panel.footer,
                )
            )
            publish(ExtPanelClose(extension=whose, panel_id=panel.panel_id))
            return "\n".join(panel.lines)
        return ""


def _aborted(invocation: Invocation) -> CommandAnswer:
    return CommandAnswer(invocation.extension or HOST, invocation.name, "noop", "", "aborted")
