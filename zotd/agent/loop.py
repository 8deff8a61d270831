"""Owns a turn: prompt -> model -> tools -> model ... until the model stops, a limit or an abort.

Events leave in the order existing clients know: user_message, then for each step turn_start,
assistant_start, deltas, usage, assistant_message, every tool_call, turn_end, then tool_progress and
tool_result of each tool; one done at the end, whatever happened.

Hooks have their say in between: after turn_start, before a tool runs, and about a message's text. Where that
text is theirs to approve, neither it nor any thought is shown before: one text_delta has it, ahead of usage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol

from zotd.agent.batch import Batch
from zotd.agent.ports import (
    Finish,
    Hooks,
    ModelRequest,
    NotKept,
    Provider,
    ProviderError,
    Refused,
)
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Draft, Transcript, shown
from zotd.base.limits import Limits
from zotd.protocol.content import (
    Block,
    ContextUse,
    Message,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from zotd.protocol.events import (
    AssistantMessage,
    AssistantStart,
    Done,
    ErrorEvent,
    Event,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)

if TYPE_CHECKING:
    from zotd.agent.compaction import Compaction


_AT_ONCE = 256
"""Events of a model that never has to be waited for, before everything else has its turn."""


class Sink(Protocol):
    """Where events go. `full` says that a reader is behind: the loop then waits, bounded by the sink."""

    @property
    def full(self) -> bool: ...
    def publish(self, event: Event) -> None: ...
    async def drained(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Model:
    """Who answers. `window` is in tokens, 0 when unknown."""

    provider: Provider
    id: str
    system: str = ""
    reasoning: str = ""
    window: int = 0
    tools: bool = True


class Steering(Protocol):
    """A prompt that the running turn takes in before its next model call.

    id: of the turn that it is to the client. client: who sent it. key: the client's own name for it, ""
    without one.
    """

    @property
    def id(self) -> str: ...
    @property
    def content(self) -> Sequence[Block]: ...
    @property
    def client(self) -> str: ...
    @property
    def key(self) -> str: ...


@dataclass(slots=True)
class Outcome:
    """How a turn ended. `text` is the last assistant text, as it was shown.

    kind: the stable word of an error; `turn_blocked` when a hook refused a step.
    """

    stop: StopReason
    text: str = ""
    error: str | None = None
    kind: str = ""
    hint: str = ""
    usage: Usage = field(default_factory=Usage)


class Loop:
    """Runs turns against one transcript, one at a time. `hooks` may stop or change what it is about to do.

    another_model: asked before each call, for the model to go on with; None for the one of the turn.
    """

    def __init__(
        self,
        transcript: Transcript,
        tools: Toolbox,
        sink: Sink,
        max_steps: int,
        limits: Limits | None = None,
    ) -> None:
        self.transcript = transcript
        self.tools = tools
        self.hooks: Hooks | None = None
        self.steered: Callable[[], Iterable[Steering]] = tuple
        self.another_model: Callable[[], Model | None] = lambda: None
        self._sink = sink
        self._max_steps = max_steps
        self._limits = limits or Limits()

    async def run(
        self, turn_id: str, prompt: Sequence[Block], model: Model, origin: str = "client", key: str = ""
    ) -> Outcome:
        """One turn. Cancelling the task that awaits this aborts it: nothing is raised.

        key: the client's own name for the prompt, kept with its row.
        """
        spent = self.transcript.usage
        outcome = Outcome("end_turn")
        self.transcript.turn_id = turn_id
        try:
            await self._steps(model, outcome, self._ask(prompt, origin, key))
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            outcome.stop = "aborted"
            self._sink.publish(TurnEnd(stop="aborted"))
        except (ProviderError, NotKept) as failure:
            self._fail(outcome, str(failure), failure.kind, failure.hint)
        except Exception as bug:
            self._fail(outcome, f"internal error: {type(bug).__name__}: {bug}", "internal")
        outcome.text = outcome.text or self._last_words()
        outcome.usage = self.transcript.usage - spent
        self._sink.publish(Done(turn_id=turn_id, stop=outcome.stop))
        return outcome

    def aborted(
        self, turn_id: str, prompt: Sequence[Block], origin: str = "client", key: str = ""
    ) -> Outcome:
        """The turn of a `run` that was cancelled before it could begin: told as any aborted turn is."""
        self.transcript.turn_id = turn_id
        with suppress(NotKept):  # the next turn will say so, if it still is so then
            self._ask(prompt, origin, key)
        self._sink.publish(TurnEnd(stop="aborted"))
        self._sink.publish(Done(turn_id=turn_id, stop="aborted"))
        return Outcome("aborted")

    async def compact(self, turn_id: str, model: Model, instructions: str = "") -> Outcome:
        """A turn without a prompt, which has the older part of the conversation summarised.

        `text` of the outcome is the summary. Cancelling the task that awaits this aborts it: nothing is
        raised, and the conversation stays as it was.
        """
        return await self._compaction(model).on_request(turn_id, instructions)

    def _compaction(self, model: Model) -> Compaction:
        from zotd.agent.compaction import Compaction

        return Compaction(self.transcript, model, self._sink, self._account, self._limits)

    def _ask(self, prompt: Sequence[Block], origin: str, key: str = "", steered: str = "") -> Message:
        """A prompt enters the conversation. steered: its own id, where it is part of another turn."""
        named = {"key": key, **({"steered": steered} if steered else {})} if key else None
        message = self.transcript.append("user", prompt, meta=named)
        self._sink.publish(
            UserMessage(content=message.content, origin=origin, message_id=self.transcript.last_id)
        )
        return message

    async def _steps(self, model: Model, outcome: Outcome, asked: Message) -> None:
        enough = self._limits.compact_at * model.window  # tokens, from which on there is to be a summary
        for step in count(1):
            if (another := self.another_model() or model) is not model:
                model, enough = another, self._limits.compact_at * another.window
            if step > self._max_steps:
                raise ProviderError(
                    f"stopped after {self._max_steps} steps: the model kept calling tools",
                    kind="limit_steps",
                    hint="raise --max-steps, or ask for less at once",
                )
            if 0 < enough <= self.transcript.used and not await self._compaction(model).make_room(asked):
                enough = 0
            for steering in self.steered() if step > 1 else ():
                self._ask(steering.content, steering.client, steering.key, steering.id)
            self._sink.publish(TurnStart(step=step))
            if self.hooks is not None and isinstance(said := await self.hooks.turn_start(step), Refused):
                outcome.stop, outcome.error, outcome.kind = "error", said.reason, "turn_blocked"
                self._sink.publish(TurnEnd(stop="error", error=said.reason))
                return
            stop, blocks = await self._step(model)
            outcome.stop = stop
            outcome.text = "".join(block.text for block in blocks if isinstance(block, Text))
            calls = [block for block in blocks if isinstance(block, ToolCall)]
            self._sink.publish(TurnEnd(stop=stop))
            if calls:
                batch = Batch(self.transcript, self.tools, self._sink, self.hooks)
                await batch.run(calls if stop == "tool_use" else [], calls)
            if stop != "tool_use":
                return

    async def _step(self, model: Model) -> tuple[StopReason, list[Block]]:
        """One call of the model, from assistant_start to the tool_call events: what was shown of it."""
        sink = self._sink
        withheld = self.hooks.withholding() if self.hooks is not None else []
        sink.publish(AssistantStart(withheld_by=withheld or None))
        draft, finish = Draft(), None
        request = ModelRequest(
            model=model.id,
            system=model.system,
            messages=self.transcript.rows(),
            tools=self.tools.offered() if model.tools else (),
            reasoning=model.reasoning,
        )
        try:
            async with aclosing(model.provider.stream(request)) as stream:
                told = 0
                async for event in stream:
                    if isinstance(event, Finish):
                        finish = event
                        continue
                    draft.add(event)
                    if not (withheld and isinstance(event, TextDelta | ThinkingDelta)):
                        sink.publish(event)
                    told += 1
                    if sink.full:
                        await sink.drained()
                    elif told % _AT_ONCE == 0:
                        await asyncio.sleep(0)
            if finish is None:
                raise ProviderError("the model's stream ended without saying why: the answer may be cut off")
        except BaseException as failure:
            self._cut_off(draft, withheld)
            if withheld and isinstance(failure, ProviderError) and failure.quotes:
                raise _unquoted(failure, withheld) from None
            raise
        approved = None
        try:
            if withheld:
                approved = await self._approved(draft.text())
        except BaseException:
            self._cut_off(draft, withheld)
            raise
        finally:
            self._spent(finish.usage, model, draft)
        blocks = draft.blocks()
        if blocks:
            try:
                blocks = self._say(blocks, approved)
            except NotKept:
                self._unrun(blocks)
                raise
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        for call in calls:
            sink.publish(ToolCalled(id=call.id, name=call.name, args=call.args))
        return ("tool_use" if calls and finish.stop == "end_turn" else _settled(finish.stop, calls)), blocks

    def _last_words(self) -> str:
        """What was shown last of the model's words in this turn, for one that did not come to its end."""
        last = shown(self.transcript.messages[-1])
        return last.text if last.role == "assistant" else ""

    def _say(self, blocks: list[Block], approved: str | None) -> list[Block]:
        """Keep a message, and show what may be seen of it, which is returned."""
        visible = shown(self.transcript.append("assistant", blocks, shown=approved)).content
        self._sink.publish(AssistantMessage(content=visible, message_id=self.transcript.last_id))
        return visible

    def _unrun(self, blocks: Sequence[Block]) -> None:
        """The turn ends before the calls of its last message run, and before anybody is told of them."""
        if calls := [block for block in blocks if isinstance(block, ToolCall)]:
            why = Text("not run: the conversation cannot be written down")
            results = [ToolResult(call.id, is_error=True, content=[why]) for call in calls]
            with suppress(NotKept):
                self.transcript.append("tool", results)

    def _cut_off(self, draft: Draft, withheld: Sequence[str]) -> None:
        """Keep what the model said before it was cut off; words that nobody approved are not shown.

        They are not judged either: half a secret passes where the whole one would be found.
        """
        if spoken := draft.spoken():
            if withheld:
                self.transcript.append("assistant", spoken, shown="")
            else:
                self._say(spoken, None)

    async def _approved(self, text: str) -> str:
        """What may be shown in place of a text that was withheld; it is shown, in one piece."""
        if not text or self.hooks is None:
            return ""
        said = await self.hooks.assistant_message(text)
        approved = "" if isinstance(said, Refused) else said.text
        if approved:
            self._sink.publish(TextDelta(delta=approved))
        return approved

    def _spent(self, usage: Usage, model: Model, draft: Draft) -> None:
        """The model was paid for a message that is whole. Where that cannot be written, its words stay.

        They were not shown whole, and are not shown later either.
        """
        self.transcript.used = usage.tokens
        try:
            self._account(usage, ContextUse(self.transcript.used, model.window))
        except NotKept:
            kept = self.transcript.messages[-1].role == "assistant"
            with suppress(NotKept):
                if not kept and (spoken := draft.spoken()):
                    self.transcript.append("assistant", spoken, shown="")
            raise

    def _account(self, usage: Usage, context: ContextUse) -> None:
        self.transcript.account(usage)
        self._sink.publish(
            UsageReport(
                input=usage.input,
                output=usage.output,
                cache_read=usage.cache_read,
                cache_write=usage.cache_write,
                cost_usd=usage.cost_usd,
                cumulative=self.transcript.usage,
                context=context,
            )
        )

    def _fail(self, outcome: Outcome, message: str, kind: str, hint: str = "") -> None:
        outcome.stop, outcome.error, outcome.kind, outcome.hint = "error", message, kind, hint
        self._sink.publish(TurnEnd(stop="error", error=message))
        self._sink.publish(ErrorEvent(message=message, kind=kind))


def _unquoted(failure: ProviderError, withheld: Sequence[str]) -> ProviderError:
    """The same failure without words that somebody would have had to approve first."""
    message = (
        f"the answer was cut off by an error of the provider, withheld with it for {', '.join(withheld)}"
    )
    return ProviderError(message, kind=failure.kind, hint=failure.hint, status=failure.status)


def _settled(stop: StopReason, calls: Sequence[ToolCall]) -> StopReason:
    """Models that announce a tool call and make none have simply ended."""
    return "end_turn" if stop == "tool_use" and not calls else stop
