"""Lines of waiting jobs, and queues by attained service."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.policy.common.persistent_heap import PersistentHeap, entries, put, take
from warren.policy.place.hlas.feedback_queues import FeedbackQueues, geometric, parse_queues

ENTRIES = st.lists(st.tuples(st.floats(0, 9).map(round).map(float), st.integers(0, 50)))
S = 10**9


def line_of(given: list[tuple[float, int]]) -> PersistentHeap | None:
    line = None
    for entry in given:
        line = put(line, entry)
    return line


@given(ENTRIES)
def test_a_line_gives_its_entries_least_first(given: list[tuple[float, int]]) -> None:
    line, taken = line_of(given), []
    assert entries(line) == sorted(given)
    while line is not None:
        entry, line = take(line)
        taken.append(entry)
    assert taken == sorted(given)


@given(ENTRIES, st.tuples(st.just(1.0), st.integers(0, 50)))
def test_a_line_that_was_taken_from_or_put_to_is_as_it_was(
    given: list[tuple[float, int]], other: tuple[float, int]
) -> None:
    line = line_of(given)
    put(line, other)
    if line is not None:
        take(line)
    assert entries(line) == sorted(given)


@given(st.lists(st.integers(0, 10**6), min_size=200, max_size=200))
def test_the_way_to_the_end_of_a_line_is_logarithmic(keys: list[int]) -> None:
    line = line_of([(float(key), 0) for key in keys])
    steps = 0
    while line is not None:
        line, steps = line.right, steps + 1
    assert steps <= 8  # log2(200 + 1)


def test_a_job_belongs_to_the_queue_whose_thresholds_hold_what_it_attained() -> None:
    queues = parse_queues("1 s, 10 s")
    assert queues == FeedbackQueues((S, 10 * S))
    assert [queues.of(at) for at in (0, S - 1, S, 9 * S, 10 * S, 99 * S)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("text", ["10 s, 1 s", "0 s, 1 s", "1 s, 1 s", "soon"])
def test_thresholds_that_are_no_ascending_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"thresholds|time"):
        parse_queues(text)


def test_without_thresholds_each_queue_holds_four_times_as_much_as_the_one_before() -> None:
    above = geometric().above_ns
    assert above[0] == S
    assert all(late == 4 * early for early, late in pairwise(above))
