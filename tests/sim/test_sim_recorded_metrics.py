"""Recorded metrics are shown again, by the rounds they belong to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.model.job import Job, Stop
from warren.model.run import Losses
from warren.sim.hidden_curves import HiddenCurves
from warren.sim.recorded_metrics import RecordedMetrics

STOP = Stop(metric="accuracy", reaches=2.0)
JOBS = [
    Job(index=0, name="a", scale=1, rounds=60, stop=STOP),
    Job(index=1, name="b", scale=1, rounds=60, stop=STOP),
    Job(index=2, name="c", scale=1, rounds=60),
]


@given(
    st.dictionaries(st.integers(1, 60), st.floats(0, 1), max_size=20),
    st.integers(0, 59),
    st.integers(1, 60),
)
def test_a_stretch_shows_the_last_value_inside_it(
    values: dict[int, float], first: int, rounds: int
) -> None:
    shown = RecordedMetrics(JOBS, {"a": tuple(sorted(values.items()))}, None)
    inside = [done for done in values if first < done <= first + rounds]
    expected = (("accuracy", values[max(inside)]),) if inside else ()
    assert shown.metrics(0, first, rounds) == expected


def test_a_job_without_a_record_shows_what_is_drawn_for_it_or_nothing() -> None:
    drawn = HiddenCurves(JOBS, Losses(), 1)
    shown = RecordedMetrics(JOBS, {"a": ((5, 0.5),)}, drawn)
    assert shown.metrics(1, 4, 1) == drawn.metrics(1, 4, 1) != ()
    assert shown.metrics(2, 4, 1) == ()
    assert RecordedMetrics(JOBS, {"a": ((5, 0.5),)}, None).metrics(1, 4, 1) == ()
