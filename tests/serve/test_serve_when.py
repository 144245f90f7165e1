"""Expected starts and ends against plays by brute force."""

from __future__ import annotations

from heapq import heapreplace
from itertools import product
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_tools import NS, add, apply, end, machine, service, start

from warren.serve.forecast import when as when_module
from warren.serve.forecast.run_lengths import RunLengths, TimeLeft
from warren.serve.forecast.when import Outlook, foreseen, outlook, when
from warren.serve.queue.state import Queue
from warren.serve.records.events import JobHeld
from warren.serve.records.forecasts import Spread
from warren.serve.records.jobs import Dependency, ServiceJob


class Equally(RunLengths):
    """Each of some lengths is equally likely; by job, and as they are for others."""

    def __init__(self, *lengths: float, **by_job: float) -> None:
        super().__init__(())
        self.lengths, self.by_job = sorted(lengths), by_job

    def remaining(self, job: ServiceJob, ran_s: float = 0.0) -> TimeLeft:
        own = self.by_job.get(f"j{job.id}")
        left = [one - ran_s for one in ([own] if own is not None else self.lengths)]
        return TimeLeft(tuple(left), tuple((index + 1) / len(left) for index in range(len(left))))


def looked(queue: Queue, job: str, lengths: RunLengths, now_s: float = 0) -> Outlook | None:
    return outlook(queue, queue.jobs[job], int(now_s * NS), "strict", lengths)


def exactly(start_s: float, end_s: float) -> Outlook:
    return Outlook(Spread(start_s, start_s, start_s), Spread(end_s, end_s, end_s))


@given(st.lists(st.integers(1, 50), min_size=3, max_size=8), st.integers(1, 3))
def test_known_lengths_give_the_start_that_a_list_schedule_has(
    lengths: list[int], devices: int
) -> None:
    queue = service(machine("h", *["A100"] * devices))
    jobs = [add(queue) for _ in lengths]
    start(queue)
    known = Equally(**{f"j{job}": one for job, one in zip(jobs, lengths, strict=True)})
    free = [0] * devices
    for job, length in zip(jobs, lengths, strict=True):
        begin = free[0]
        heapreplace(free, begin + length)
        found = looked(queue, job, known)
        assert found is not None
        assert found.end == Spread(begin + length, begin + length, begin + length)
        assert found.start.expected_s == begin


def test_plays_find_the_quantiles_of_all_combinations_of_lengths() -> None:
    queue = service(machine("h", "A100"))
    jobs = [add(queue) for _ in range(3)]
    start(queue)
    lengths = (100.0, 300.0)
    all_ = sorted(sum(one) for one in product(lengths, repeat=2))
    found = looked(queue, jobs[2], Equally(*lengths))
    assert found is not None
    assert found.start == Spread(all_[0], median(all_), all_[-1])
    assert found == looked(queue, jobs[2], Equally(*lengths))


def test_a_running_job_has_the_rest_of_its_length_left() -> None:
    queue = service(machine("h", "A100"))
    job = add(queue)
    start(queue)
    found = looked(queue, job, Equally(100, 200, 300), now_s=50)
    assert found == Outlook(Spread(-50, -50, -50), Spread(50, 150, 250))


def test_jobs_that_are_held_or_have_ended_have_no_outlook() -> None:
    queue = service(machine("h", "A100"))
    first, second = add(queue), add(queue)
    start(queue)
    apply(queue, [JobHeld(time_ns=0, job=second)])
    assert looked(queue, second, Equally(1)) is None
    end(queue, first, 5)
    assert looked(queue, first, Equally(1)) is None
    third = add(queue, after=(Dependency(second),))
    assert looked(queue, third, Equally(1)) is None


def test_a_job_starts_after_those_it_depends_on() -> None:
    queue = service(machine("h", "A100", "A100"))
    first = add(queue)
    second = add(queue, after=(Dependency(first),))
    start(queue)
    assert looked(queue, second, Equally(40)) == exactly(40, 80)


def test_only_the_first_jobs_of_a_long_queue_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = service(machine("h", "A100"))
    jobs = [add(queue) for _ in range(10)]
    start(queue)
    whole = looked(queue, jobs[3], Equally(100, 300))
    monkeypatch.setattr(when_module, "PLAYED_MOST", 4)
    assert looked(queue, jobs[3], Equally(100, 300)) == whole
    assert looked(queue, jobs[9], Equally(100, 300)) is None
    assert not any(queue.jobs[one].state == "held" for one in jobs)


def test_past_errors_correct_what_is_said() -> None:
    queue = service(machine("h", "A100"))
    first, second = add(queue, time_limit_s=1000), add(queue, time_limit_s=1000)
    start(queue)
    plain = when(queue, queue.jobs[second], 0, "strict")
    assert plain is not None
    assert plain.start_low_s < plain.start_s < plain.start_high_s
    assert plain.end_low_s < plain.end_s < plain.end_high_s
    now = Spread(100.0, 200.0, 300.0)
    for number in range(200):
        queue.forecasts.starts.note(str(number), 0, now, plain_correction(queue))
        queue.forecasts.starts.came(str(number), 400 * NS)  # 2 widths late, each time
    late = when(queue, queue.jobs[second], 0, "strict")
    assert late is not None
    assert late.start_s > plain.start_high_s
    assert late.end_s == plain.end_s
    event = foreseen(queue, second, exactly(1, 2), 0)
    assert event.start_by.expected == 2
    assert event.end_by.expected == 0
    running = when(queue, queue.jobs[first], 0, "strict")
    assert running is not None
    assert running.start_s == 0


def plain_correction(queue: Queue) -> object:
    return queue.forecasts.ends.correction(0)
