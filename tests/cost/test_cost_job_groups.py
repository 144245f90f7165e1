"""Closed forms of jobs that share machines, against numbers by hand and an event simulation."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cost.job_groups import (
    CPU_WEIGHT,
    Utilization,
    cluster_utilization,
    comp_machine_s_J,
    comp_s_J,
    group_iteration_s,
    utilization,
)

COMP, COMM = range(2)


def steady_iteration_s(steps: list[tuple[float, float]], rounds: int, last: int) -> float:
    """The mean of the last rounds of jobs on two FIFO lanes, from event to event.

    A COMM is one step, push and next pull together; ``test_solve_queued_steps`` has them apart.
    A lane does one step at a time. A job's COMM is queued when its COMP is done, and its next COMP
    when its COMM is done. The last rounds are the first job's.
    """
    queues: tuple[deque[int], deque[int]] = deque(range(len(steps))), deque()
    running: list[tuple[float, int] | None] = [None, None]
    now, ends = 0.0, list[float]()
    while len(ends) < rounds:
        for lane in (COMP, COMM):
            if running[lane] is None and queues[lane]:
                job = queues[lane].popleft()
                running[lane] = now + steps[job][lane], job
        comp, comm = running
        # The step that ends first; of two that end at once, COMP.
        lane = COMP if comm is None or (comp is not None and comp[0] <= comm[0]) else COMM
        done = running[lane]
        assert done is not None
        now = done[0]
        running[lane] = None
        queues[1 - lane].append(done[1])
        if lane == COMM and done[1] == 0:
            ends.append(now)
    return (ends[-1] - ends[-1 - last]) / last


@pytest.mark.parametrize("seed", range(120))
def test_fifo_lanes_with_constant_times_have_the_group_iteration_of_4_1(seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs = int(random.integers(1, 8))
    comp_J, net_J = random.gamma(1.5, 1.0, (2, jobs)) * random.uniform(0.3, 3.0, (2, 1))
    if seed % 3 == 0:  # job-bound
        comp_J[0] += 2 * comp_J.sum()
        net_J[0] += 2 * net_J.sum()
    steps = list(zip(comp_J.tolist(), net_J.tolist(), strict=True))
    found = steady_iteration_s(steps, rounds=3000, last=840)
    assert found == pytest.approx(group_iteration_s(comp_J, net_J), rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_fifo_lanes_have_it_too_where_all_terms_of_4_1_are_near_each_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    # Multiples of 1 / 8, so that sums are exact, and many are equal.
    steps = (random.integers(1, 5, (int(random.integers(2, 6)), 2)) / 8).tolist()
    comp_J, net_J = np.array(steps).T
    found = steady_iteration_s([(c, n) for c, n in steps], rounds=2000, last=840)
    assert found == pytest.approx(group_iteration_s(comp_J, net_J), rel=1e-12)


def test_4_1_is_each_of_its_terms_in_turn() -> None:
    def iteration(comp: list[float], net: list[float]) -> float:
        return group_iteration_s(np.array(comp), np.array(net))

    assert iteration([3, 4], [1, 2]) == 7  # CPU-bound
    assert iteration([1, 2], [3, 4]) == 7  # network-bound, Fig. 4.7a
    assert iteration([5, 1], [5, 1]) == 10  # job-bound, Fig. 4.7b
    assert iteration([], []) == 0


def test_4_2_comp_falls_with_machines_from_what_was_measured() -> None:
    measured = comp_machine_s_J(np.array([3.0, 5.0]), np.array([16.0, 4.0]))
    assert measured.tolist() == [48, 20]
    assert comp_s_J(measured, 8).tolist() == [6, 2.5]
    with pytest.raises(ValueError, match="one machine"):
        comp_s_J(measured, 0)


def test_4_3_and_4_4_by_hand() -> None:
    cpu_bound = utilization(np.array([3.0, 5.0]), np.array([1.0, 3.0]))
    job_bound = utilization(np.array([6.0, 1.0]), np.array([4.0, 1.0]))
    assert cpu_bound == (1.0, 0.5)
    assert job_bound == pytest.approx((0.7, 0.5))
    both = [(3, cpu_bound), (1, job_bound)]
    assert cluster_utilization(both) == pytest.approx((3.7 / 4, 0.5))
    assert cluster_utilization(both, machines=8) == pytest.approx((3.7 / 8, 0.25))
    assert utilization(np.zeros(2), np.zeros(2)) == cluster_utilization([]) == (0.0, 0.0)


@given(st.floats(0, 1), st.floats(0.001, 1))
def test_cpu_counts_more_than_the_network(net: float, more: float) -> None:
    assert CPU_WEIGHT > 0.5
    assert Utilization(net + more, net).weighted() > Utilization(net, net + more).weighted()
