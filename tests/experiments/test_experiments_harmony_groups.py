"""Groups in virtual time: what ends when, by hand, and no work is lost or done twice."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
from _harmony_groups import (
    Jobs,
    Rule,
    State,
    busiest,
    harmony,
    isolated,
    naive,
    simulate,
    weighed,
)

from warren.solve.job_groups.regrouping import EndedMember, RunningGroups


def jobs(
    comp: list[float], net: list[float], iterations: list[float], arrival: list[float] | None = None
) -> Jobs:
    """Jobs on four machines, of which each needs one."""
    return Jobs(
        comp_machine_s=np.array(comp),
        net_s=np.array(net),
        iterations=np.array(iterations),
        arrival_s=np.array(arrival or [0.0] * len(comp)),
        least_machines=np.ones(len(comp), dtype=np.int64),
        machines=4,
        profile=np.ones((2, len(comp))),
    )


def together(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
    """All jobs in one group."""
    return RunningGroups(
        group_J=np.zeros(len(state.present), dtype=np.int64), machine_G=np.array([4])
    )


def test_jobs_of_a_group_do_an_iteration_each_in_the_time_of_4_1() -> None:
    # 8 s COMP on four machines are 2 s; alone (2 + 1) s, together max(2 + 1, 1 + 3, 2 + 3) = 4.
    found = simulate(jobs([8.0, 4.0], [1.0, 3.0], [10.0, 20.0]), together)
    assert found.end_s.tolist() == pytest.approx([10 * 4, 10 * 4 + 10 * (1 + 3)])


def test_a_job_that_comes_later_slows_who_is_there_from_then_on() -> None:
    found = simulate(jobs([8.0, 8.0], [1.0, 1.0], [10.0, 1.0], [0.0, 6.0]), together)
    # Two iterations of 3 s, one of 4 s beside the second job, seven of 3 s.
    assert found.end_s.tolist() == pytest.approx([6 + 4 + 21, 10])


def test_who_goes_to_other_machines_loses_the_pause() -> None:
    free = simulate(jobs([8.0, 8.0], [1.0, 1.0], [10.0, 5.0]), isolated())
    lost = simulate(jobs([8.0, 8.0], [1.0, 1.0], [10.0, 5.0]), isolated(), pause_s=7.0)
    # On two machines each (4 + 1) s; then the first has all four.
    assert free.end_s.tolist() == pytest.approx([25 + 5 * 3, 25])
    assert lost.end_s.tolist() == pytest.approx([25 + 5 * 3 + 7, 25])
    assert (lost.moves, lost.regroupings) == (1, 1)


@pytest.mark.parametrize(
    "rule",
    [isolated(), isolated("shortest"), harmony(), harmony(20), busiest, weighed, naive(3, 0)],
)
@pytest.mark.parametrize("held", [False, True])
def test_no_work_is_lost_or_done_twice_and_data_fit_where_they_are_held(
    rule: Rule, held: bool
) -> None:
    random = np.random.default_rng(4)
    some = jobs(
        random.uniform(1, 20, 12).tolist(),
        random.uniform(0.1, 5, 12).tolist(),
        random.integers(1, 30, 12).astype(float).tolist(),
        random.uniform(0, 100, 12).tolist(),
    )
    # Of four machines; what does not fit is an error of the simulation.
    filled = random.uniform(0.2, 1.3, 12)
    if held:
        some = replace(some, filled_machines=filled, least_machines=np.ceil(filled).astype(int))
    found = simulate(some, rule)
    assert np.isfinite(found.end_s).all()
    assert found.cpu_s * 4 == pytest.approx(float(some.comp_machine_s @ some.iterations))


def test_groups_without_a_thought_take_who_fits_in_an_order_that_is_drawn() -> None:
    # Two groups of two machines with two jobs each; then the fifth job comes to the first to end.
    some = jobs([8.0] * 5, [1.0] * 5, [10.0, 10.0, 10.0, 10.0, 20.0])
    held = replace(some, filled_machines=np.array([1.0, 1.0, 1.0, 1.0, 2.0]))
    orders = [np.random.default_rng([seed, 3]).permutation(5).tolist() for seed in range(9)]
    # An order gives each job its turn.
    last = next(seed for seed, order in enumerate(orders) if order[4] == 4)
    found = simulate(held, naive(2, last))
    # In two groups max(4 + 4, 1 + 1) = 8 s an iteration; alone on four machines 3 s, on two 5 s.
    assert found.end_s.tolist() == pytest.approx([80, 80, 80, 80, 80 + 20 * 3])
    first = next(seed for seed, order in enumerate(orders) if order[4] == 0)
    # The fifth has a group of its own, and 5 s an iteration; two have the other for 10 of 8 s.
    ends = sorted(simulate(held, naive(2, first)).end_s[:4].tolist())
    assert ends[:2] == pytest.approx([80, 80])
    with pytest.raises(RuntimeError, match="the data of a group do not fit"):
        simulate(held, together)


def test_jobs_that_come_at_one_instant_are_handled_one_after_the_other() -> None:
    some = jobs([8.0, 0.1, 0.1], [0.1, 1.0, 1.0], [100.0, 50.0, 50.0], [0.0, 5.0, 5.0])
    apart = jobs([8.0, 0.1, 0.1], [0.1, 1.0, 1.0], [100.0, 50.0, 50.0], [0.0, 5.0, 5.0001])
    found, other = simulate(some, harmony()), simulate(apart, harmony())
    assert found.end_s == pytest.approx(other.end_s, abs=0.01)


def test_jobs_that_end_at_one_instant_end_without_a_pause() -> None:
    some = jobs([8.0, 8.0, 8.0], [1.0, 1.0, 1.0], [4.0, 4.0, 9.0])
    found = simulate(some, together, pause_s=50.0)
    assert found.end_s[0] == found.end_s[1]
    assert found.end_s.tolist() == pytest.approx([4 * 6, 4 * 6, 4 * 6 + 5 * 3])


def test_a_job_alone_runs_to_its_end_on_machines_that_hold_its_data() -> None:
    # Three machines each: the one that came first is not stopped for it, nor is the second.
    some = replace(
        jobs([8.0, 8.0, 8.0], [1.0, 1.0, 1.0], [1.0, 9.0, 1.0], [0.0, 0.5, 1.0]),
        least_machines=np.array([2, 2, 3]),
    )
    found = simulate(some, isolated())
    # The second has its two machines, then four when the first has ended; the third waits for it.
    assert found.end_s[1] < found.end_s[2]
    assert found.end_s[2] == pytest.approx(found.end_s[1] + 3)
    short = simulate(some, isolated("shortest"))
    assert short.end_s[2] < short.end_s[1]


def test_profiles_decide_and_true_times_pass() -> None:
    random = np.random.default_rng(7)
    some = jobs(
        random.uniform(1, 20, 9).tolist(),
        random.uniform(0.1, 5, 9).tolist(),
        [10.0 + j for j in range(9)],
    )
    wrong = replace(some, profile=np.exp(random.normal(0, 2, (2, 9))))
    assert simulate(some, busiest).end_s.tolist() != simulate(wrong, busiest).end_s.tolist()
    assert simulate(some, together).end_s.tolist() == simulate(wrong, together).end_s.tolist()
