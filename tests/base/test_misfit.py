"""A value of the wrong type is told in JSON's words, by its path."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from zotd.base.misfit import misfit, present


class Inner(msgspec.Struct):
    word: Literal["one", "two"] | None = None


class Value(msgspec.Struct):
    name: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    ratio: float | None = None
    text: Annotated[str, msgspec.Meta(min_length=1)] = "x"
    flag: bool = False
    either: bool | list[str] | None = None
    inner: list[Inner] = []
    env: dict[str, str] = {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": 3}, "$.name: expected a string, got a number"),
        ({"name": True}, "$.name: expected a string, got a boolean"),
        ({"name": None}, "$.name: expected a string, got null"),
        ({}, "$.name: is required and missing"),
        ([], "$: expected an object, got a list"),
        ({"name": "x", "count": "1"}, "$.count: expected a whole number, got a string"),
        ({"name": "x", "count": 0}, "$.count: expected a whole number of at least 1"),
        ({"name": "x", "text": ""}, "$.text: expected a string whose length is at least 1"),
        ({"name": "x", "ratio": "fast"}, "$.ratio: expected a number, got a string"),
        ({"name": "x", "flag": "yes"}, "$.flag: expected true or false, got a string"),
        ({"name": "x", "either": 3}, "$.either: expected true or false or a list, got a number"),
        ({"name": "x", "either": ["a", {}]}, "$.either[1]: expected a string, got an object"),
        (
            {"name": "x", "inner": [{}, {"word": "three"}]},
            "$.inner[1].word: expected 'one' or 'two', got 'three'",
        ),
        ({"name": "x", "env": {"A": 1}}, "$.env[...]: expected a string, got a number"),
    ],
)
def test_a_misfit_names_its_path_what_was_expected_and_what_came(given: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Value)
    assert str(misfit(caught.value, Value)) == said


def test_a_name_that_is_free_is_named_where_the_value_is_at_hand() -> None:
    given = {"name": "x", "env": {"B": "2", "A": 1}}
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Value)
    assert misfit(caught.value, Value, given).path == "$.env.A"
    nested = [given]
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(nested, list[Value])
    assert misfit(caught.value, list[Value], nested).path == "$[0].env.A"


def test_null_is_absent_except_where_names_are_free() -> None:
    given = {"name": "x", "ratio": None, "inner": [{"word": None}, None], "env": {"A": None}, "more": None}
    assert present(given, Value) == {"name": "x", "inner": [{}, None], "env": {"A": None}}
