"""List dispatch against a slow, plain version of the same rule, and its promises."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warren.solve.dispatch import Problem, dispatch

Row = tuple[int, int, int, int, int]


def random_problem(seed: int, stretch: int = 1, fits: float = 0.8) -> Problem:
    rng = random.Random(seed)
    types = rng.randint(1, 3)
    type_D = [rng.randrange(types) for _ in range(rng.randint(1, 5))]
    jobs = rng.randint(1, 6)
    top = rng.choice([3, 50])
    fits_JT = np.array([[rng.random() < fits for _ in range(types)] for _ in range(jobs)])
    fits_JT[np.arange(jobs), type_D[0]] = True
    return Problem(
        arrival_ns_J=np.array(sorted(rng.choice([0, 0, 7, 30]) for _ in range(jobs))),
        scale_J=np.array([rng.randint(1, 4) for _ in range(jobs)]),
        rounds_J=np.array([rng.randint(1, 5) for _ in range(jobs)]),
        priority_J=np.array([float(rng.randint(0, 3)) for _ in range(jobs)]),
        priority_step_J=np.array([float(rng.randint(0, 1)) for _ in range(jobs)]),
        comp_ns_JT=np.array([[rng.randint(1, top) for _ in range(types)] for _ in range(jobs)]),
        sync_ns_JT=np.array([[rng.randint(0, top) for _ in range(types)] for _ in range(jobs)]),
        fits_JT=fits_JT,
        type_D=np.array(type_D),
        stretch_rounds_J=np.full(jobs, stretch),
    )


def plain_dispatch(p: Problem) -> tuple[list[tuple[int, int, int, int]], list[int]]:
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
        order = sorted(jobs, key=lambda j: (p.priority_J[j] + round_[j] * p.priority_step_J[j], j))
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
    rows, finish_ns_J = dispatch(problem)
    expected, finish = plain_dispatch(problem)
    assert [(j, r, k, d) for j, r, _, k, d in rows.T.tolist()] == expected
    assert finish_ns_J.tolist() == finish
