"""The story of test_clients.py with the JSON-RPC client of pygls. Run with the path of a socket."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcRequestCancelled
from pygls.io_ import run_async

from zotd.protocol.events import EVENTS

HELLO = {
    "protocol_version": 1,
    "client": {"name": "pygls", "version": "1"},
    "capabilities": {"panels": True},
}


def plain(value: Any) -> Any:
    """What pygls made objects of, as JSON again."""
    if hasattr(value, "_asdict"):
        return {name: plain(member) for name, member in value._asdict().items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


class Connection:
    def __init__(self) -> None:
        self.client = JsonRPCClient()
        self.events: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    async def dial(self, path: str) -> Connection:
        """As `JsonRPCClient.start_tcp` does, but for the kind of socket."""
        reader, self.writer = await asyncio.open_unix_connection(path)
        self.client.protocol.set_writer(self.writer)
        self.reading = asyncio.create_task(
            run_async(
                stop_event=self.client._stop_event,
                reader=reader,
                protocol=self.client.protocol,
                logger=logging.getLogger("story"),
                error_handler=self.client.report_server_error,
            )
        )
        for name in EVENTS:  # it takes a notification only by its name
            self.listen(name)
        self.server = await self.call("initialize", HELLO)
        return self

    def listen(self, name: str) -> None:
        def take(params: Any) -> None:
            self.events.append({"type": name, **plain(params)})
            self._more.set()

        self.client.feature(name)(take)

    async def call(self, method: str, params: Any = None, msg_id: str | None = None) -> Any:
        return plain(await self.client.protocol.send_request_async(method, params, msg_id))

    async def event(self, kind: str, turn_id: str = "", nth: int = 1) -> Any:
        """The nth event of a type, of one turn if that is named, as soon as it is there."""
        while True:
            found = [e for e in self.events if e["type"] == kind and turn_id in ("", e.get("turn_id"))]
            if len(found) >= nth:
                return found[nth - 1]
            self._more.clear()
            await self._more.wait()

    def drop(self) -> None:
        self.reading.cancel()
        self.writer.transport.abort()


async def story(path: str) -> dict[str, Any]:
    first = await Connection().dial(path)
    session = (await first.call("session/new"))["session"]
    ref = {"session_id": session["session_id"]}

    greeting = await first.call("turn/start", {**ref, "text": "hello"})
    answer = await first.call("turn/wait", {**ref, "turn_id": greeting["turn_id"]})

    await first.call("turn/start", {**ref, "text": "/approve now"})
    panel = await first.event("ext_panel_open")
    key = {"extension": panel["extension"], "panel_id": panel["panel_id"], "key": "rune", "text": "y"}
    await first.call("panel/key", {**ref, **key})
    pressed = await first.event("ext_notify")

    turn_id = (await first.call("turn/start", {**ref, "text": "story"}))["turn_id"]
    waiting = asyncio.ensure_future(first.call("turn/wait", {**ref, "turn_id": turn_id}, "w-1"))
    await asyncio.sleep(0)
    first.client.protocol.notify("$/cancelRequest", {"id": "w-1"})
    try:
        cancelled = await waiting
    except JsonRpcRequestCancelled as error:
        cancelled = error.code
    await first.event("text_delta", turn_id, 3)
    first.drop()
    since = first.events[-1]["seq"]

    second = await Connection().dial(path)
    attached = await second.call("session/attach", {**ref, "epoch": session["epoch"], "since": since})
    await second.event("done")
    messages = (await second.call("session/messages", ref))["messages"]
    second.drop()
    return {
        "server": second.server,
        "session": session,
        "answer": answer,
        "pressed": pressed,
        "cancelled": cancelled,
        "since": since,
        "attached": attached,
        "told": messages[-1]["content"],
        "turn_id": turn_id,
        "before": first.events,
        "after": second.events,
    }


logging.basicConfig(level=logging.CRITICAL)
print(json.dumps(asyncio.run(story(sys.argv[1]))))
