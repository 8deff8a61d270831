"""A session written down: for other programs as rows, for readers as Markdown and as a page."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.store.exports import HOME, PNG, TIME, Page, answered, conversation, say, session, written
from zotd.agent.compaction import summary_row
from zotd.agent.transcript import SUMMARY_HEADING
from zotd.base.limits import Limits
from zotd.protocol.content import Image, Message, Thinking, ToolCall, Usage
from zotd.store.catalog import SessionStore
from zotd.store.export import Format, export, visible, without_home
from zotd.store.rows import read_rows

FORMS: tuple[Format, ...] = ("jsonl", "markdown", "html")


# Everywhere


@pytest.mark.parametrize("form", FORMS)
def test_neither_the_home_directory_nor_the_place_of_work_is_told(form: Format) -> None:
    call = ToolCall("c", "bash", {"command": f"ls {HOME}", "in": [{f"{HOME}/k": f"-I{HOME}/include"}]})
    bad = ToolCall("d", "bash", {}, raw_args=f'{{"x": "{HOME.replace("/", chr(92) + "/")}/y')
    text = written(
        form,
        say("user", f"Look at {HOME}. And at file://{HOME}/x"),
        say("assistant", Thinking(f"{HOME}/thought"), call, bad),
        *answered(ToolCall("e", "read", {"path": f"{HOME}/z"}), f"{HOME}: no such file", is_error=True),
        title=f"About {HOME}/app",
    )
    assert "ada" not in text
    assert text.count("~") >= 9


def test_only_the_home_itself_becomes_a_tilde() -> None:
    tilde = without_home("/home/x/")
    assert tilde("/home/x /home/x/y /home/x. (/home/x)") == "~ ~/y ~. (~)"
    assert tilde("/home/xavier /home/x-y /home/x.old /home") == "/home/xavier /home/x-y /home/x.old /home"
    for none in ("", "/"):
        assert without_home(none)("/home/x /") == "/home/x /"


def test_what_a_terminal_would_obey_is_gone_and_what_nobody_would_see_is_shown() -> None:
    assert visible("plain ümläut\tand\nline") == "plain ümläut\tand\nline"
    assert visible("\x1b[1;31mred\x1b[m \x9b2Jx \x1b]0;title\x07y \x1b]8;;u\x1b\\z \x1bcq") == "red x y z q"
    assert visible("a\x00b\x7fc\x08d\x85e\ud800f") == "a␀b␡c␈d\ufffde\ufffdf"
    assert visible("x\r\ny\rz") == "x\ny\nz"
    assert visible("\u202eabc\u2066") == "⟨U+202E⟩abc⟨U+2066⟩"
    assert visible("שלום مرحبا") == "שלום مرحبا"


@pytest.mark.parametrize("form", FORMS)
def test_arguments_that_nest_without_end_are_cut_off(form: Format) -> None:
    deep: list[Any] = []
    for _ in range(1_000):
        deep = [deep]
    assert "(nested too deeply)" in written(form, say("assistant", ToolCall("c", "x", {"deep": deep})))


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_session_can_be_written(form: Format) -> None:
    text = written(form, usage=Usage())
    assert "8f37d5f6-0000" in text
    assert "Usage" not in text


# Rows


def test_rows_say_the_same_when_they_are_read_again() -> None:
    messages = conversation()[:8]
    text = written("jsonl", *messages, title="the parser", home="")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["type"] for row in rows] == ["meta", "model", *["message"] * 8, "usage"]
    assert rows[0]["meta"] == {
        "id": "8f37d5f6-0000",
        "started": "2026-11-30T03:43:15.576Z",
        "version": "1",
        "parent": "77aa",
        "provider": "anthropic",
        "model": "opus",
        "title": "the parser",
    }
    again = read_rows(text.encode())
    before = session(*messages)
    assert again.messages == messages
    assert (again.title, again.usage, again.provider) == ("the parser", before.usage, "anthropic")
    assert (again.model, again.reasoning) == ("opus", "high")


def test_rows_can_be_imported_and_exported_again(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, Limits())
    text = written("jsonl", *conversation()[:8], title="the parser")
    saved = store.read(store.import_file(text.encode(), tmp_path / "elsewhere"))
    assert (saved.cwd, saved.title) == (tmp_path / "elsewhere", "the parser")
    again = export(saved, "jsonl", HOME, Limits())
    assert again.splitlines()[2:] == text.splitlines()[2:]


def test_rows_are_lines_whatever_was_said() -> None:
    text = written("jsonl", *conversation(), say("user", "a\u2028b\ud800"))
    rows = [json.loads(line) for line in text.encode().split(b"\n") if line]
    assert len(rows) == 3 + len(conversation()) + 1
    assert rows[-2]["message"]["content"] == [{"text": "a\u2028b\ufffd"}]


# Markdown


def outline(text: str) -> list[str]:
    """The headings as a renderer of Markdown sees them; fails on HTML other than our own."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    ours = re.compile(r"</?(details|summary|sub|b|code)>|<!-- -->")
    for token in tokens:
        for html in [token] if token.type == "html_block" else (token.children or ()):
            if html.type in ("html_block", "html_inline"):
                assert "<" not in ours.sub("", html.content), html.content
    return [
        f"{token.tag} {tokens[at + 1].content}"
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2", "h3")
    ]


def test_markdown_has_a_title_facts_speakers_and_what_it_cost() -> None:
    text = written("markdown", *conversation()[:3], title="Fix *it*")
    assert outline(text) == [r"h1 Fix \*it\*", "h2 User 1", "h3 Assistant", "h2 Usage"]
    assert "| Model | anthropic/opus, reasoning high |" in text
    assert "> Fix `~/app/x.py`, please." in text
    assert f"](data:image/png;base64,{PNG})" in text
    assert "| Input tokens | 1,234 |" in text
    assert r"| Cost | \$0.0421 |" in text


def test_markdown_folds_thoughts_and_calls_and_shows_changes_as_diffs() -> None:
    text = written("markdown", *conversation()[1:10])
    assert "<summary>Thinking</summary>\n\nIt is *short*.\n" in text
    assert "<summary><b>edit</b> <code>x.py</code> (done)</summary>" in text
    assert "```diff\n a = 1\n-b = 2\n+b = 3\n+c = 4\n```" in text
    assert "```diff\n+import os\n```" in text
    assert "```bash\nmake test\n```\n\nError:\n\n`````\n````\nexit 2\n`````" in text
    assert text.count("<details>") == text.count("</details>") == 5


def test_nobody_breaks_out_of_the_structure_of_markdown() -> None:
    text = written("markdown", *conversation())
    heads = [head for head in outline(text) if head != "h3 Assistant"]
    assert heads == ["h1 Fix `\\~/app/x.py`, please.".replace("`", "\\`"), "h2 User 1", "h2 User 2",
                     "h3 Tool", "h2 Usage"]  # fmt: skip
    folds = [token.content for token in MarkdownIt().parse(text) if token.type == "html_block"]
    opened = sum(fold.count("<details>") for fold in folds)
    assert opened == sum(fold.count("</details>") for fold in folds) == 9


@pytest.mark.parametrize(
    "said",
    [
        "```", "~~~\n```", "````md\n```\n", "- a\n  ```\n  open", "> ```\n> x", "# a", "a\n===", "a\n---",
        "a\nb\n===", "- # a", "1. a\n   ===", "<!--", "<!-- x", "<details>", "x <b", "<b>`<b>`", "<?php",
        "<![CDATA[x", "<script>\n\n# x", "</details>", "[x]: y", "\\", "`", "*", "|a|\n|-|", "    code",
        "\t# x", "  #  x", "a  \n=", "<a href='\n'>", "&lt;b>", "``` <b>", "$$", "---", "***",
        "\t<?", "    <b>", "+ ```\n\n\n  x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_any_piece_of_markdown_keeps_to_itself(said: str, role: str) -> None:
    message = say("user" if role == "user" else "assistant", said, ToolCall("c", "t", {}), said)
    text = written("markdown", message, say("user", "next"), title="t")
    first = ["h2 User 1", "h2 User 2"] if role == "user" else ["h3 Assistant", "h2 User 1"]
    assert outline(text) == ["h1 t", *first, "h2 Usage"]


MARKS = st.sampled_from(
    ["`", "```", "~~~", "#", " ", "\n", "\n\n", "<", "</details>", "<b>", ">", "- ", "    ", "\t", "1. ",
     "===", "---", "|", "[x]: ", "<!--", "-->", "a", "&", "\\", "*", "<?", "]]>", "\r", "\x0b",
     "\x85", "\u2028"]
)  # fmt: skip
TEXTS = st.lists(MARKS, max_size=14).map("".join)


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
def test_whatever_is_said_the_structure_stays(one: str, two: str) -> None:
    messages = [
        say("user", one, ToolCall("c", two, {"path": two}), one),
        say("assistant", two, Thinking(one), ToolCall("c", one, {"x": one})),
        say("user", "next"),
    ]
    heads = outline(written("markdown", *messages, title="t"))
    assert heads == ["h1 t", "h2 User 1", "h3 Assistant", "h2 User 2", "h2 Usage"]
    page = Page(written("html", *messages, title=one))
    assert (page.faults, len(page.all("article"))) == ([], 3)


def test_a_large_picture_is_told_of_in_markdown() -> None:
    text = written("markdown", say("user", Image("image/png", "A" * 40_000)))
    assert "*Image, image/png, 30 kB*" in text
    assert "AAAA" not in text


# The page


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(written("html", *conversation()))


def test_the_page_loads_nothing_and_runs_nothing(page: Page) -> None:
    assert page.faults == []
    tags = {tag for tag, _ in page.elements}
    assert tags.isdisjoint({"script", "iframe", "object", "embed", "form", "base", "svg", "video", "input"})
    names = {name for _, attrs in page.elements for name in attrs}
    assert {name for name in names if name.startswith("on")} | (
        names & {"style", "srcset", "action"}
    ) == set()
    policy = next(attrs["content"] for attrs in page.all("meta") if "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert [attrs["src"] for attrs in page.all("img")] == [f"data:image/png;base64,{PNG}"]
    assert [attrs["href"] for attrs in page.all("link")] == ["data:,"]


SUMMARISED = (
    summary_row("The parser is *half* mended.", [], TIME),
    say("user", "and now the lexer"),
    say("assistant", "Mended."),
)


def test_a_summary_is_told_as_one_and_is_neither_a_prompt_nor_the_title() -> None:
    text = written("markdown", *SUMMARISED)
    assert outline(text) == ["h1 and now the lexer", "h2 Summary", "h2 User 1", "h3 Assistant", "h2 Usage"]
    page = Page(written("html", *SUMMARISED))
    assert page.pieces("h1") == ["and now the lexer"]
    assert [attrs["class"] for attrs in page.all("article")] == ["summary", "user", "assistant"]
    assert page.pieces("article", "h2") == ["Summary", "You"]
    assert page.pieces("nav", "li") == ["and now the lexer"]
    assert page.pieces("dl", "dd")[2] == "1"
    for readable in (text, page.text("main")):
        assert "half" in readable
        assert SUMMARY_HEADING not in readable
    assert SUMMARY_HEADING in written("jsonl", *SUMMARISED)


def test_links_of_others_lead_to_the_web_or_to_mail_only() -> None:
    said = (
        "[a](https://a.example/?x=1&y=2) [b](mailto:b@example.org) [c](HTTP://c.example) [d](javascript:x) "
        "[e](//e.example) [f](/etc/passwd) [g](data:text/html,x) [h](vbscript:x) [i](file:///x) "
        "[j](java&#x0A;script:x) [k](&#106;avascript:x)"
    )
    links = Page(written("html", say("assistant", said))).all("a")
    outside = {str(link["href"]): link for link in links if not str(link["href"]).startswith("#")}
    assert list(outside) == ["https://a.example/?x=1&y=2", "mailto:b@example.org", "HTTP://c.example"]
    assert all("noopener" in str(link["rel"]) for link in outside.values())


def test_hostile_text_is_text(page: Page) -> None:
    body = page.text("main")
    assert "<script>alert(1)</script>" in body
    assert "⟨U+202E⟩gnp.exe␀ red link \ufffd bold" in body
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", body)


def test_the_page_is_ordered_for_those_who_read_with_a_screen_reader(page: Page) -> None:
    assert page.elements[0] == ("html", {"lang": "en"})
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[:3] == [1, 2, 3]
    assert levels.count(1) == 1
    assert [attrs["href"] for attrs in page.all("a")][1:3] == ["#prompt-1", "#prompt-2"]
    assert {"prompt-1", "prompt-2"} <= {str(attrs["id"]) for attrs in page.all("article", "user")}
    assert all(attrs.get("alt") for attrs in page.all("img"))
    assert all(attrs.get("tabindex") == "0" for attrs in page.all("pre"))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1])
def test_every_text_stands_out_from_every_ground_in_light_and_dark(scheme: int) -> None:
    style = Page(written("html")).text("style")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", style.split("@media")[scheme]))
    code = {"muted", "keyword", "string", "number", "comment", "function", "type"}
    pairs = [(text, ground) for text in code for ground in ("code", "add", "del")]
    plain = {"text", "muted", "accent", "good", "bad"}
    pairs += [(text, ground) for text in plain for ground in ("page", "card", "raised", "code")]
    for text, ground in pairs:
        low, high = sorted((luminance(colours[text]), luminance(colours[ground])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


def test_calls_are_folded_with_their_results_and_changes_are_coloured() -> None:
    messages = conversation()
    page = Page(written("html", *messages[:10]))
    states = [attrs["class"] for attrs in page.all("details", "tool")]
    assert states == ["tool done", "tool done", "tool done", "tool failed"]
    assert len(page.all("details", "thinking")) == 1
    assert (len(page.all("span", "add")), len(page.all("span", "del"))) == (3, 1)
    assert page.pieces("summary") == [
        "Prompts", "Thinking", "It is *short*.", "read", "~/app/x.py", "done",
        "edit", "x.py", "+2", "−1", "done", "write", "y.py", "+1", "done", "bash", "make test", "failed",
    ]  # fmt: skip
    assert page.all("span", "nf")  # the name of the function in the answer's code
    assert page.all("span", "kn")  # the import in the file that was written


def test_the_page_tells_what_the_session_cost(page: Page) -> None:
    assert page.pieces("footer", "dd") == ["1,234", "56", "789", "12", "$0.0421"]


def test_code_keeps_every_character() -> None:
    codes = ["\n\n  x = 1\n\n", "def f():\r\n\tpass", "é = '\u2028'", "#!/bin/sh\n", " "]
    for code in codes:
        for tool in ("write", "edit"):
            edits = [{"oldText": "", "newText": code}]
            call = ToolCall("c", tool, {"path": "x.py", "content": code, "edits": edits})
            shown = Page(written("html", say("assistant", call))).text("pre")
            lines = visible(code).removesuffix("\n").split("\n")
            assert shown == "".join(f"+{line}\n" for line in lines)


def test_the_last_line_of_a_diff_is_coloured_as_the_others() -> None:
    page = Page(written("html", say("assistant", "```diff\n--- a/x\n+++ b/x\n-old\n+new\n```")))
    assert page.text("pre") == "--- a/x\n+++ b/x\n-old\n+new"
    assert page.pieces("pre", "span") == ["--- a/x", "+++ b/x", "-old", "+new"]


def test_large_texts_and_much_code_stay_plain() -> None:
    limits = Limits(export_prose_chars=20, export_code_chars=10, export_coloured_chars=12)
    said = [
        "**a**",
        "**" + "b" * 20 + "**",
        "```python\nimport os, sys\n```",
        "```py\nimport a\n```",
        "```py\nimport b\n```",
    ]
    page = Page(export(session(*(say("assistant", text) for text in said)), "html", "", limits))
    assert page.text("strong") == "a"
    assert "**" + "b" * 20 + "**" in page.text("pre")
    assert len(page.all("span", "kn")) == 1


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_ten_thousand_messages_take_seconds(count: int) -> None:
    rows: list[Message] = []
    for number in range(count // 4):
        rows += [say("user", f"Question *{number}*"), say("assistant", f"Answer `{number}`\n\n- one\n- two")]
        rows += answered(ToolCall(f"c{number}", "bash", {"command": f"echo {number}"}), f"{number}\n")
    for form in FORMS:
        began = time.process_time()
        text = written(form, *rows)
        assert time.process_time() - began < 10 * count / 10_000 + 1
        assert f"echo {count // 4 - 1}" in text
