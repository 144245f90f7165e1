"""Features of a simulation two by two: rings with noise, stretches, overheads and copies.

Numbers are by hand, or from the second simulations of rings (``test_sim_rings``, ``fluid_worlds``),
which are told what a round computes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from contention_worlds import SPARE, copying, on
from fluid_worlds import fluid, step_by_step
from sim_worlds import World, assignments_of, drain, plan_of, world_of
from test_sim_rings import Rows, S, ends_s, gang, round_by_round, world

from warren.model.decision import Assignment
from warren.model.draws import COMP, SYNC, stream_key
from warren.model.events import AnyEvent, RoundsDone, TaskDropped, TasksDone
from warren.model.measured import Overheads
from warren.model.run import Truth
from warren.sim.build import sim_port
from warren.sim.shared_cpu import raised_costs
from warren.sim.task_durations import factor_ppm, scaled

SHARED = Overheads(cores=3, dispatch_ns=S, task_cpu_ns=5 * S, slowdown=1.5)
"""What of it is for servers says nothing of rings."""
SPARE_FREE = Overheads(cores=9)
"""A machine that counts, and where nothing comes of it."""
Jobs = list[tuple[int, int, int]]
Counted = Callable[[World, Rows, Callable[[int, int, int], int]], list[float]]


def drawn(seed: int) -> tuple[list[int], Jobs, Rows]:
    """Hosts, rings that come at whole seconds and later, and their places."""
    draw = random.Random(seed)
    held = [draw.randint(1, 4) for _ in range(draw.randint(1, 4))]
    jobs = sorted(
        (draw.choice([0, 0, 1, 7, 30]) * S + draw.randrange(S) * draw.randint(0, 1),
         draw.randint(1, min(4, sum(held))), draw.randint(1, 12))
        for _ in range(draw.randint(1, 8))
    )  # fmt: skip
    rows = [
        row for k, (_, scale, rounds) in enumerate(jobs)
        for row in gang(k, draw.sample(range(sum(held)), scale), rounds)
    ]  # fmt: skip
    return held, jobs, rows


def priced(one: World, rows: Rows, comp_ns: Callable[[int, int, int], int]) -> list[float]:
    return [end / S for end in round_by_round(one, rows, comp_ns=comp_ns)]


def flowing(one: World, rows: Rows, comp_ns: Callable[[int, int, int], int]) -> list[float]:
    return step_by_step(one, rows, comp_ns=comp_ns)


BOTH = pytest.mark.parametrize(("make", "counted"), [(world, priced), (fluid, flowing)])


@BOTH
@pytest.mark.parametrize("seed", range(20))
def test_rings_with_noise_compute_as_long_as_their_slowest_rank(
    seed: int, make: Callable[[list[int], Jobs], World], counted: Counted
) -> None:
    held, jobs, rows = drawn(seed)
    one = make(held, jobs)
    noisy = World(replace(one.run, truth=Truth(task_cv=0.3, seed=seed)), one.costs)

    def comp_ns(job: int, at: int, devices: int) -> int:
        key = stream_key(seed, COMP, job)
        return max(scaled(S, factor_ppm(key, at, k, 300_000)) for k in range(jobs[job][1]))

    assert ends_s(noisy, rows) == pytest.approx(counted(one, rows, comp_ns), abs=1e-6)


def test_without_a_model_of_links_noise_is_in_the_exchange_too() -> None:
    one = world([2, 2], [(0, 2, 30)], model="constant")
    noisy = World(replace(one.run, truth=Truth(task_cv=0.3, seed=4)), one.costs)

    def longest_ns(kind: int, time_ns: int, at: int) -> int:
        key = stream_key(4, kind, 0)
        return max(scaled(time_ns, factor_ppm(key, at, k, 300_000)) for k in range(2))

    expected = sum(longest_ns(COMP, S, at) + longest_ns(SYNC, 3 * S, at) for at in range(30))
    assert ends_s(noisy, gang(0, [0, 2], 30)) == [expected / S]


def shared_ns(job: int, at: int, devices: int) -> int:
    """Three cores: 1 s, 1.25 s for two at work, 1.5 s for three, then by processor time."""
    computing_s = 1 + 0.5 * (min(devices, 3) - 1) / 2
    return round(computing_s * max(1.0, devices / 3) * S)


@BOTH
@pytest.mark.parametrize("seed", range(30))
def test_ranks_share_processors_and_a_change_counts_from_the_next_round_on(
    seed: int, make: Callable[[list[int], Jobs], World], counted: Counted
) -> None:
    held, jobs, rows = drawn(seed)
    one = make(held, jobs)
    found = ends_s(on(SHARED, one), rows)
    assert found == pytest.approx(counted(one, rows, shared_ns), abs=1e-6)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("overheads", [None, SHARED])
@pytest.mark.parametrize("make", [world, fluid])
def test_rings_end_alike_however_their_rounds_are_cut_into_stretches(
    make: Callable[[list[int], Jobs], World], overheads: Overheads | None, noisy: bool
) -> None:
    for seed in range(12):
        draw = random.Random(seed)
        held, jobs, rows = drawn(seed)
        one = make(held, jobs) if overheads is None else on(overheads, make(held, jobs))
        if noisy:
            one = World(replace(one.run, truth=Truth(task_cv=0.3, seed=seed)), one.costs)
        cut = Rows()
        for job, (_, _, rounds) in enumerate(jobs):
            devices, at = [row[4] for row in rows if row[0] == job], 0
            while at < rounds:
                length = min(rounds - at, draw.randint(1, 5))
                cut += gang(job, devices, length, at)
                at += length
        assert ends_s(one, cut) == pytest.approx(ends_s(one, rows), abs=1e-6)


def mixed(one: World, servers: set[int]) -> World:
    """These jobs have servers."""
    jobs = tuple(
        replace(job, sync="ps" if job.index in servers else "ring") for job in one.run.workload.jobs
    )
    return World(replace(one.run, workload=replace(one.run.workload, jobs=jobs)), one.costs)


def test_rings_slow_tasks_with_servers_on_one_machine_and_are_slowed() -> None:
    """Two cores. The ring's T^c is 1 s, three at work: 3 / 2 s; T^s is 3 s, in which it is at work.

    The other task comes in the ring's first round, when three are at work: (1 + 1) 3 / 2 s, T^s of
    3 s, to 8 s. The ring's second round begins at 4 s among three, its third at 8.5 s among two.
    """
    one = mixed(world([2, 1], [(0, 2, 3), (2 * S, 1, 1)], model="constant"), {1})
    known = on(Overheads(cores=2, task_cpu_ns=S), one)
    assert ends_s(known, gang(0, [0, 1], 3) + gang(1, [2], 1)) == [12.5, 8]


def test_devices_that_wait_for_their_ring_are_not_at_work() -> None:
    """Two cores. Device 0 waits for device 1 until 4 s: two tasks with servers are alone before."""
    one = mixed(world([3], [(0, 2, 1), (0, 1, 1), (0, 1, 1)], model="constant"), {1, 2})
    known = on(Overheads(cores=2, task_cpu_ns=S), one)
    rows = gang(1, [1], 1) + gang(2, [2], 1) + gang(0, [0, 1], 1)
    # Both compute among two for (1 + 1) 2 / 2 s; with device 0 it would be 3 s. Their T^s overlaps
    # the ring, which begins at 2 s, when device 1 is free: three are at work, 3 / 2 s and 3 s.
    assert ends_s(known, rows) == [6.5, 5, 5]


def test_where_cores_are_to_spare_rings_and_servers_run_as_on_a_machine_that_does_not_count() -> (
    None
):
    for seed in range(20):
        held, jobs, rows = drawn(seed)
        draw = random.Random(seed)
        one = mixed(world(held, jobs), {k for k in range(len(jobs)) if draw.random() < 0.5})
        made = on(replace(SPARE, cores=20), one)
        raised = raised_costs(made.run, made.costs, 1)
        ports = sim_port(made.run, made.costs), sim_port(one.run, raised)
        found = []
        for port in ports:
            port.submit(assignments_of(plan_of(rows)))
            found.append(sorted(drain(port), key=repr))
        assert found[0] == found[1]


def test_a_ring_waits_for_a_device_whose_run_has_lost_to_a_copy() -> None:
    """Job 0 is late on device 0, T^c of 100 ns; from 5 on its copy takes 10 + 2 ns on device 1.

    Then a ring comes to both. It begins when the run that lost leaves device 0: at 100. What is on
    devices 2 and 3 meanwhile is a ring too, and is not disturbed.
    """
    jobs = [(0, 1, 1), (0, 2, 4), (0, 2, 2), (5, 1, 1)]
    comp = [[100, 10], [8, 8], [20, 30], [1, 1]]
    sync = [[2, 2], [5, 5], [7, 7], [0, 0]]
    one = mixed(world_of(jobs, comp, sync, ["A", "B", "A", "A"]), {0, 3})
    for made, port in (
        (one, copying(one.run, one.costs)),
        (spare := on(SPARE_FREE, one), copying(spare.run, spare.costs)),
    ):
        port.submit((Assignment(0, 0, 0, 1, (0,)),))
        port.submit(tuple(Assignment(2 + k, 1, 0, 4, (k,)) for k in (0, 1)))
        events: list[AnyEvent] = []
        while batch := port.next_events():
            events += batch
            if batch[0].time_ns == 5:
                port.copy((Assignment(1, 0, 0, 1, (0,)),))
            if batch[0].time_ns == 17:
                port.submit(tuple(Assignment(k, 2, 0, 2, (k,)) for k in (0, 1)))
        ends = {e.job: e.time_ns for e in events if isinstance(e, RoundsDone)}
        assert ends == {0: 5 + 10 + 2, 1: 4 * (8 + 5), 2: 100 + 2 * (30 + 7)}
        assert [e.time_ns for e in events if isinstance(e, TaskDropped)] == [100]
        starts = {e.start_ns for e in events if isinstance(e, TasksDone) and e.job == 2}
        assert starts == {100}
        assert made.run.workload.jobs[2].sync == "ring"
