"""What the model gets of that which goes with a prompt, and what is refused of it."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Any

from tests.clients import Machine

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
HEAD = "Context from the user's editor:"


def place(line: int, character: int = 0) -> dict[str, int]:
    return {"line": line, "character": character}


def span(start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    return {"start": place(*start), "end": place(*end)}


def test_context_is_one_text_after_the_prompt(machine: Machine) -> None:
    client = machine.rpc().greet()
    session = client.session()

    def shown(*items: dict[str, Any]) -> str:
        """What the model is given beside the prompt."""
        client.call("turn/start", session_id=session, text="why?", context=[*items])
        prompt, context = client.event("user_message")["content"]
        assert prompt == {"type": "text", "text": "why?"}
        client.event("done")
        text: str = context["text"]
        assert text.startswith(HEAD + "\n\n")
        return text.removeprefix(HEAD + "\n\n")

    (machine.cwd / "a.py").write_bytes("\ufeffa = 1\r\nb = '😀é' + c\nlast".encode())
    a = {"path": "a.py"}
    assert shown({"type": "file", **a}) == "File a.py"
    assert shown({"type": "file", **a, "text": "x = 1\n"}) == (
        "File a.py, as it is in the editor:\n```\nx = 1\n```"
    )
    assert shown({"type": "file", "path": "b", "text": "````"}).splitlines()[1:] == ["`````", "````", "`````"]

    def part(start: tuple[int, int], end: tuple[int, int], **more: Any) -> str:
        return shown({"type": "range", **a, **span(start, end), **more})

    assert part((0, 0), (1, 0)) == "Lines a.py:1:\n```\na = 1\r\n```"
    assert part((1, 5), (1, 7)) == "Lines a.py:2:\n```\n😀\n```"  # one character of two units
    assert part((1, 5), (1, 8)) == "Lines a.py:2:\n```\n😀é\n```"
    assert part((1, 7), (2, 2)) == "Lines a.py:2-3:\n```\né' + c\nla\n```"
    assert part((2, 0), (9, 9)) == "Lines a.py:3-10:\n```\nlast\n```"  # as far as there is something
    assert part((0, 2), (0, 99)) == "Lines a.py:1:\n```\n= 1\n```"
    assert part((1, 2), (1, 2)) == "Cursor at a.py:2"
    assert part((3, 0), (5, 0), text="unsaved") == "Lines a.py:4-5:\n```\nunsaved\n```"
    assert shown({"type": "text", "text": "logs"}) == "Text:\n```\nlogs\n```"
    assert client.call("session/list")["sessions"][0]["first_prompt"] == "why?"

    wrong = {"type": "diagnostic", **a, "start": place(1, 3), "message": "c is not defined"}
    assert shown(wrong) == "Diagnostic at a.py:2: c is not defined"
    assert shown({**wrong, "severity": "error", "end": place(2, 1), "text": "c"}, {"type": "file", **a}) == (
        "Error at a.py:2-3: c is not defined\n```\nc\n```\n\nFile a.py"
    )
    (machine.cwd / "long").write_text("12345678\n" * 6_000)
    long = shown({"type": "range", "path": str(machine.cwd / "long"), **span((1, 0), (5_000, 0))})
    assert long.endswith("\n12345678\n\n[cut here: read the file for the rest]\n```")
    assert long.count("12345678") == 2_000


def test_pictures_come_from_files_too(machine: Machine) -> None:
    client = machine.rpc().greet()
    session = client.session()
    picture = machine.cwd / "shot"
    picture.write_bytes(PNG)
    data = b64encode(PNG).decode()
    images = [{"mime_type": "image/jpeg", "path": str(picture)}, {"mime_type": "image/jpeg", "data": data}]
    client.call(
        "turn/start", session_id=session, text="", images=images, context=[{"type": "file", "path": "a"}]
    )
    assert client.event("user_message")["content"] == [
        {"type": "image", "mime_type": "image/png", "data": data},  # what it is, not what it is said to be
        {"type": "image", "mime_type": "image/jpeg", "data": data},
        {"type": "text", "text": f"{HEAD}\n\nFile a"},
    ]
    client.event("done")


def test_prompts_keep_their_order_though_one_has_files_to_be_read(machine: Machine) -> None:
    client = machine.rpc().greet()
    session = client.session()
    (machine.cwd / "big").write_bytes(b"x\n" * 5_000_000)
    item = {"type": "range", "path": "big", **span((4_900_000, 0), (4_900_001, 0))}
    first = client.request("turn/start", session_id=session, text="first", context=[item])
    second = client.request("turn/start", session_id=session, text="second")
    assert client.reply(first)["result"]["state"] == "started"
    assert client.reply(second)["result"]["state"] in ("queued", "started")
    told = [client.event("user_message")["content"][0]["text"] for _ in range(2)]
    assert told == ["first", "second"]


def test_what_cannot_be_used_is_refused_by_its_path(machine: Machine) -> None:
    client = machine.rpc().greet()
    session = client.session()

    def fault(**params: Any) -> str:
        error = client.error("turn/start", session_id=session, text="why?", **params)
        assert error["data"]["kind"] == "invalid_params"
        message: str = error["message"].removeprefix("turn/start: ")
        assert message.startswith(f"{error['data']['path']}: ")
        return message

    def context(**item: Any) -> str:
        return fault(context=[{"type": "text", "text": "fine"}, item])

    at = span((0, 0), (0, 1))
    assert context(type="file") == "$.context[1].path: is required for type 'file' and missing"
    assert context(type="text") == "$.context[1].text: is required for type 'text' and missing"
    assert context(type="range", path="a", start=place(0)).startswith("$.context[1].end: is required")
    assert context(type="diagnostic", path="a", start=place(0)).startswith("$.context[1].message: is req")
    assert context(type="range", path="", **at) == "$.context[1].path: expected a path, got ''"
    assert context(type="range", path="a", text="x", **span((1, 0), (0, 9))) == (
        "$.context[1].end: it lies before start"
    )
    assert context(type="range", path="a", text="x", **span((-1, 0), (0, 9))) == (
        "$.context[1].start: expected whole numbers from 0 on"
    )
    assert "$.context[1].type" in context(type="url")
    missing = machine.cwd / "missing"
    assert context(type="range", path="missing", **at) == f"$.context[1].path: {missing} does not exist"
    assert context(type="range", path=".", **at).endswith("expected a regular file")
    os.mkfifo(machine.cwd / "pipe")
    assert context(type="range", path="pipe", **at).endswith("expected a regular file")
    with (machine.cwd / "holes").open("wb") as file:
        file.truncate(100 << 30)
    far = f"$.context[1].start: line 2 of {machine.cwd}/holes lies behind the 67,108,864 bytes"
    assert context(type="range", path="holes", **span((1, 0), (1, 1))).startswith(far)
    assert context(type="range", path="/proc/self/pagemap", **span((9**9, 0), (9**9, 1))).count("behind the")
    (machine.cwd / "short").write_text("one\n")
    assert context(type="range", path="short", **span((5, 0), (5, 3))) == (
        f"$.context[1].start: {machine.cwd}/short has no line 6"
    )
    assert context(type="text", text="x" * 300_000).startswith("$.context[1]: expected at most 262,144 bytes")
    assert fault(context=[{"type": "text", "text": ""}] * 257).startswith("$.context: expected at most 256")

    def image(**params: Any) -> str:
        return fault(images=[{"mime_type": "image/png", **params}])

    picture = machine.cwd / "picture"
    picture.write_bytes(PNG)
    both = "$.images[0]: expected one of data and path"
    assert image() == image(path=str(picture), data=b64encode(PNG).decode()) == both
    assert image(data="?").startswith("$.images[0].data: expected base64")
    assert image(path="picture").startswith("$.images[0].path: expected an absolute path")
    assert image(path=str(missing)) == f"$.images[0].path: {missing} does not exist"
    assert image(path=str(machine.cwd)).endswith("expected a regular file")
    assert image(path=str(machine.cwd / "short")) == (
        f"$.images[0].path: {machine.cwd}/short is no picture that models take: png, jpeg, gif or webp"
    )
    picture.write_bytes(PNG + bytes(5 << 20))
    assert "expected at most 5242880 bytes" in image(path=str(picture))
    picture.write_bytes(PNG + bytes(5 << 20)[: -len(PNG)])
    many = fault(images=[{"mime_type": "image/png", "path": str(picture)}] * 80)
    assert many.startswith(
        "$: expected at most 16,252,928 bytes of text and pictures (base64) together, got 2"
    )

    assert fault(key="k" * 1_001) == "$.key: expected at most 1,000 characters, got 1,001"
    for unsaved, expected in (
        ("file:///a", "a path, got the address"),
        ("~nobody-there/a", "an absolute path, got"),
    ):
        said = f"$.dirty_files[1]: expected {expected} {unsaved!r}"
        assert fault(dirty_files=[str(picture), unsaved]) == said
