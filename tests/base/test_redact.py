"""What is written down holds no key, whatever is around it and however it is spelled."""

from __future__ import annotations

import gc
import json
import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.base.redact import LEAST_CHARS, bare_url, names_a_key, redact, redacted
from zotd.base.secret import Secret

KEYS = {
    "openai": "sk-proj-abcDEF0123456789_-xyz",
    "anthropic": "sk-ant-api03-abcDEF0123456789",
    "google": "AIzaSyA0123456789abcdefghijklmnopqrstu",
    "github": "ghp_0123456789abcdefghijABCDEFGHIJ",
    "github, fine": "github_pat_11ABCDEFG0123456789_abcdef",
    "gitlab": "glpat-0123456789abcdefghij",
    "slack": "xoxb-123456789012-abcdefghijkl",
    "amazon": "AKIAIOSFODNN7EXAMPLE",
    "hugging face": "hf_abcdefghijklmnopqrstuvwxyz",
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
}
WORDS = st.text(max_size=60)
PLANTED = st.text(st.characters(exclude_categories=["Cs"]), min_size=LEAST_CHARS, max_size=60).filter(
    lambda text: len(text.strip()) >= LEAST_CHARS and not set(text) <= set("* ")
)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize(
    "around", ["{}", "refused: {}.", '{{"error": "bad {} here"}}', "https://x/?q={}&b=1"]
)
def test_a_key_is_known_by_its_form(key: str, around: str) -> None:
    assert key not in redact(around.format(key))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("with Bearer abcdefgh refused", "with Bearer *** refused"),
        ("Basic dXNlcjpwYXNz", "Basic dXNlcjpwYXNz"),  # nothing in it tells it from a word
        ("Basic dXNlcjpwYXNzd29yZDE=", "Basic ***"),
        ('{"api_key": "a b", "n": 1}', '{"api_key": "***", "n": 1}'),
        (r'"{\"token\":\"ab\",\"n\":1}"', r'"{\"token\":\"***\",\"n\":1}"'),
        ('"api_key": "cut off', '"api_key": "***"'),
        ("{'password': 'it is \\' this'}", "{'password': '***'}"),
        ("OPENAI_API_KEY=abc PATH=/bin", "OPENAI_API_KEY=*** PATH=/bin"),
        ("https://me:pass%40word@host:1/p?token=abc&b=2", "https://***@host:1/p?token=***&b=2"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest", "***\nrest"),
        ("-----BEGIN PRIVATE KEY-----\nMII", "***"),
    ],
)
def test_what_is_named_a_key_is_masked_and_the_rest_stays(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 5, input_tokens=9",
        "zotd: invalid token",
        "a basic understanding of token limits",
        "user@example.org wrote to me@example.org",
        "the monkey: it ate; key: none",
        '{"session_id":"8f37d5f6","method":"turn/start","duration_ms":1.5}',
        "task-force skeleton ask-me",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(key=PLANTED, before=WORDS, after=WORDS)
def test_no_key_of_this_process_survives_in_any_of_its_spellings(key: str, before: str, after: str) -> None:
    held = Secret(key)
    assert held
    for spelling in (key, key.strip(), quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1]):
        assert spelling not in redact(f"{before}{spelling}{after}").replace("***", "\0")
    assert key not in json.dumps(redacted({"a": [f"{before}{key}{after}", {"b": key}]}), ensure_ascii=False)


@given(
    key=PLANTED, name=st.sampled_from(["api_key", "GITHUB_TOKEN", "x-secret", "password", "Authorization"])
)
def test_a_member_with_the_name_of_a_key_loses_its_value(key: str, name: str) -> None:
    assert redacted({name: key}) == {name: "***"}
    shown = redact(json.dumps({name: key, "n": 1}))
    assert json.loads(shown) == {name: "***", "n": 1}


def test_a_short_key_is_not_masked_inside_other_words() -> None:
    held = [Secret(""), Secret("abc"), Secret(" ")]
    assert redact("an abcess about nothing") == "an abcess about nothing"
    assert len(held) == 3


def test_a_key_that_nobody_holds_any_more_is_forgotten() -> None:
    held = Secret("correct horse battery")
    assert redact("a correct horse battery") == "a ***"
    del held
    gc.collect()
    assert redact("a correct horse battery") == "a correct horse battery"


def test_equal_keys_are_each_remembered() -> None:
    first, second = Secret("correct horse battery"), Secret("correct horse battery")
    del first
    gc.collect()
    assert redact("a correct horse battery") == "a ***"
    assert second


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "api_key"]
)
def test_variables_that_hold_keys_are_known_by_their_names(name: str) -> None:
    assert names_a_key(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "max_tokens", "method", "KEYBOARD", "key"])
def test_other_variables_are_not(name: str) -> None:
    assert not names_a_key(name)


@given(st.text(st.sampled_from("ab\"'\\=: {}&@/\nkeytoken-.eyJ"), max_size=400))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once
    assert not re.search(r"token=(?!\*\*\*)[ab]", once)


@pytest.mark.parametrize("before", ["", "u", "user:", "token user:"])
def test_a_key_is_masked_in_base64_wherever_it_begins_there(before: str) -> None:
    key = "plan>ted?ke~y\xff-0123456789"
    held = Secret(key)
    for spelled in (b64encode, urlsafe_b64encode):
        whole = spelled(f"{before}{key}:more".encode()).decode()
        first = -(-len(before) * 4 // 3)
        assert held
        assert redact(f"said {whole} of it").startswith(f"said {whole[:first]}***")
        assert whole[first + 8 : first + 16] not in redact(f"said {whole} of it")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("http://user:word@host:8080/v1/models/a@1", "http://host:8080/v1/models/a@1"),
        ("https://host/v1?api_key=abc&x=1#part", "https://host/v1"),
        ("user:word@host", "host"),
        ("ftp://:word@[::1]:1", "ftp://[::1]:1"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_what_opens_it(given: str, shown: str) -> None:
    assert bare_url(given) == shown
