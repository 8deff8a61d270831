"""Owns the order in which a call is judged: extensions, then the user's rules, then whoever is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zotd.agent.ports import Denied, Hooks, Refused, Verdict
from zotd.base.files import MAKE_ROOM, BadFile
from zotd.protocol.content import ToolCall
from zotd.protocol.events import ExtNotify
from zotd.tools.typed import printable

if TYPE_CHECKING:
    from zotd.daemon.permission_file import PermissionFile
    from zotd.daemon.permissions import Judgement, Rule, Rules, Subject
    from zotd.daemon.session import Session


class Gate:
    """The `Hooks` of one session. What answers leave behind for its own time is kept here."""

    def __init__(
        self,
        hooks: Hooks,
        session: Session,
        *,
        home: str,
        user_home: str,
        permissions: Callable[[], PermissionFile],
    ) -> None:
        """hooks: those of its extensions. home: what `~` is in its calls, user_home: in the user's rules."""
        self._hooks = hooks
        self._session = session
        self._home = home
        self._user_home = user_home
        self._permissions = permissions
        self._remembered: Rules | None = None
        self._told: tuple[str, ...] = ()

    def withholding(self) -> list[str]:
        return self._hooks.withholding()

    async def turn_start(self, step: int) -> Verdict:
        return await self._hooks.turn_start(step)

    async def assistant_message(self, text: str) -> Verdict:
        return await self._hooks.assistant_message(text)

    async def tool_call(self, call: ToolCall) -> Verdict:
        """Extensions see it first, and the user sees what they made of it."""
        said = await self._hooks.tool_call(call)
        if isinstance(said, Refused) or self._session.approvals.policy == "auto":
            return said
        would = ToolCall(id=call.id, name=call.name, args=said.args)
        denied = await self._judged(would, call if said.by else None)
        return said if denied is None else denied

    async def _judged(self, call: ToolCall, original: ToolCall | None) -> Denied | None:
        from zotd.daemon.permissions import Allow, Deny, Rules, answered
        from zotd.daemon.preview import preview_of

        session, approvals = self._session, self._session.approvals
        subject, judgement, complaints = await asyncio.to_thread(self._look, call)
        self._complain(complaints)
        if isinstance(judgement, Allow):
            return None
        if isinstance(judgement, Deny):
            return Denied(f"denied by the user's rules: {judgement.reason}", "rules")
        preview = partial(preview_of, subject, call.args, session.limits, session.changes)
        answer, denied = await approvals.ask(call, original, preview)
        if answer is not None and answer.scope != "once":
            left = answered(subject, answer.decision, answer.reason or "")
            most = session.limits.permissions_of_session
            self._remembered = (self._remembered or Rules()).plus(left, most)
            if answer.scope == "always":
                session.tasks.create_task(self._keep(left), name="keeping an answer")
        return denied

    def _look(self, call: ToolCall) -> tuple[Subject, Judgement, tuple[str, ...]]:
        """What rules see of a call and say to it, and what is wrong with them. Waits for the disk."""
        from zotd.daemon.permissions import Rules, Whereabouts, judge, subject_of

        session = self._session
        place = Whereabouts(session.cwd, self._home, self._user_home)
        subject = subject_of(call.name, call.args, place, session.toolbox.owner(call.name))
        if len(subject.parts or ()) > session.limits.command_parts:
            subject = replace(subject, parts=None)
        of_file = self._permissions().rules()
        judgement = judge(session.approvals.policy, of_file, self._remembered or Rules(), subject)
        return subject, judgement, of_file.complaints

    async def _keep(self, rules: tuple[Rule, ...]) -> None:
        """Write an answer down that is to hold for ever; nothing waits for that."""
        try:
            await asyncio.to_thread(self._permissions().add, rules)
        except BadFile as bad:
            self._warn(f"an answer holds for this session only, it cannot be written down: {bad}")
        except OSError as wrong:
            self._warn(
                "an answer holds for this session only, it cannot be written down: "
                f"{wrong.filename}: {wrong.strerror}; {MAKE_ROOM}"
            )

    def _complain(self, complaints: tuple[str, ...]) -> None:
        """Say what is wrong with the file of rules, once."""
        told, self._told = self._told, complaints
        for complaint in complaints:
            if complaint not in told:
                self._warn(complaint)

    def _warn(self, message: str) -> None:
        self._session.publish(ExtNotify(extension="zotd", level="warn", message=printable(message)))
