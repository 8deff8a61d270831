"""What is kept for those who come back: exact, without gaps, and within its bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zotd.base.limits import Limits
from zotd.store.ring import Budget, Published, Ring

PER_EVENT = 200
"""Bytes that each event counts besides its body."""


def event(seq: int, size: int = 0) -> Published:
    return Published("text_delta", seq, b"x" * size)


def ring(events: int = 1_000, size: int = 1 << 30, budget: Budget | None = None) -> Ring:
    return Ring(Limits(replay_events=events, replay_bytes=size), budget or Budget(1 << 30))


@given(st.integers(0, 150), st.integers(1, 120), st.integers(0, 151))
def test_whoever_missed_events_gets_exactly_those_or_is_told_that_they_are_gone(
    published: int, kept: int, seen: int
) -> None:
    one = ring(events=kept)
    for seq in range(1, published + 1):
        one.add(event(seq))
    missed = one.after(seen)
    if seen + kept < published:
        assert missed is None
    else:
        assert missed is not None
        assert [each.seq for each in missed] == list(range(seen + 1, published + 1))


@given(st.lists(st.integers(0, 600), max_size=60), st.integers(0, 3_000))
def test_bytes_are_bounded_and_what_is_left_has_no_gap(sizes: list[int], most: int) -> None:
    one, budget = ring(size=most, budget=(shared := Budget(1 << 20))), shared
    for seq, size in enumerate(sizes, 1):
        one.add(event(seq, size))
        held = (1 << 20) - budget.left
        assert held <= most
    first = next((seen for seen in range(len(sizes)) if one.after(seen) is not None), len(sizes))
    assert (1 << 20) - budget.left == sum(size + PER_EVENT for size in sizes[first:])
    for seen in range(first, len(sizes) + 1):
        assert [each.seq for each in one.after(seen) or []] == list(range(seen + 1, len(sizes) + 1))
    one.clear()
    assert budget.left == 1 << 20


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), max_size=60))
def test_sessions_share_one_budget_and_give_back_what_they_held(story: list[tuple[int, int]]) -> None:
    most = 2_000
    budget = Budget(most)
    rings, numbers = [ring(budget=budget) for _ in range(3)], [0, 0, 0]
    for which, size in story:
        numbers[which] += 1
        rings[which].add(event(numbers[which], size))
        assert 0 <= budget.left <= most
    for one in rings:
        one.clear()
    assert budget.left == most


def test_an_event_that_is_too_large_to_keep_is_missed_and_known_to_be() -> None:
    one = ring(size=1_000)
    one.add(event(1))
    one.add(event(2, 2_000))
    assert one.after(1) is None
    assert one.after(2) == []
    one.add(event(3))
    assert one.after(1) is None
    assert [each.seq for each in one.after(2) or []] == [3]
