"""The simulator against queueing theory: one device, jobs of one task, first come first served."""

from __future__ import annotations

import numpy as np
import pytest
from sim_worlds import outcome_of, run_events, world_of

from warren.model.decision import Assignment

pytestmark = pytest.mark.slow

JOBS = 20_000
MEAN_SERVICE_NS = 1_000_000


def mean_wait_ns(load: float, seed: int, *, exponential: bool) -> float:
    """Mean time from arrival to start with Poisson arrivals."""
    generator = np.random.default_rng(seed)
    arrival_ns = np.cumsum(generator.exponential(MEAN_SERVICE_NS / load, size=JOBS)).astype(int)
    service_ns = np.full(JOBS, MEAN_SERVICE_NS)
    if exponential:
        service_ns = generator.exponential(MEAN_SERVICE_NS, size=JOBS).astype(int)
    jobs = [(arrival, 1, 1) for arrival in arrival_ns.tolist()]
    world = world_of(jobs, service_ns[:, None].tolist(), [[0]] * JOBS, ["A"])
    events = run_events(world, tuple(Assignment(0, job, 0, 1, (0,)) for job in range(JOBS)))
    timeline = outcome_of(world, events).timeline
    return float(np.mean(timeline.start_ns_R - arrival_ns[timeline.job_R]))


# Waits of neighbors are correlated. For M/M/1 the mean of n waits has the relative variance
# (2 + 5 r - 4 r^2 + r^3) / (r (1 - r)^2 n) at load r (Daley 1968): a standard error of 2.2 % at
# 0.5 and 3.2 % at 0.7 for the mean of three runs; M/D/1 varies less. 10 % is three of them, and
# with fixed seeds the test says the same every day.
@pytest.mark.parametrize("load", [0.5, 0.7])
def test_exponential_service_waits_as_m_m_1(load: float) -> None:
    mean = np.mean([mean_wait_ns(load, seed, exponential=True) for seed in range(3)])
    assert mean == pytest.approx(load / (1 - load) * MEAN_SERVICE_NS, rel=0.1)


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_fixed_service_waits_as_m_d_1(load: float) -> None:
    mean = np.mean([mean_wait_ns(load, seed, exponential=False) for seed in range(3)])
    assert mean == pytest.approx(load / (2 * (1 - load)) * MEAN_SERVICE_NS, rel=0.1)
