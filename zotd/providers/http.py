"""Owns the HTTP client that all adapters share, and says what its failures mean to a person."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zotd.agent.ports import ProviderError
from zotd.base.limits import Limits
from zotd.base.redact import MASK, bare_url, redact
from zotd.base.secret import Secret
from zotd.wire.sse import SseDecoder, SseEvent, SseTooLarge

if TYPE_CHECKING:
    import httpx2

_ERROR_BYTES = 65_536  # of an error's body: its message is at the start
_SHOWN_CHARS = 500  # of that message, in ours
_TELLING_CHARS = 12  # of a key's beginning, from which on it says too much of it
_AUTH = (401, 403)
_LOOPBACK = re.compile(r"http://(localhost|127\.[\d.]+|\[::1\])([:/]|$)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a request goes, and the key that opens it.

    key_source: where the key came from, such as `--api-key`; it is named when the key is refused.
    """

    url: str
    key: Secret | None = None
    key_source: str = ""

    @property
    def shown(self) -> str:
        """The address for messages, which are kept and sent on: without passwords and keys in it."""
        return bare_url(self.url)

    def headers(self) -> dict[str, str]:
        """What carries the key. Raises ProviderError for a key that no header can carry."""
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if self.key:
            text = self.key.reveal().strip()
            if not (text.isascii() and text.isprintable()):
                raise ProviderError(
                    f"the key from {self.key_source} holds characters that no key has",
                    kind="provider_auth",
                    hint="copy it again, without line breaks",
                )
            headers["authorization"] = f"Bearer {text}"
        return headers

    def quoted(self, text: str) -> str:
        """What a server said, cut short; without the key, which some quote when they refuse it."""
        if self.key and (key := self.key.reveal().strip()):
            text = _without(text, key)
        # Cut last: half a key would not be known as one.
        return redact(text[: 2 * _ERROR_BYTES])[:_SHOWN_CHARS]


def _without(text: str, key: str) -> str:
    """A text without a key, whole or cut off somewhere behind its beginning."""
    text = text.replace(key, MASK)
    head = key[:_TELLING_CHARS]
    while len(key) > _TELLING_CHARS and (at := text.find(head)) >= 0:
        end = next(
            (n for n, (said, meant) in enumerate(zip(text[at:], key, strict=False)) if said != meant),
            len(text) - at,
        )
        text = text[:at] + MASK + text[at + end :]
    return text


class Http:
    """Streams answers. A client costs 26 ms to make, so there is one for all requests of a process.

    insecure: do not check certificates (`--insecure`). Proxies come from the environment, but plain HTTP to
    this machine goes straight.
    """

    def __init__(self, limits: Limits, *, insecure: bool = False) -> None:
        self._limits = limits
        self._insecure = insecure
        self._clients: dict[bool, httpx2.AsyncClient] = {}

    async def events(self, endpoint: Endpoint, body: bytes) -> AsyncGenerator[SseEvent, None]:
        """POST `body`, JSON, and yield the events of the answer until it ends.

        Raises ProviderError when the server cannot be reached, refuses, falls silent or is cut off.
        """
        import httpx2

        try:
            async with aclosing(self._attempts(endpoint, body)) as responses:
                async for response in responses:
                    if response.status_code != 200 or _is_json(response):
                        raise _refused(endpoint, response.status_code, await _start(response))
                    async with aclosing(self._decoded(response)) as events:
                        async for event in events:
                            yield event
        except httpx2.HTTPError as error:
            raise self._explained(endpoint, error) from error
        except (httpx2.InvalidURL, httpx2.StreamError, UnicodeError) as error:
            raise ProviderError(f"{endpoint.shown}: {endpoint.quoted(str(error))}") from error

    async def close(self) -> None:
        """Close every connection. A later request opens new ones."""
        clients = tuple(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    async def _attempts(self, endpoint: Endpoint, body: bytes) -> AsyncGenerator[httpx2.Response, None]:
        """The response, open until the generator is closed; asked for again where a kept connection was dead.

        Servers close idle connections when they like, and the race shows only once the request is sent.
        """
        import httpx2

        near = _LOOPBACK.match(endpoint.url) is not None
        headers = endpoint.headers()
        if near:
            headers["connection"] = "close"  # a new one costs nothing, and small servers drop idle ones
        client = self._client(trust_env=not near)
        request = client.build_request("POST", endpoint.url, content=body, headers=headers)
        try:
            response = await client.send(request, stream=True)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if near:
                raise
            response = await client.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    async def _decoded(self, response: httpx2.Response) -> AsyncGenerator[SseEvent, None]:
        decoder = SseDecoder(self._limits.frame_bytes)
        async for chunk in response.aiter_bytes():
            try:
                events = decoder.feed(chunk)
            except SseTooLarge as error:
                raise ProviderError(str(error)) from error
            for event in events:
                yield event

    def _client(self, trust_env: bool) -> httpx2.AsyncClient:
        import httpx2

        if (client := self._clients.get(trust_env)) is None:
            limits = self._limits
            try:
                client = httpx2.AsyncClient(
                    verify=not self._insecure,
                    trust_env=trust_env,
                    timeout=httpx2.Timeout(limits.silence_s, connect=limits.connect_s, pool=limits.connect_s),
                    limits=httpx2.Limits(max_connections=None),
                )
            except OSError as error:
                raise ProviderError(
                    f"the certificates that the environment names cannot be read: {error.strerror or error}",
                    hint="look at SSL_CERT_FILE and SSL_CERT_DIR, or unset them",
                ) from error
            except (ImportError, ValueError, httpx2.InvalidURL) as error:  # not of what we give
                raise ProviderError(
                    "the proxy that the environment names cannot be used",
                    hint="give HTTP_PROXY, HTTPS_PROXY and ALL_PROXY as http://HOST:PORT, or unset them",
                ) from error
            self._clients[trust_env] = client
        return client

    def _explained(self, endpoint: Endpoint, error: httpx2.HTTPError) -> ProviderError:
        import httpx2

        url, said = endpoint.shown, endpoint.quoted(str(error))
        match error:
            case httpx2.ConnectTimeout():
                return ProviderError(
                    f"{url}: no connection within {self._limits.connect_s:g} s",
                    hint="check the network, proxy variables and the base URL",
                )
            case httpx2.TimeoutException():
                return ProviderError(
                    f"{url}: silent for {self._limits.silence_s:g} s; the answer was given up"
                )
            case httpx2.ConnectError() if "CERTIFICATE" in str(error).upper():
                return ProviderError(
                    f"{url}: its certificate was not accepted: {said}",
                    hint="set SSL_CERT_FILE to your company's CA, or use --insecure on a network you trust",
                )
            case httpx2.ConnectError():
                return ProviderError(
                    f"{url}: cannot connect: {said}",
                    hint="check that the server runs and that --base-url is right",
                )
            case httpx2.ProtocolError() | httpx2.NetworkError():
                return ProviderError(f"{url}: the connection broke before the answer was complete: {said}")
            case _:
                return ProviderError(f"{url}: {said or type(error).__name__}")


def message_of(body: bytes) -> str:
    """What an error body says: the `error.message` or `message` of JSON, else its text."""
    import orjson

    try:
        value = orjson.loads(body)
    except ValueError:
        return " ".join(body.decode("utf-8", "replace").split())
    return error_text(value)


def error_text(value: object) -> str:
    """The same of a parsed value: providers agree on neither the shape nor the names."""
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "msg"):
            if value.get(key):
                return error_text(value[key])
    if isinstance(value, list) and value:
        return error_text(value[0])
    return str(value)


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("application/json")


async def _start(response: httpx2.Response) -> bytes:
    """The first of a body that may have no end."""
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= _ERROR_BYTES:
            break
    return body


def _refused(endpoint: Endpoint, status: int, body: bytes) -> ProviderError:
    said = endpoint.quoted(message_of(body)) or "no reason given"
    if status == 200:
        return ProviderError(
            f"{endpoint.shown}: expected a stream of events, got JSON: {said}", status=status
        )
    if status in _AUTH:
        where = (
            f"the key from {endpoint.key_source} was refused" if endpoint.key_source else "a key is needed"
        )
        hint = (
            f"check {endpoint.key_source}" if endpoint.key_source else "set OPENAI_API_KEY or give --api-key"
        )
        return ProviderError(
            f"{endpoint.shown}: {where} ({status}): {said}", kind="provider_auth", hint=hint, status=status
        )
    return ProviderError(f"{endpoint.shown}: {said} ({status})", hint=_hint(status), status=status)


def _hint(status: int) -> str:
    if status == 404:
        return "check --model and --base-url"
    if status == 429:
        return "too many requests, or no credit left: wait, or look at the account"
    return "try again later" if status >= 500 else ""
