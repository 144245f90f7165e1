"""The record of forecasts: errors, corrections, and how often intervals held."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from fake_service import TestJournal
from hypothesis import given
from hypothesis import strategies as st
from queue_tools import ANA, NS, add, apply, end, machine, service, start

from warren.serve.queue.forecasts import Forecasts, Held, corrected, error_of
from warren.serve.queue.requests import cancel, hold
from warren.serve.queue.state import Queue
from warren.serve.records.events import Foreseen
from warren.serve.records.forecasts import Correction, Spread

TIMES = st.floats(0, 1e7)


def spread(times: list[float]) -> Spread:
    return Spread(*sorted(times))


SPREADS = st.lists(TIMES, min_size=3, max_size=3).map(spread)


def test_errors_are_counted_in_widths_of_their_own_interval() -> None:
    one = Spread(100, 200, 500)
    assert [error_of(one, at) for at in (0, 100, 200, 500, 800)] == [-2, -1, 0, 1, 2]
    narrow = Spread(1000, 1000, 1000)
    assert error_of(narrow, 1060) == 1, "a bound is at least a minute away"
    assert error_of(Spread(10_000, 10_000, 10_000), 10_500) == 1, "or a twentieth of the time"


def test_a_correction_moves_the_bounds_and_never_into_the_past() -> None:
    one = Spread(100, 200, 500)
    assert corrected(one, Correction()) == one
    assert corrected(one, Correction(0, 1, 2)) == Spread(200, 500, 800)
    assert corrected(one, Correction(-9, -1, 0)) == Spread(0, 100, 200)


@given(SPREADS, TIMES)
def test_a_spread_corrected_by_its_own_error_is_where_it_was_to_be(
    one: Spread, actual_s: float
) -> None:
    error = error_of(one, actual_s)
    found = corrected(one, Correction(error, error, error)).expected_s
    assert found == pytest.approx(actual_s, abs=1e-3, rel=1e-6)


@given(st.lists(st.tuples(SPREADS, TIMES), max_size=60))
def test_corrected_bounds_stay_in_order(past: list[tuple[Spread, float]]) -> None:
    record = Forecasts()
    for index, (one, actual_s) in enumerate(past):
        record.note(str(index), 0, one, record.correction(0))
        record.came(str(index), round(actual_s * NS))
    found = record.correction(0)
    assert found.low <= found.expected <= found.high
    shown = corrected(Spread(10, 20, 40), found)
    assert 0 <= shown.low_s <= shown.expected_s <= shown.high_s


def test_without_a_record_an_interval_is_what_the_plays_say() -> None:
    assert Forecasts().correction(0) == Correction()
    assert Forecasts().held(0) == Held(0, 0)


@pytest.mark.parametrize("kind", ["late", "narrow", "heavy", "drifts"])
def test_intervals_come_to_hold_for_eighty_percent(kind: str) -> None:
    random, record, held = Random(7), Forecasts(), 0
    for index in range(1500):
        errors = {
            "late": random.gauss(3, 1), "narrow": random.gauss(0, 5),
            "heavy": random.paretovariate(1.0) - 1, "drifts": random.gauss(0, 1 + index / 300),
        }  # fmt: skip
        one = Spread(9_000, 10_000, 11_000)
        actual_s = max(0.0, 10_000 + 1_000 * errors[kind])
        by = record.correction(0)
        record.note(str(index), 0, one, by)
        record.came(str(index), round(actual_s * NS))
        shown = corrected(one, by)
        held += index >= 500 and shown.low_s <= actual_s <= shown.high_s
    assert 0.75 <= held / 1000 <= 0.85
    assert record.held(0).of == 200


def test_a_forecast_whose_interval_is_over_counts_before_it_comes_true() -> None:
    record = Forecasts()
    record.note("1", 0, Spread(100, 200, 300), Correction())
    assert record.held(290 * NS) == Held(0, 0)
    assert record.held(400 * NS) == Held(0, 1)
    record.came("1", 500 * NS)
    record.note("2", 0, Spread(100, 200, 300), Correction())
    record.came("2", 250 * NS)
    assert record.held(500 * NS) == Held(1, 2)


def foreseen(job: str, at_s: float = 0) -> Foreseen:
    return Foreseen(
        time_ns=int(at_s * NS), job=job, start=Spread(50, 100, 200), end=Spread(100, 200, 400)
    )


def waiting() -> tuple[Queue, str, str]:
    queue = service(machine("h", "A100"))
    first, second = add(queue), add(queue)
    start(queue)
    apply(queue, [foreseen(second)])
    return queue, first, second


def test_the_queue_keeps_the_record_of_starts_and_ends() -> None:
    queue, first, second = waiting()
    end(queue, first, 90)
    start(queue, 90)
    assert queue.forecasts.starts.held(0) == Held(1, 1)
    assert queue.forecasts.ends.held(0) == Held(0, 0)
    end(queue, second, 1000)
    assert queue.forecasts.starts.held(0) == Held(1, 1)
    assert queue.forecasts.ends.held(0) == Held(0, 1)


def test_what_users_change_is_no_error_of_a_forecast() -> None:
    for change in (hold, cancel):
        queue, first, second = waiting()
        apply(queue, change(queue, [second], ANA, NS))
        end(queue, first, 90)
        start(queue, 90)
        for kind in (queue.forecasts.starts, queue.forecasts.ends):
            assert second not in kind
            assert kind.held(10**6 * NS) == Held(0, 0)


def test_a_forecast_of_a_job_that_started_meanwhile_does_not_count() -> None:
    queue, first, _ = waiting()
    apply(queue, [foreseen(first)])
    assert first not in queue.forecasts.starts
    assert first not in queue.forecasts.ends


def test_the_journal_gives_back_the_record(tmp_path: Path) -> None:
    event = foreseen("2")
    with TestJournal(tmp_path / "queue.db") as journal:
        journal.append([event])
        assert list(journal.events()) == [event]
