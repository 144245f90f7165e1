"""List dispatch against a slow, plain version of the same rule, and its promises."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warren.solve.common.instance import Instance
from warren.solve.lists.earliest_completion import dispatch
from warren.solve.lists.execute_plan import OK, PlanTables, execute
from warren.solve.lists.plan_units import PlanRows

Problem = tuple[Instance, np.ndarray, np.ndarray]
Row = tuple[int, int, int, int, int]


def random_problem(seed: int, stretch: int = 1, fits: float = 0.8) -> Problem:
    """An instance, and the priorities of its jobs: of the first round, and what each adds."""
    rng = random.Random(seed)
    types = rng.randint(1, 3)
    type_D = [rng.randrange(types) for _ in range(rng.randint(1, 5))]
    jobs = rng.randint(1, 6)
    top = rng.choice([3, 50])
    fits_JT = np.array([[rng.random() < fits for _ in range(types)] for _ in range(jobs)])
    fits_JT[np.arange(jobs), type_D[0]] = True
    instance = Instance(
        arrival_ns_J=np.array(sorted(rng.choice([0, 0, 7, 30]) for _ in range(jobs))),
        weight_J=np.ones(jobs),
        scale_J=np.array([rng.randint(1, 4) for _ in range(jobs)]),
        rounds_J=np.array([rng.randint(1, 5) for _ in range(jobs)]),
        comp_ns_JT=np.array([[rng.randint(1, top) for _ in range(types)] for _ in range(jobs)]),
        sync_ns_JT=np.array([[rng.randint(0, top) for _ in range(types)] for _ in range(jobs)]),
        fits_JT=fits_JT,
        type_D=np.array(type_D),
        stretch_rounds_J=np.full(jobs, stretch),
    )
    priority_J = np.array([float(rng.randint(0, 3)) for _ in range(jobs)])
    return instance, priority_J, np.array([float(rng.randint(0, 1)) for _ in range(jobs)])


def plain_dispatch(
    p: Instance, priority_J: np.ndarray, step_J: np.ndarray
) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """The rule again at grain 1, by looking at everything at every instant."""
    jobs, devices = range(len(p.scale_J)), range(len(p.type_D))
    free = [0 for _ in devices]
    round_, left = [0 for _ in jobs], [int(s) for s in p.scale_J]
    ready = [int(a) for a in p.arrival_ns_J]
    barrier, finish = [0 for _ in jobs], [-1 for _ in jobs]
    rows: list[tuple[int, int, int, int]] = []
    now = 0
    while any(f < 0 for f in finish):
        taken = list(free)
        order = sorted(jobs, key=lambda j: (priority_J[j] + round_[j] * step_J[j], j))
        for job in order:
            if finish[job] >= 0 or ready[job] > now:
                continue
            for _ in range(left[job]):
                device = min(
                    (d for d in devices if p.fits_JT[job, p.type_D[d]]),
                    key=lambda d: (
                        max(now, taken[d])
                        + p.comp_ns_JT[job, p.type_D[d]]
                        + p.sync_ns_JT[job, p.type_D[d]],
                        p.comp_ns_JT[job, p.type_D[d]],
                        p.type_D[d],
                        taken[d],
                        d,
                    ),
                )
                kind = p.type_D[device]
                start = max(now, taken[device])
                taken[device] = start + int(p.comp_ns_JT[job, kind])
                if start > now:
                    continue
                free[device] = taken[device]
                rows.append((job, round_[job], int(p.scale_J[job]) - left[job], device))
                left[job] -= 1
                barrier[job] = max(barrier[job], free[device] + int(p.sync_ns_JT[job, kind]))
        for job in jobs:
            if left[job] == 0 and finish[job] < 0:
                ready[job], barrier[job] = barrier[job], 0
                round_[job], left[job] = round_[job] + 1, int(p.scale_J[job])
                if round_[job] == p.rounds_J[job]:
                    finish[job] = ready[job]
        later = [t for t in free + ready if t > now]
        now = min(later) if later else now
    return rows, finish


@pytest.mark.parametrize("seed", range(150))
def test_dispatch_is_the_plain_rule(seed: int) -> None:
    problem = random_problem(seed)
    rows, finish_ns_J = dispatch(*problem)
    expected, finish = plain_dispatch(*problem)
    assert [(j, r, k, d) for j, r, _, k, d in rows.T.tolist()] == expected
    assert finish_ns_J.tolist() == finish


def run_of(instance: Instance, rows: np.ndarray) -> np.ndarray:
    """Finish times of the dispatched rows, by the kernel that runs plans."""
    jobs = len(instance.scale_J)
    tables = PlanTables(
        arrival_ns_J=instance.arrival_ns_J,
        scale_J=instance.scale_J,
        rounds_J=instance.rounds_J,
        type_D=instance.type_D,
        comp_ns_JT=instance.comp_ns_JT,
        sync_ns_JT=instance.sync_ns_JT,
        comp_key_J=np.zeros(jobs, np.uint64),
        sync_key_J=np.zeros(jobs, np.uint64),
        cv_ppm=0,
        is_lane=False,
    )
    outcome = execute(PlanRows(*(np.ascontiguousarray(row) for row in rows)), tables)
    assert outcome.status == OK
    return outcome.finish_ns_J


@pytest.mark.parametrize("stretch", [1, 2, 3, 100])
def test_running_the_rows_ends_when_dispatch_said_or_earlier(stretch: int) -> None:
    for seed in range(60):
        problem = random_problem(seed, stretch)
        rows, finish_ns_J = dispatch(*problem)
        instance = problem[0]
        assert (instance.fits_JT[rows[0], instance.type_D[rows[4]]]).all()
        assert (run_of(instance, rows) <= finish_ns_J).all()


def test_a_job_that_fits_nowhere_or_has_no_known_rounds_is_left_out() -> None:
    instance, priority_J, step_J = random_problem(1)
    instance.fits_JT[0] = False
    instance.comp_ns_JT[0] = instance.sync_ns_JT[0] = 2**62
    instance.rounds_J[-1] = -1
    priority_J[1] = np.inf
    rows, finish_ns_J = dispatch(instance, priority_J, step_J)
    assert finish_ns_J[0] == finish_ns_J[-1] == -1
    assert not np.isin(rows[0], [0, len(finish_ns_J) - 1]).any()
    assert (finish_ns_J[1:-1] >= 0).all()


def test_inputs_may_be_read_only_and_stay_as_they_are() -> None:
    problem = random_problem(2)
    columns = [*problem[0], *problem[1:]]
    before = [column.copy() for column in columns]
    for column in columns:
        column.flags.writeable = False
    dispatch(*problem)
    for column, copy in zip(columns, before, strict=True):
        np.testing.assert_array_equal(column, copy)
