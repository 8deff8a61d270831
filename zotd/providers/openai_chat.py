"""Owns the Chat Completions API, which most servers of models speak: requests out, a stream of chunks in."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from zotd.agent.ports import Finish, ModelRequest, ProviderError, ProviderEvent, Tool
from zotd.base.limits import Limits
from zotd.base.secret import Secret
from zotd.protocol.content import Block, Image, Message, StopReason, Text, ToolCall, ToolResult, Usage
from zotd.protocol.events import TextDelta, ThinkingDelta
from zotd.providers.chat_calls import StreamedCalls
from zotd.providers.http import Endpoint, Http, error_text
from zotd.wire.sse import SseEvent

_DONE: Final = "[DONE]"
_STOPS: Final[Mapping[str, StopReason]] = {
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "length",
}
_EFFORTS: Final = {"minimum": "minimal", "max": "xhigh", "maximum": "xhigh"}


class OpenAIChat:
    """A model behind a Chat Completions server.

    provider: the id it is known by, such as `ollama`. base_url: with or without a version segment.
    temperature: None leaves it to the server.
    """

    def __init__(
        self,
        provider: str,
        base_url: str,
        key: Secret | None,
        http: Http,
        limits: Limits,
        *,
        key_source: str = "",
        temperature: float | None = None,
    ) -> None:
        self.id = provider
        self._endpoint = Endpoint(chat_url(base_url), key, key_source)
        self._http = http
        self._limits = limits
        self._temperature = temperature

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """The answer as it arrives. Raises ProviderError, of kind `refused` when the answer is withheld."""
        import orjson

        answer = _Answer(request)
        body = orjson.dumps(request_body(request, self._temperature))
        async with aclosing(self._http.events(self._endpoint, body)) as events:
            async for event in events:
                if event.data == _DONE:
                    answer.reason = "stop"
                else:
                    for out in self._read(answer, event.data):
                        yield out
                if answer.reason:
                    await self._rest(events, answer, done=event.data == _DONE)
                    break
        for out in answer.calls.close():
            yield out
        yield Finish(answer.stop(), answer.usage)

    async def close(self) -> None:
        """Nothing is held: the client is shared."""

    async def _rest(self, events: AsyncGenerator[SseEvent, None], answer: _Answer, *, done: bool) -> None:
        """Read on for usage and for the end, so that the connection can be used again.

        Nothing that goes wrong here harms the answer, which is complete.
        """
        limits, clock = self._limits, asyncio.get_running_loop().time
        with contextlib.suppress(TimeoutError, ProviderError):
            async with asyncio.timeout(limits.stream_end_s if done else limits.usage_s) as bound:
                async for event in events:
                    if event.data == _DONE:
                        bound.reschedule(clock() + limits.stream_end_s)
                    else:
                        self._read(answer, event.data)

    def _read(self, answer: _Answer, data: str) -> list[ProviderEvent]:
        """What one chunk adds to the answer. Raises ProviderError for an error, or for no chunk at all."""
        import orjson

        where = self._endpoint.shown
        try:
            chunk = orjson.loads(data)
            if failure := chunk.get("error") or (chunk.get("object") == "error" and chunk):
                raise ProviderError(f"{where}: {self._endpoint.quoted(error_text(failure))}", quotes=True)
            return list(answer.read(chunk))
        except (ValueError, AttributeError, TypeError) as error:
            # Not quoted: it may hold words of the model that somebody has to approve first.
            raise ProviderError(
                f"{where}: expected a chunk of a chat completion in the stream, got {len(data)} characters "
                f"that are none ({type(error).__name__})"
            ) from error


class _Answer:
    """One answer while it streams."""

    def __init__(self, request: ModelRequest) -> None:
        taken = {
            block.id
            for message in request.messages
            for block in message.content
            if isinstance(block, ToolCall)
        }
        self.calls = StreamedCalls(taken)
        self.usage = Usage()
        self.reason = ""

    def read(self, chunk: Mapping[str, Any]) -> Iterator[ProviderEvent]:
        self.count(chunk)
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning_content") or delta.get("reasoning"):
                yield ThinkingDelta(delta=_words(thought))
            for key in ("content", "refusal"):
                if text := _words(delta.get(key)):
                    yield TextDelta(delta=text)
            for fragment in delta.get("tool_calls") or ():
                yield from self.calls.add(fragment)
            self.reason = choice.get("finish_reason") or self.reason

    def count(self, chunk: Mapping[str, Any]) -> None:
        """Take usage from wherever it comes: the last chunk, one without choices, or each one so far."""
        if isinstance(reported := chunk.get("usage"), dict):
            cached = _count((reported.get("prompt_tokens_details") or {}).get("cached_tokens"))
            prompt = _count(reported.get("prompt_tokens"))
            self.usage = Usage(
                input=max(prompt - cached, 0),
                output=_count(reported.get("completion_tokens")),
                cache_read=cached,
            )

    def stop(self) -> StopReason:
        if not self.reason:
            raise ProviderError("the stream ended without a stop: the answer is cut off")
        if self.reason == "content_filter":
            raise ProviderError("the model's server withheld the answer (content_filter)", kind="refused")
        return _STOPS.get(self.reason, "end_turn")


def chat_url(base_url: str) -> str:
    """Where to POST: `/chat/completions` under the base's version segment, or under `/v1` if it has none."""
    base = base_url.rstrip("/")
    versioned = re.search(r"/v\d+[a-z0-9]*$", base)
    return base + ("/chat/completions" if versioned else "/v1/chat/completions")


def request_body(request: ModelRequest, temperature: float | None = None) -> dict[str, Any]:
    """The JSON object to POST."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [
            *_system(request.system),
            *_in_turns(row for message in request.messages for row in _rows(message)),
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.reasoning:
        body["reasoning_effort"] = _EFFORTS.get(request.reasoning, request.reasoning)
    if temperature is not None:
        body["temperature"] = temperature
    return body


def _system(text: str) -> Iterator[dict[str, Any]]:
    if text:
        yield {"role": "system", "content": text}


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
    }


def _rows(message: Message) -> Iterator[dict[str, Any]]:
    """One message of ours as the rows of the API: each result is one, and pictures only go with the user."""
    if message.role == "assistant":
        yield from _assistant(message)
    elif message.role == "user":
        yield {"role": "user", "content": _content(message.content)}
    else:
        results = [block for block in message.content if isinstance(block, ToolResult)]
        for result in results:
            yield {"role": "tool", "tool_call_id": result.call_id, "content": _result_text(result)}
        if pictures := [block for result in results for block in result.content if isinstance(block, Image)]:
            yield {
                "role": "user",
                "content": _content([Text("Pictures from the tool results above:"), *pictures]),
            }


def _in_turns(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, those of the user that follow one another as one: many chat templates take no others."""
    joined: list[dict[str, Any]] = []
    for row in rows:
        if joined and row["role"] == joined[-1]["role"] == "user":
            joined[-1] = {"role": "user", "content": _together(joined[-1]["content"], row["content"])}
        else:
            joined.append(row)
    return joined


def _together(one: str | list[dict[str, Any]], other: str | list[dict[str, Any]]) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    return [
        part
        for content in (one, other)
        for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
    ]


def _assistant(message: Message) -> Iterator[dict[str, Any]]:
    import orjson

    calls = [
        {
            "id": call.id,
            "type": "function",
            # Servers that parse the arguments fail on broken ones; the error result quotes what was wrong.
            "function": {"name": call.name, "arguments": orjson.dumps(call.args).decode()},
        }
        for call in message.content
        if isinstance(call, ToolCall)
    ]
    row: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if calls:
        row["tool_calls"] = calls
    if calls or message.text:
        yield row


def _content(blocks: Sequence[Block]) -> str | list[dict[str, Any]]:
    """Plain text where there are no pictures: many servers take nothing else."""
    if not any(isinstance(block, Image) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, Text))
    return [part for block in blocks if (part := _part(block))]


def _part(block: Block) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
    return None


def _result_text(result: ToolResult) -> str:
    text = "\n".join(block.text for block in result.content if isinstance(block, Text))
    if result.is_error:
        return f"error: {text}"
    return text or ("see the picture below" if result.content else "(no output)")


def _words(value: object) -> str:
    """Text of a delta; a few servers send a list of parts instead."""
    if isinstance(value, list):
        return "".join(_words(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
