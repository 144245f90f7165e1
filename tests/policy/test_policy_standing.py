"""A line with its jobs beside it, against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.policy.place.hlas.waiting_jobs import QueuePosition, WaitingJobs

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), max_size=40)


@given(STEPS)
def test_a_standing_line_is_a_sorted_list_whose_jobs_stand_beside_it(
    steps: list[tuple[int, int, int]],
) -> None:
    line, plain = WaitingJobs(), list[QueuePosition]()
    for kind, queue, job in steps:
        before = line.copy()
        spots = before.spots.copy()
        if kind == 0:
            plain = [one for one in plain if one.job != job]
            line.leave(job)
        elif kind == 1 and plain:
            del plain[job % len(plain)]
            line.drop(job % len(line))
        elif (
            job not in {one.job for one in plain} or QueuePosition(float(queue), 0.0, job) in plain
        ):
            plain = sorted({*plain, QueuePosition(float(queue), 0.0, job)})
            line.stand(QueuePosition(float(queue), 0.0, job))
        assert line.spots == plain
        assert line.jobs.tolist() == [one.job for one in plain]
        assert line.first_of(float(queue)) == sum(one.queue < queue for one in plain)
        assert before.spots == spots
        assert before.jobs.tolist() == [one.job for one in spots]
