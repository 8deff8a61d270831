"""Owns the calls of one assistant message: each runs, or is refused, and gets exactly one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zotd.agent.ports import Denied, Hooks, Refused, Tool, ToolFailed, ToolOutcome
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Transcript
from zotd.base.files import MORE_DESCRIPTORS, none_left
from zotd.protocol.content import Text, ToolCall, ToolResult
from zotd.protocol.events import ToolProgress, ToolResulted

if TYPE_CHECKING:
    from zotd.agent.loop import Sink


class Batch:
    """Runs calls one after the other. `hooks` may refuse one, or change its arguments."""

    def __init__(self, transcript: Transcript, tools: Toolbox, sink: Sink, hooks: Hooks | None) -> None:
        self.transcript = transcript
        self.tools = tools
        self.hooks = hooks
        self._sink = sink

    async def run(self, runnable: Sequence[ToolCall], calls: Sequence[ToolCall]) -> None:
        """Run a batch in order. Calls that are not reached still get a result: each needs one.

        A result is written down before it is told; the last one with the row that has them all.
        """
        events: list[ToolResulted] = []
        added: list[str] = []
        reason = "not run: the answer was cut at the model's length limit"
        told = 0
        try:
            for call in runnable:
                reason = "aborted"
                outcome = await self._outcome(call)
                added += self.tools.activate(outcome.activate)
                events.append(self._resulted(call, outcome))
                if len(events) < len(calls):
                    self.transcript.early(_result(events[-1]))
                    self._sink.publish(events[-1])
                    told += 1
        finally:
            unreached = ToolOutcome([Text(reason)], is_error=True)
            events += [self._resulted(call, unreached) for call in calls[len(events) :]]
            self.transcript.append("tool", [_result(event) for event in events], added)
            for event in events[told:]:
                self._sink.publish(event)

    async def _outcome(self, call: ToolCall) -> ToolOutcome:
        """A tool that fails in any way is an error result, so that the model can mend it."""
        if call.raw_args:
            return _refused(f"arguments must be one JSON object; got: {call.raw_args[:200]}")
        if self.tools.get(call.name) is None:
            return self._unknown(call)
        modified_by: tuple[str, ...] = ()
        if self.hooks is not None:
            said = await self.hooks.tool_call(call)
            if isinstance(said, Refused):
                which = "denied_by" if isinstance(said, Denied) else "refused_by"
                return replace(_refused(said.reason), details={which: said.by})
            if modified_by := said.by:
                call = ToolCall(id=call.id, name=call.name, args=said.args)
        # Not before: a decision may take until everything was loaded anew.
        if (tool := self.tools.get(call.name)) is None:
            return self._unknown(call)
        outcome = await self._run_tool(tool, call)
        if modified_by:
            outcome = replace(outcome, details={**outcome.details, "modified_by": [*modified_by]})
        return outcome

    def _unknown(self, call: ToolCall) -> ToolOutcome:
        there = ", ".join(self.tools.names()) or "none"
        return _refused(f"no tool is named {call.name!r}; there are: {there}")

    async def _run_tool(self, tool: Tool, call: ToolCall) -> ToolOutcome:
        try:
            with self.tools.running():
                return await tool.run(call, self._progress(call.id))
        except ToolFailed as failure:
            return _refused(str(failure))
        except Exception as bug:
            if none_left(bug):
                return _refused(f"{call.name} failed: no file can be opened any more; {MORE_DESCRIPTORS}")
            return _refused(f"{call.name} failed: {type(bug).__name__}: {bug}")

    def _progress(self, call_id: str) -> Callable[[str], None]:
        return lambda text: self._sink.publish(ToolProgress(id=call_id, text=text))

    def _resulted(self, call: ToolCall, outcome: ToolOutcome) -> ToolResulted:
        owner = self.tools.owner(call.name)
        whose = {"extension": owner} if owner else {}
        return ToolResulted(
            id=call.id,
            is_error=outcome.is_error,
            content=outcome.content,
            details={**whose, "tool": call.name, **outcome.details},
            message_id=self.transcript.last_id + 1,
        )


def _result(event: ToolResulted) -> ToolResult:
    """The block that the model gets of a result that clients are told."""
    return ToolResult(call_id=event.id, is_error=event.is_error, content=event.content)


def _refused(text: str) -> ToolOutcome:
    return ToolOutcome([Text(text)], is_error=True)
