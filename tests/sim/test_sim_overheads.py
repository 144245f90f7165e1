"""Measured overheads: what they add to a task while so many devices are at work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sim_worlds import World, world_of

from warren.model.errors import SpecError
from warren.model.measured import Overheads
from warren.model.units import NS_PER_S
from warren.sim.build import sim_port
from warren.sim.shared_cpu import processor_ns, raised_costs, raised_ns

MS = 10**6
MEASURED = Overheads(
    cores=2,
    dispatch_ns=MS,
    task_cpu_ns=2 * MS,
    round_cpu_ns=4 * MS,
    task_cpu_bytes_per_s=1e9,
    round_cpu_bytes_per_s=5e8,
    slowdown=1.5,
)


def world(devices: int = 2, overheads: Overheads | None = MEASURED) -> World:
    """Three jobs; the last fits type A alone."""
    jobs = [(0, 1, 4), (0, 2, 3), (5 * MS, 3, 2)]
    comp = [[20 * MS, 30 * MS], [10 * MS, 40 * MS], [15 * MS, -1]]
    sync = [[9 * MS, 9 * MS], [1 * MS, 0], [3 * MS, -1]]
    types = (["A", "B"] * devices)[:devices]
    made = world_of(jobs, comp, sync, types)
    return World(
        replace(made.run, cluster=replace(made.run.cluster, overheads=overheads)), made.costs
    )


def test_a_task_on_a_full_machine_waits_for_the_processor_time_of_warren_itself() -> None:
    # 20 ms compute for 30 ms beside another device; 5 ms of Warren's own on the same core.
    assert raised_ns(MEASURED, 2, 20 * MS, 9 * MS, 5 * MS) == (35 * MS, 8 * MS)


def test_on_a_machine_with_cores_to_spare_only_handing_over_takes_the_device() -> None:
    assert raised_ns(MEASURED, 1, 20 * MS, 9 * MS, 5 * MS) == (21 * MS, 8 * MS)


def test_more_devices_than_cores_share_them() -> None:
    # (30 + 5) ms twice on each of two cores.
    assert raised_ns(MEASURED, 4, 20 * MS, 9 * MS, 5 * MS) == (70 * MS, 8 * MS)


def test_handing_over_is_the_least_that_is_added() -> None:
    assert raised_ns(MEASURED, 2, 20 * MS, 9 * MS, MS // 2) == (31 * MS, 8 * MS)


def test_a_synchronization_never_takes_less_than_nothing() -> None:
    assert raised_ns(MEASURED, 2, 20 * MS, MS // 2, 5 * MS) == (35 * MS, 0)


def test_with_cores_to_spare_a_job_alone_takes_what_was_measured_alone() -> None:
    comp_ns, sync_ns = raised_ns(MEASURED, 1, 20 * MS, 9 * MS, 5 * MS)
    assert comp_ns + sync_ns == 29 * MS


def test_a_machine_of_one_core_is_always_full() -> None:
    one = replace(MEASURED, cores=1, slowdown=1.0)
    assert raised_ns(one, 1, 20 * MS, 9 * MS, 5 * MS) == (25 * MS, 8 * MS)


def test_a_barrier_is_shared_by_the_tasks_of_its_round_and_bytes_cost_time() -> None:
    assert processor_ns(MEASURED, 0, 1) == 6 * MS
    assert processor_ns(MEASURED, 0, 4) == 3 * MS
    assert processor_ns(MEASURED, 10**6, 2) == (2 + 1 + (4 + 2) / 2) * MS
    free = replace(MEASURED, task_cpu_bytes_per_s=None, round_cpu_bytes_per_s=None)
    assert processor_ns(free, 10**9, 1) == 6 * MS


def test_every_job_is_raised_by_its_own_bytes_and_scale() -> None:
    made = world()
    costs = replace(made.costs, model_bytes_J=np.array([0, 10**6, 0]))
    true = raised_costs(made.run, costs, 2)
    # o = 2 + 4 = 6; (2 + 1) + (4 + 2) / 2 = 6; 2 + 4 / 3 ms.
    assert true.comp_ns_JT[0].tolist() == [36 * MS, 51 * MS]
    assert true.comp_ns_JT[1].tolist() == [21 * MS, 66 * MS]
    assert true.comp_ns_JT[2, 0] == round(22.5 * MS + (2 + 4 / 3) * MS)
    assert true.comp_ns_JT[2, 1] == costs.comp_ns_JT[2, 1]
    assert true.sync_ns_JT[0].tolist() == [8 * MS, 8 * MS]


def test_processor_time_measured_with_a_row_goes_before_the_constants() -> None:
    made = world()
    known = np.full((3, 2), -1)
    known[0, 0] = 3 * MS
    true = raised_costs(made.run, replace(made.costs, overhead_ns_JT=known), 2)
    assert true.comp_ns_JT[0].tolist() == [33 * MS, 51 * MS]
    assert true.sync_ns_JT[0].tolist() == [8 * MS, 8 * MS]


def test_what_no_clock_can_count_is_refused() -> None:
    # Alone it would be short: it is refused for what it may take while both devices are at work.
    made = world_of([(0, 1, 10**9)], [[MS]], [[0]], ["A", "A"])
    slow = Overheads(cores=2, task_cpu_ns=3600 * NS_PER_S)
    run = replace(made.run, cluster=replace(made.run.cluster, overheads=slow))
    with pytest.raises(SpecError, match="job job-0: with the overheads its tasks"):
        sim_port(run, made.costs)
