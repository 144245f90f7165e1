"""How long jobs run: closed forms, groups, and what the time so far changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_tools import NS, add, end, machine, made, service, start

from warren.serve.forecast.remaining import OVERDUE_S
from warren.serve.forecast.run_lengths import (
    LengthRules,
    RunLengths,
    TimeLeft,
    lengths_of,
    run_s,
)
from warren.serve.records.jobs import Attempt, JobState, ServiceJob
from warren.serve.schedule.known_lengths import command_kind

RULES = LengthRules(shrink=5, newest=200, shares=True)
LENGTHS = st.floats(0.1, 1e6)


def ran(
    seconds: float = 100, user: str = "ana", name: str = "train", limit: float | None = None,
    cause: str = "exit",
) -> ServiceJob:  # fmt: skip
    """A job that has ended."""
    attempt = Attempt(1, "h", ("d",), 0, 0, round(seconds * NS), cause=cause)
    spec = made(name=name, time_limit_s=limit)
    return ServiceJob("1", 0, user, spec, 0, JobState.FINISHED, attempts=[attempt])


def of(
    *ended: ServiceJob, ran_s: float = 0, user: str = "ana", name: str = "train",
    limit: float | None = None,
) -> TimeLeft:  # fmt: skip
    """How long a job runs on, given ended ones."""
    job = ServiceJob("2", 1, user, made(name=name, time_limit_s=limit), 0)
    return RunLengths(ended, RULES).remaining(job, ran_s)


def probability(found: TimeLeft, seconds: float) -> float:
    """The probability of exactly this time."""
    before = (0.0, *found.up_to)
    return sum(
        up_to - below
        for time, below, up_to in zip(found.times_s, before, found.up_to, strict=False)
        if time == pytest.approx(seconds)
    )


def test_without_history_each_length_up_to_the_limit_is_equally_likely() -> None:
    for ran_s in (0, 1000):
        found = of(limit=3600, ran_s=ran_s)
        for share in (0.1, 0.5, 0.9):
            assert found.quantile(share) == pytest.approx(share * (3600 - ran_s), abs=180)


def test_without_history_and_limit_a_job_runs_twice_as_long_as_so_far_with_probability_a_half() -> (
    None
):
    found = of(ran_s=7200)
    longer = sum(one > 7200 for one in found.times_s)
    assert longer == len(found.times_s) / 2


def test_a_job_past_its_limit_ends_at_once() -> None:
    assert of(ran(500), limit=100, ran_s=100).quantile(0.9) == OVERDUE_S


def test_one_ended_job_gets_one_part_in_six_of_each_group() -> None:
    assert probability(of(ran(300)), 300) == pytest.approx(1 - (5 / 6) ** 3)
    assert probability(of(ran(300), name="other"), 300) == pytest.approx(1 - (5 / 6) ** 2)
    assert probability(of(ran(300), user="ben"), 300) == pytest.approx(1 - 5 / 6)


def test_the_nearest_group_counts_most() -> None:
    own, same, others = [ran(100)] * 50, [ran(200, name="x")] * 50, [ran(300, "ben")] * 50
    all_ = [*own, *same, *others]
    assert of(*all_).quantile(0.5) == 100
    assert of(*all_, user="ben", name="y").quantile(0.5) == 300
    assert {100, 200, 300} <= {*of(*all_, user="cy").times_s}


def test_only_jobs_that_ran_longer_count_once_a_job_has_run_for_a_while() -> None:
    ended = [*[ran(10)] * 50, *[ran(1000)] * 50]
    assert of(*ended).quantile(0.4) == 10
    assert of(*ended, ran_s=100).quantile(0.1) == 900
    assert of(*ended, ran_s=100).quantile(0.5) == 900


def test_jobs_with_limits_stand_for_their_share_of_it() -> None:
    ended = [ran(1800, limit=3600)] * 50
    assert of(*ended, limit=7200).quantile(0.5) == 3600
    assert of(*ended).quantile(0.5) == 1800
    by_time = RunLengths(ended, RULES._replace(shares=False))
    job = ServiceJob("2", 1, "ana", made(name="train", time_limit_s=7200), 0)
    assert by_time.remaining(job).quantile(0.5) == 1800


def test_only_the_newest_jobs_of_a_group_count() -> None:
    found = of(*[ran(100)] * 200, *[ran(9999)] * 300)
    assert found.quantile(0.5) == 100
    assert probability(found, 9999) == 0


def test_attempts_that_were_lost_or_never_ran_say_nothing() -> None:
    assert run_s(ran(5)) == 5
    assert run_s(ran(5, cause="host")) is None
    assert run_s(ran(5, cause="start")) is None
    assert run_s(ran(5, cause="preempt")) is None
    assert of(ran(5, cause="host")) == of()


def test_commands_have_the_shape_of_their_first_words() -> None:
    def shape(*words: str, name: str = "") -> str:
        return command_kind(made(command=words, name=name))

    assert shape("python", "train.py", "--lr", "0.1") == shape("python", "train.py", "--lr", "3")
    assert shape("python", "train.py") != shape("python", "test.py")
    assert shape("x", name="run-12") == shape("y", name="run-7")
    assert len(shape("a" * 10_000)) <= 200


@given(
    st.lists(LENGTHS, max_size=30), st.none() | LENGTHS, LENGTHS | st.just(0.0),
    st.lists(st.floats(0, 1), min_size=2),
)  # fmt: skip
def test_quantiles_rise_and_no_job_ends_in_the_past_or_after_its_limit(
    lengths: list[float], limit: float | None, ran_s: float, shares: list[float]
) -> None:
    ended = [ran(one, limit=limit if index % 2 else None) for index, one in enumerate(lengths)]
    found = of(*ended, limit=limit, ran_s=ran_s)
    times = [found.quantile(one) for one in sorted(shares)]
    assert times == sorted(times)
    assert times[0] > 0
    if limit is not None:
        assert ran_s + times[-1] <= max(limit, ran_s + OVERDUE_S) * (1 + 1e-9)


def test_the_history_of_a_queue_is_its_newest_ended_jobs() -> None:
    queue = service(machine("h", "A100"))
    for at_s in range(0, 1000, 100):
        job = add(queue, at_s=at_s, name="train")
        start(queue, at_s)
        end(queue, job, at_s + 70)
    waits = queue.jobs[add(queue, name="train", at_s=1000)]
    assert lengths_of(queue).remaining(waits).quantile(0.5) == 70
    assert lengths_of(queue).remaining(waits, 71).quantile(0.5) > 71
