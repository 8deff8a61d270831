"""Owns the question whether a call may run: who is asked, who answers, and how it ends when nobody does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from zotd.agent.ports import Denied
from zotd.base.log import log
from zotd.protocol.approval_methods import ApprovalAnswer, ApprovalRequest, Decision
from zotd.protocol.content import ToolCall, ToolCallInfo
from zotd.protocol.events import ApprovalRequested, ApprovalResolved, ExtNotify
from zotd.protocol.session import Approval, Preview
from zotd.wire.codec import encode

if TYPE_CHECKING:
    from zotd.daemon.audience import Client
    from zotd.daemon.session import Session
    from zotd.daemon.spec import SessionSpec
    from zotd.wire.peer import Response

Withdraw: TypeAlias = Callable[[], object]
"""Takes a question back: nobody waits for its answer any more."""


class Approver(Protocol):
    """Somebody who decides for a user. name: of the client, as it gave it."""

    @property
    def name(self) -> str: ...

    def ask(self, method: str, params: Any, answered: Callable[[Response | None], None]) -> Withdraw:
        """Put a question. `answered` gets the answer, or None once there will be none: the client has said
        its last word. It is called at most once, and never before this returns.
        """
        ...


@dataclass(frozen=True, slots=True)
class _End:
    """How a question ended. by: who decided, or in two words why nobody did. why: for the model."""

    decision: Decision
    by: str
    why: str = ""
    answer: ApprovalAnswer | None = None


@dataclass(eq=False, slots=True)
class _Question:
    """One that is open. asked: whose answer is waited for. grace: ends it when nobody is left to answer."""

    request: ApprovalRequest
    end: asyncio.Future[_End]
    since: float
    asked: dict[Client, Withdraw] = field(default_factory=dict)
    grace: asyncio.TimerHandle | None = None


def policy_of(spec: SessionSpec) -> Approval:
    """What a session of a spec is opened with. The words were checked where they came in."""
    policies: dict[str, Approval] = {"ask": "ask", "rules": "rules", "auto": "auto"}
    return policies.get(spec.approval, "ask" if spec.approves else "auto")


class Approvals:
    """Asks the clients of one session, all at once, about one call at a time: calls run one after the other.

    policy: see SessionSpec.
    """

    def __init__(self, session: Session, policy: Approval, *, headless: bool, alone: bool) -> None:
        """headless: whoever opened it cannot be asked; without another who can, the answer is no. alone: nor
        will anybody else come.
        """
        self.policy = policy
        self._session = session
        self._headless = headless or alone
        self._alone = alone
        self._over = False
        self._question: _Question | None = None
        self._count = 0

    async def ask(
        self, call: ToolCall, original: ToolCall | None, preview: Callable[[], Awaitable[Preview]]
    ) -> tuple[ApprovalAnswer | None, Denied | None]:
        """Put a call to everybody who can answer, and wait. original: the model's call, where it was changed.
        preview: looks what the call would do.

        The answer, None where nobody gave one, and the denial that the model gets, None where it may run.
        Cancelling the task that awaits this takes the question back.
        """
        if self._over or (self._headless and not any(client.approver for client in self._session.clients)):
            return None, Denied(_NOBODY, "no client")
        shown = await preview()
        if self.policy == "auto":  # since the preview was begun
            return None, None
        request = ApprovalRequest(
            session_id=self._session.id,
            approval_id=f"approval_{self._count + 1}",
            tool_call=ToolCallInfo(id=call.id, name=call.name, args=call.args),
            preview=shown,
            original_args=original.args if original is not None else None,
        )
        if self._is_too_long(request):
            request = msgspec.structs.replace(request, original_args=None)
            if self._is_too_long(request):
                return None, Denied(_TOO_LONG.format(self._session.limits.approval_bytes), "too long")
        self._count += 1
        end = await self._answered(request)
        return end.answer, Denied(end.why, end.by) if end.decision == "deny" else None

    def _is_too_long(self, request: ApprovalRequest) -> bool:
        return len(encode(request)) > self._session.limits.approval_bytes

    async def _answered(self, request: ApprovalRequest) -> _End:
        question = _Question(request, asyncio.get_running_loop().create_future(), time.monotonic())
        self._session.publish(
            ApprovalRequested(
                approval_id=request.approval_id, tool_call=request.tool_call, preview=request.preview
            )
        )
        self._question = question
        log(
            "approval asked",
            session=self._session.id,
            approval=request.approval_id,
            tool=request.tool_call.name,
        )
        within = self._session.limits.approval_s
        try:
            for client in tuple(self._session.clients):
                self.came(client)
            self._watch(question)
            async with asyncio.timeout(within):
                return await question.end
        except TimeoutError:
            end = _End("deny", "timeout", f"not run: nobody answered within {within:g} s")
            self._settle(question, end)
            # An answer may have come at the same moment.
            return end if question.end.cancelled() else question.end.result()
        finally:
            self._settle(question, _End("deny", "aborted"))

    def _settle(self, question: _Question, end: _End) -> None:
        """The first end counts: nobody else needs to answer, and all are told."""
        if self._question is not question:
            return
        self._question = None
        if not question.end.done():
            question.end.set_result(end)
        if question.grace is not None:
            question.grace.cancel()
        asked, question.asked = question.asked, {}
        for withdraw in asked.values():
            withdraw()
        approval_id = question.request.approval_id
        self._session.publish(ApprovalResolved(approval_id=approval_id, decision=end.decision, by=end.by))
        took = round(time.monotonic() - question.since, 3)
        ids = {"session": self._session.id, "approval": approval_id, "call": question.request.tool_call.id}
        log("approval", decision=end.decision, by=end.by, seconds=took, **ids)

    # Who can answer

    def came(self, client: Client) -> None:
        """A client attached, or says anew what it can do: one that can answer the open question is asked."""
        if (approver := client.approver) is None:
            self.left(client)
        elif (question := self._question) is not None and client not in question.asked:
            params = msgspec.to_builtins(question.request)
            question.asked[client] = approver.ask(
                "approval/request", params, lambda response: self._heard(question, client, approver, response)
            )
            self._watch(question)

    def left(self, client: Client) -> None:
        """A client is not attached any more: whatever it says, nobody waits for it."""
        if (question := self._question) is not None and (withdraw := question.asked.pop(client, None)):
            withdraw()
            self._watch(question)

    def release(self, by: str) -> None:
        """Everything may run from now on, says somebody: so may what is asked about."""
        if self._question is not None:
            self._settle(self._question, _End("allow", by))

    def end(self) -> None:
        """Nobody can answer any more: what is open is denied, and so is all that would be asked."""
        self._over = True
        if self._question is not None:
            self._settle(self._question, _End("deny", "no client", _NOBODY))

    def _watch(self, question: _Question) -> None:
        """When the last one who could answer is out, another one has some time to come."""
        if question.asked:
            if question.grace is not None:
                question.grace.cancel()
                question.grace = None
        elif question.grace is None:
            within = 0.0 if self._alone else self._session.limits.approver_wait_s
            why = _NOBODY if self._alone else f"not run: nobody who could approve it came within {within:g} s"
            end = _End("deny", "no client", why)
            loop = asyncio.get_running_loop()
            question.grace = loop.call_later(within, self._settle, question, end)

    def _heard(
        self, question: _Question, client: Client, approver: Approver, response: Response | None
    ) -> None:
        """A client answered. What is no answer leaves the question to the others."""
        if question.asked.pop(client, None) is None:
            return
        answer = None
        if response is not None and response.error is None:
            answer = self._read(question, approver.name, response.result)
        elif response is not None:
            log("approval not answered", "warn", client=approver.name, code=str(response.error)[:200])
        if answer is None:
            self._watch(question)
            return
        why = f"denied by the user ({approver.name})"
        if answer.reason:
            why += f": {answer.reason}"
        self._settle(question, _End(answer.decision, approver.name, why, answer))

    def _read(self, question: _Question, name: str, result: Any) -> ApprovalAnswer | None:
        """An answer, or None where it is none, which everybody is told: a response gets no error back."""
        from zotd.base.misfit import misfit, present

        try:
            answer = msgspec.convert(present(result, ApprovalAnswer), ApprovalAnswer)
            reason = (answer.reason or "")[: self._session.limits.approval_reason_chars]
            return msgspec.structs.replace(answer, reason=reason)
        except msgspec.ValidationError as wrong:
            fault = misfit(wrong, ApprovalAnswer, result)
        which = question.request.approval_id
        log("approval not answered", "warn", client=name, approval=which, fault=str(fault))
        message = f"the answer of {name} to {which} does not count: {fault}"
        self._session.publish(ExtNotify(extension="zotd", level="warn", message=message))
        return None


_NOBODY = (
    "not run: it has to be approved, and there is nobody who can be asked "
    "(under --approval rules the user's permissions.json decides, --approval auto runs all)"
)
_TOO_LONG = "not run: who has to approve it cannot be shown more than {} bytes of a call, and it has more"
