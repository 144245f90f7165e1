"""Rings timed by the kernel that policies plan with: the simulator's own times, to the ns."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from sim_worlds import World
from test_sim_rings import Rows, S, ends_s, gang, world

from warren.cost.ring import bandwidth_J
from warren.cost.run_rings import host_of_D, ring_exchanges, ring_network
from warren.model.costs import CostTable
from warren.solve.rings.timing import RingGangs, links, ring_times

pytestmark = pytest.mark.slow


def kernel_ends_s(one: World, rows: Rows) -> list[float]:
    cluster, jobs = one.run.cluster, one.run.workload.jobs
    network = ring_network(cluster)
    first_J = np.append(0, np.cumsum([job.scale for job in jobs]))
    shared = cluster.network.model == "contention"
    gangs = RingGangs(
        first_J=first_J,
        ready_ns_J=np.array([job.arrival_ns for job in jobs]),
        rounds_J=np.array([job.rounds for job in jobs]),
        # Copies, as policies pass: for arrays that are read-only all kernels would be made again.
        comp_ns_JT=np.array(one.costs.comp_ns_JT),
        sync_ns_JT=np.array(one.costs.sync_ns_JT),
        shared_J=np.full(len(jobs), shared),
        sent_bytes_J=ring_exchanges(jobs, one.costs).sent_bytes_J,
    )
    count = len(cluster.devices)
    shape = links(
        np.array(cluster.type_of_device), host_of_D(cluster), len(cluster.hosts),
        bandwidth_J(network, np.arange(count + 1)), network.xi2_s,
    )  # fmt: skip
    device_A = np.zeros(first_J[-1], dtype=np.int64)
    for job, _, _, shard, device in rows:
        device_A[first_J[job] + shard] = device
    order = np.array(list(dict.fromkeys(row[0] for row in rows)), dtype=np.int64)
    found: list[float] = (ring_times(gangs, shape, order, device_A) / S).tolist()
    return found


def drawn(seed: int, model: str) -> tuple[World, Rows]:
    """Up to a dozen rings in an order of their own, with costs and bytes of their own."""
    draw = random.Random(seed)
    held = [draw.randint(1, 5) for _ in range(draw.randint(1, 5))]
    count = sum(held)
    jobs = sorted(
        (draw.choice([0, 0, 0, 1, 7, 30]) * S + draw.randrange(S) * draw.randint(0, 1),
         draw.randint(1, min(5, count)), draw.randint(1, 30)) for _ in range(draw.randint(1, 12))
    )  # fmt: skip
    one = world(held, jobs, model=model)
    shape = one.costs.comp_ns_JT.shape
    costs = CostTable(
        comp_ns_JT=np.array([draw.randint(1, S) for _ in jobs]).reshape(shape),
        sync_ns_JT=np.array([draw.randint(0, S) for _ in jobs]).reshape(shape),
        fits_JT=one.costs.fits_JT,
        model_bytes_J=np.array([draw.randrange(3 * 10**6) for _ in jobs]),
    )
    order = draw.sample(range(len(jobs)), len(jobs))
    rows = [
        row for k in order for row in gang(k, draw.sample(range(count), jobs[k][1]), jobs[k][2])
    ]
    return World(replace(one.run), costs), rows


@pytest.mark.parametrize("model", ["contention", "constant"])
def test_the_kernel_times_rings_as_the_simulator_does(model: str) -> None:
    for seed in range(150):
        one, rows = drawn(seed, model)
        assert kernel_ends_s(one, rows) == ends_s(one, rows), seed


def test_rings_that_do_not_run_have_no_end() -> None:
    one = world([2, 2], [(0, 2, 4), (4 * S, 2, 1)])
    assert kernel_ends_s(one, gang(0, [0, 2], 4))[1] < 0
