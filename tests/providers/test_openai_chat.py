"""The Chat Completions adapter against a real server on this machine."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from zotd.agent.ports import Finish, ModelRequest, ProviderError, ProviderEvent, ToolOutcome
from zotd.base.limits import Limits
from zotd.base.secret import Secret
from zotd.protocol.content import Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from zotd.protocol.events import TextDelta, ThinkingDelta, ToolUseArgs, ToolUseEnd, ToolUseStart
from zotd.providers.http import Http
from zotd.providers.openai_chat import OpenAIChat, chat_url

from .conftest import HANG, ModelServer, Prepared, event

QUICK = Limits(silence_s=0.3, connect_s=2, usage_s=0.2)
KEY = "sk-very-secret"


@dataclass
class Echo:
    name: str = "echo"
    description: str = "says it again"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"text": {"type": "string"}}}

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        return ToolOutcome([Text(str(call.args))])


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    client = Http(QUICK)
    yield client
    await client.close()


@pytest.fixture
def chat(http: Http, model_server: ModelServer) -> OpenAIChat:
    return OpenAIChat(
        "openai-compatible", model_server.url, Secret(KEY), http, QUICK, key_source="OPENAI_API_KEY"
    )


def user(*blocks: Text | Image) -> Message:
    return Message("user", list(blocks), "")


def asking(*messages: Message, **keys: Any) -> ModelRequest:
    given = {"system": "", "tools": (), **keys}
    return ModelRequest(model="m", messages=messages or (user(Text("hi")),), **given)


async def answer(chat: OpenAIChat, request: ModelRequest | None = None) -> list[ProviderEvent]:
    return [one async for one in chat.stream(request or asking())]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def calling(*fragments: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(fragments))


def fragment(
    arguments: object = "", name: str = "", call_id: str = "", index: int | None = None
) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": arguments, **({"name": name} if name else {})}
    out: dict[str, Any] = {"type": "function", "function": function}
    return out | ({"id": call_id} if call_id else {}) | ({"index": index} if index is not None else {})


def usage(prompt: int, completion: int, cached: int | None = None) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, **details}


def finish(events: list[ProviderEvent]) -> Finish:
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    return events[-1]


def calls(events: list[ProviderEvent]) -> list[tuple[str, str]]:
    """Name and arguments of each call. Fails unless ids differ and each has one start and one end."""
    starts = {event.id: event.name for event in events if isinstance(event, ToolUseStart)}
    ends = [event.id for event in events if isinstance(event, ToolUseEnd)]
    assert sorted(ends) == sorted(starts)
    assert len(starts) == sum(isinstance(event, ToolUseStart) for event in events)
    args = dict.fromkeys(starts, "")
    for one in events:
        if isinstance(one, ToolUseArgs):
            args[one.id] += one.delta
    return [(name, args[call_id]) for call_id, name in starts.items()]


async def test_text_thoughts_usage_and_stop_arrive_in_order(
    chat: OpenAIChat, model_server: ModelServer
) -> None:
    model_server.say(
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(content="Hel"),
        delta(content="lo"),
        delta("stop"),
        {"choices": [], "usage": usage(12, 3, cached=10)},
    )
    assert await answer(chat) == [
        ThinkingDelta(delta="hm"),
        TextDelta(delta="Hel"),
        TextDelta(delta="lo"),
        Finish("end_turn", Usage(input=2, output=3, cache_read=10)),
    ]


async def test_the_request_says_what_the_api_expects(chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say(delta("stop", content="x"))
    await answer(chat, asking(system="be brief", tools=(Echo(),), reasoning="max"))
    (request,) = model_server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    assert request["body"] == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "echo",
                    "description": "says it again",
                    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
                },
            }
        ],
        "reasoning_effort": "xhigh",
    }


async def test_temperature_is_sent_when_given(http: Http, model_server: ModelServer) -> None:
    model_server.say(delta("stop", content="x"))
    await answer(OpenAIChat("ollama", model_server.url, None, http, QUICK, temperature=0.0))
    assert model_server.requests[0]["body"]["temperature"] == 0.0
    assert "authorization" not in model_server.requests[0]["headers"]


async def test_what_the_user_says_at_once_is_one_row(chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say(delta("stop", content="x"))
    picture = Image("image/png", "aGk=")
    thought = Message("assistant", [Thinking("cut off")], "")
    await answer(chat, asking(user(Text("a summary")), user(Text("failed")), thought, user(Text("again"))))
    await answer(chat, asking(user(Text("look")), user(picture), user(Text("there"))))
    first, second = (
        [row["content"] for row in request["body"]["messages"]] for request in model_server.requests
    )
    assert first == ["a summary\n\nfailed\n\nagain"]
    assert [part.get("text") for part in second[0]] == ["look", None, "there"]
    assert len(second) == 1


async def test_a_conversation_becomes_rows_with_pictures_after_the_results(
    chat: OpenAIChat, model_server: ModelServer
) -> None:
    model_server.say(delta("stop", content="x"))
    picture = Image("image/png", "aGk=")
    await answer(
        chat,
        asking(
            user(Text("what is"), picture),
            Message(
                "assistant",
                [
                    Thinking("hm"),
                    Text("Look."),
                    ToolCall(id="a", name="read", args={"path": "é"}),
                    ToolCall(id="b", name="read", args={}, raw_args="{bad"),
                ],
                "",
            ),
            Message(
                "tool",
                [ToolResult("a", False, [Text("see"), picture]), ToolResult("b", True, [Text("no JSON")])],
                "",
            ),
            Message("assistant", [Thinking("only thoughts")], ""),
        ),
    )
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert model_server.requests[0]["body"]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "what is"}, part]},
        {
            "role": "assistant",
            "content": "Look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path":"é"}'}},
                {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "see"},
        {"role": "tool", "tool_call_id": "b", "content": "error: no JSON"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Pictures from the tool results above:"}, part],
        },
    ]


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(
            [fragment("", "a", "1", 0), fragment('{"x":', index=0), fragment("1}", index=0)],
            [("a", '{"x":1}')],
            id="one call in fragments",
        ),
        pytest.param(
            [
                fragment("{", "a", "1", 0),
                fragment("{", "b", "2", 1),
                fragment("}", index=0),
                fragment("}", index=1),
            ],
            [("a", "{}"), ("b", "{}")],
            id="interleaved by index",
        ),
        pytest.param(
            [fragment("{}", "a", "1", 0), fragment("{}", "b", "2", 0)],
            [("a", "{}"), ("b", "{}")],
            id="one index for all",
        ),
        pytest.param(
            [fragment("{}", "a", "1", 0), fragment("{}", "a", "1", 1)],
            [("a", "{}"), ("a", "{}")],
            id="one id for all",
        ),
        pytest.param(
            [fragment('{"x":1}', "a", "1", 0), fragment('{"x":2}', "a", "1", 0)],
            [("a", '{"x":1}'), ("a", '{"x":2}')],
            id="one index and one id for all",
        ),
        pytest.param(
            [fragment("{}", "a", "1"), fragment("{", "b", "2"), fragment("}", call_id="2")],
            [("a", "{}"), ("b", "{}")],
            id="no index",
        ),
        pytest.param(
            [fragment("{}", "a"), fragment("{", "a"), fragment("}")],
            [("a", "{}"), ("a", "{}")],
            id="neither index nor id",
        ),
        pytest.param(
            [fragment("{", "a", "1", 0), fragment("}", "a", "1", 0), fragment("", "a", "1", 0)],
            [("a", "{}")],
            id="name and id repeated with every fragment",
        ),
        pytest.param([fragment({"x": 1}, "a", "1", 0)], [("a", '{"x":1}')], id="arguments as an object"),
        pytest.param([fragment(None, "a", "1", 0)], [("a", "")], id="no arguments"),
        pytest.param(
            [fragment("{", index=0), fragment("}", "a", "1", 0)], [("a", "{}")], id="name comes late"
        ),
    ],
)
@pytest.mark.parametrize("together", [False, True])
async def test_calls_are_put_together_whatever_the_server_leaves_out(
    chat: OpenAIChat,
    model_server: ModelServer,
    fragments: list[dict[str, Any]],
    expected: list[tuple[str, str]],
    together: bool,
) -> None:
    chunks = [calling(*fragments)] if together else [calling(one) for one in fragments]
    model_server.say(*chunks, delta("tool_calls"))
    events = await answer(chat)
    assert calls(events) == expected
    assert finish(events).stop == "tool_use"


async def test_an_id_that_an_earlier_message_used_is_replaced(
    chat: OpenAIChat, model_server: ModelServer
) -> None:
    model_server.say(calling(fragment("{}", "a", "call_0", 0)), delta("tool_calls"))
    earlier = Message("assistant", [ToolCall(id="call_0", name="a", args={})], "")
    events = await answer(chat, asking(user(Text("x")), earlier))
    assert [event.id for event in events if isinstance(event, ToolUseStart)] != ["call_0"]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "end_turn"), ("length", "length"), ("tool_calls", "tool_use"), ("function_call", "tool_use")],
)
async def test_reasons_to_stop_are_translated(
    chat: OpenAIChat, model_server: ModelServer, reason: str, stop: str
) -> None:
    model_server.say(delta(content="x"), delta(reason))
    assert finish(await answer(chat)).stop == stop


async def test_a_withheld_answer_is_an_error_of_its_own_kind(
    chat: OpenAIChat, model_server: ModelServer
) -> None:
    model_server.say(delta("content_filter"))
    with pytest.raises(ProviderError, match="withheld") as caught:
        await answer(chat)
    assert caught.value.kind == "refused"


async def test_missing_usage_counts_as_nothing(chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say({**delta("stop", content="x"), "usage": None})
    assert finish(await answer(chat)).usage == Usage()


async def test_usage_with_every_chunk_counts_once(chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say({**delta(content="x"), "usage": usage(5, 1)}, {**delta("stop"), "usage": usage(5, 2)})
    assert finish(await answer(chat)).usage == Usage(input=5, output=2)


@pytest.mark.parametrize("after", [HANG, b"data: {bad\n\n", {"error": {"message": "late"}}])
async def test_what_goes_wrong_after_the_stop_harms_nothing(
    chat: OpenAIChat, model_server: ModelServer, after: object
) -> None:
    model_server.say(delta("stop", content="whole"), after, done=False)
    events = await answer(chat)
    assert events[0] == TextDelta(delta="whole")
    assert finish(events).stop == "end_turn"


async def test_comments_keep_alives_split_characters_and_line_ends_change_nothing(
    chat: OpenAIChat, model_server: ModelServer
) -> None:
    whole = b": ping\n\n" + event(delta(content="h\u00e9\u2028\U0001f600")).replace(b"\n", b"\r\n")
    whole += b":\n\nid: 5\nretry: 10\n" + event(delta("stop")) + b"data:[DONE]\n\n"
    model_server.answers = [Prepared([bytes([byte]) for byte in whole])]
    assert await answer(chat) == [TextDelta(delta="h\u00e9\u2028\U0001f600"), Finish("end_turn", Usage())]


async def test_a_compressed_stream_is_read(chat: OpenAIChat, model_server: ModelServer) -> None:
    packed = gzip.compress(event(delta(content="small")) + event(delta("stop")) + b"data: [DONE]\n\n")
    headers = ["content-type: text/event-stream", "content-encoding: gzip"]
    model_server.answers = [Prepared([packed[:20], packed[20:]], headers=headers)]
    assert (await answer(chat))[0] == TextDelta(delta="small")


async def test_done_without_a_reason_is_an_end(chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say(delta(content="x"))
    assert finish(await answer(chat)).stop == "end_turn"


@pytest.mark.parametrize("whole", [True, False])
async def test_a_stream_without_a_stop_is_an_error_after_its_text(
    chat: OpenAIChat, model_server: ModelServer, whole: bool
) -> None:
    model_server.answers = [Prepared([event(delta(content="half"))], whole=whole)]
    seen: list[ProviderEvent] = []
    with pytest.raises(ProviderError, match=r"cut off|before the answer was complete"):
        async for one in chat.stream(asking()):
            seen.append(one)  # noqa: PERF401 - what came before the error is the point
    assert seen == [TextDelta(delta="half")]


async def test_silence_ends_the_wait(chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say(delta(content="x"), HANG, done=False)
    with pytest.raises(ProviderError, match=r"silent for 0\.3 s"):
        await answer(chat)


@pytest.mark.parametrize(
    "failure",
    [
        {"error": {"message": "engine on fire", "type": "server_error"}},
        {"error": "engine on fire"},
        {"object": "error", "message": "engine on fire"},
    ],
)
async def test_an_error_in_mid_stream_is_told(
    chat: OpenAIChat, model_server: ModelServer, failure: dict[str, Any]
) -> None:
    model_server.say(delta(content="x"), failure)
    with pytest.raises(ProviderError, match="engine on fire"):
        await answer(chat)


@pytest.mark.parametrize(
    "chunk", [b"data: {secret\n\n", b'data: ["secret"]\n\n', b'data: {"choices": ["secret"]}\n\n']
)
async def test_what_is_no_chunk_is_told_without_its_words_which_nobody_approved(
    chat: OpenAIChat, model_server: ModelServer, chunk: bytes
) -> None:
    model_server.say(chunk)
    with pytest.raises(ProviderError, match="expected a chunk of a chat completion") as caught:
        await answer(chat)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (
            401,
            {"error": {"message": f"bad key {KEY}"}},
            "provider_auth",
            r"OPENAI_API_KEY was refused \(401\): bad key \*",
        ),
        (403, "<html>no</html>", "provider_auth", "<html>no</html>"),
        (404, {"error": "no such model"}, "provider_error", r"no such model \(404\)"),
        (429, {"message": "slow down"}, "provider_error", r"slow down \(429\)"),
        (529, {"detail": [{"msg": "overloaded"}]}, "provider_error", r"overloaded \(529\)"),
        (500, "", "provider_error", r"no reason given \(500\)"),
        (
            200,
            {"error": {"message": "not streamed"}},
            "provider_error",
            "expected a stream of events.*not streamed",
        ),
    ],
)
async def test_a_refusal_says_who_why_and_what_to_do(
    chat: OpenAIChat, model_server: ModelServer, status: int, body: object, kind: str, message: str
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    pieces: list[bytes | object] = [text.encode()] if text else []
    model_server.answers = [Prepared(pieces, f"{status} X", ["content-type: application/json"])]
    with pytest.raises(ProviderError, match=message) as caught:
        await answer(chat)
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert KEY not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "said", ["planted-key-12345", "planted-key-1234567890abc", "cGxhbnRlZC1rZXktMTIzNDU2Nzg5MGFiYw"]
)
async def test_a_server_that_quotes_the_key_cut_off_or_in_base64_is_not_quoted_there(
    http: Http, model_server: ModelServer, said: str
) -> None:
    model_server.answers = [Prepared([f"no: {said}, {said}!".encode()], "401 X")]
    key = Secret("planted-key-1234567890abc")
    with pytest.raises(ProviderError, match=r"no: \*\*\*\w?, \*\*\*\w?!") as caught:
        await answer(OpenAIChat("x", model_server.url, key, http, QUICK))
    assert said not in str(caught.value)


async def test_a_server_that_speaks_no_http_is_not_quoted_with_the_key_either(http: Http) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 planted-key-1234567890abc x\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        chat = OpenAIChat("x", f"http://127.0.0.1:{port}", Secret("planted-key-1234567890abc"), http, QUICK)
        with pytest.raises(ProviderError, match="illegal status line") as caught:
            await answer(chat)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["http://user:planted@127.0.0.1:1/v1", "http://127.0.0.1:1/v1?key=planted"]
)
async def test_an_address_that_holds_a_password_is_named_without_it(http: Http, address: str) -> None:
    with pytest.raises(ProviderError, match=r"^http://127\.0\.0\.1:1/v1.*cannot connect") as caught:
        await answer(OpenAIChat("x", address, None, http, QUICK))
    assert "planted" not in str(caught.value)


async def test_nobody_listening_names_the_address_and_what_to_do(http: Http) -> None:
    listener = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    with pytest.raises(ProviderError, match=rf"http://127\.0\.0\.1:{port}/v1.*cannot connect") as caught:
        await answer(OpenAIChat("ollama", f"http://127.0.0.1:{port}", None, http, QUICK))
    assert "--base-url" in caught.value.hint


async def test_a_key_with_a_line_break_is_refused_without_showing_it(
    http: Http, model_server: ModelServer
) -> None:
    chat = OpenAIChat("x", model_server.url, Secret("sk-a\nsk-b"), http, QUICK, key_source="--api-key")
    with pytest.raises(ProviderError, match="key from --api-key holds characters") as caught:
        await answer(chat)
    assert "sk-a" not in str(caught.value)


async def test_an_abort_lets_the_server_know_at_once(chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say(delta(content="x"), HANG, done=False)
    stream = chat.stream(asking())
    assert await anext(stream) == TextDelta(delta="x")
    await stream.aclose()
    async with asyncio.timeout(2):
        await model_server.gone.wait()


@pytest.fixture
def far_chat(http: Http, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIChat:
    """The same server by an address that does not look like this machine's, so that connections are kept."""
    monkeypatch.setenv("NO_PROXY", "*")
    return OpenAIChat("x", f"http://0.0.0.0:{model_server.port}", None, http, QUICK)


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("ALL_PROXY", "socks5://me:planted@127.0.0.1:1", "the proxy that the environment names"),
        ("HTTP_PROXY", "ipx://me:planted@127.0.0.1:1", "the proxy that the environment names"),
        ("HTTP_PROXY", "http://me:planted@127.0.0.1:x", "the proxy that the environment names"),
        ("SSL_CERT_FILE", __file__, "the certificates that the environment names"),
        ("SSL_CERT_FILE", "/nonexistent/planted", "the certificates that the environment names"),
    ],
)
async def test_an_environment_that_no_connection_can_be_made_with_is_told_as_that(
    http: Http, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ProviderError, match=why) as caught:
        await answer(OpenAIChat("x", "http://0.0.0.0:1", None, http, QUICK))
    assert variable in caught.value.hint
    assert "planted" not in str(caught.value)


async def test_one_connection_serves_many_requests(far_chat: OpenAIChat, model_server: ModelServer) -> None:
    model_server.say(delta("stop", content="x"))
    for _ in range(3):
        await answer(far_chat)
    assert model_server.connections == 1


async def test_a_kept_connection_that_died_is_replaced(
    far_chat: OpenAIChat, model_server: ModelServer
) -> None:
    model_server.say(delta("stop", content="x"))
    model_server.drop_after = lambda served: served == 1
    for _ in range(2):
        assert finish(await answer(far_chat)).stop == "end_turn"
    assert model_server.connections == 2


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("https://x.y/v1", "https://x.y/v1/chat/completions"),
        ("https://x.y/v1/", "https://x.y/v1/chat/completions"),
        ("https://x.y/api/v3", "https://x.y/api/v3/chat/completions"),
        ("https://x.y/v1beta", "https://x.y/v1beta/chat/completions"),
        ("https://x.y", "https://x.y/v1/chat/completions"),
        ("https://x.y/openai", "https://x.y/openai/v1/chat/completions"),
        ("https://x.y/vision", "https://x.y/vision/v1/chat/completions"),
    ],
)
def test_the_version_segment_is_added_where_it_is_missing(base: str, expected: str) -> None:
    assert chat_url(base) == expected
