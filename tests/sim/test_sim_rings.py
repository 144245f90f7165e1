"""Rings in virtual time: a second simulation round by round, and numbers by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from sim_worlds import Planned, World, plan_of

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.cost.ring import RingNetwork
from warren.cost.run_rings import (
    host_of_D,
    least_exchange_s_J,
    ring_exchanges,
    ring_network,
    with_rings,
)
from warren.model.cluster import Cluster, Device, DeviceType, Host, Network
from warren.model.costs import CostTable
from warren.model.errors import InfeasibleDecision
from warren.model.job import Job, Workload
from warren.model.run import Run, Truth
from warren.sim.build import sim_port
from warren.sim.network.contention import ContentionLinks

S = 10**9
MB = 10**6
Rows = list[tuple[int, int, int, int, int]]


def cluster(held: list[int], model: str = "contention") -> Cluster:
    """Hosts with so many devices, links of 1 MB/s, a hundred times that within a host."""
    devices = tuple(
        Device(index=0, name=f"h{host}/{k}", type="A", host=f"h{host}")
        for host, count in enumerate(held)
        for k in range(count)
    )
    return Cluster(
        hosts=tuple(
            Host(
                name=f"h{host}",
                devices=tuple(f"h{host}/{k}" for k in range(count)),
                nic_bps=8e6,
                intra_bps=8e8,
            )
            for host, count in enumerate(held)
        ),
        devices=tuple(replace(one, index=index) for index, one in enumerate(devices)),
        types=(DeviceType(name="A"),),
        network=Network(model=model, xi1=0.5, xi2_s=0.01, alpha=0.2),  # type: ignore[arg-type]
    )


def world(
    held: list[int], jobs: list[tuple[int, int, int]], sync: str = "ring", model: str = "contention"
) -> World:
    """``jobs``: arrival in ns, scale, rounds; a second of COMP, 2 MB, T^s of 3 s."""
    made = tuple(
        Job(index=k, name=f"j{k}", arrival_ns=at, scale=scale, rounds=rounds, sync=sync)  # type: ignore[arg-type]
        for k, (at, scale, rounds) in enumerate(jobs)
    )
    run = Run(name="rings", cluster=cluster(held, model), workload=Workload(jobs=made))
    shape = (len(jobs), 1)
    costs = CostTable(
        comp_ns_JT=np.full(shape, S), sync_ns_JT=np.full(shape, 3 * S),
        fits_JT=np.ones(shape, dtype=np.bool_), model_bytes_J=np.full(len(jobs), 2 * MB),
    )  # fmt: skip
    return World(run, costs)


def gang(job: int, devices: list[int], rounds: int, first: int = 0) -> Rows:
    return [(job, first, rounds, shard, device) for shard, device in enumerate(devices)]


def ends_s(one: World, rows: Rows) -> list[float]:
    written = bytearray()
    core = Core(
        run=one.run, costs=one.costs, policy=Planned(plan_of(rows)),
        port=sim_port(one.run, one.costs), sink=written.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    found: list[float] = (read_history(bytes(written)).finish_ns_J / S).tolist()
    return found


def test_a_ring_within_a_host_takes_eq_8_with_the_bandwidth_within() -> None:
    """2 m (w - 1) / w / b^i = 0.02 s for two workers and 2 MB at 100 MB/s; one host: 0.01 s."""
    assert ends_s(world([2], [(0, 2, 10)]), gang(0, [0, 1], 10)) == pytest.approx([10 * 1.03])


def test_rings_that_share_a_link_slow_each_other_from_the_next_round_on() -> None:
    """Alone 1 + 2 + 0.02 s a round. Two on a link: k = 1.5, f = 1.6: 1 + 3.2 + 0.02 s.

    The second comes in the first's second round, which keeps its pace.
    """
    one = world([2, 2], [(0, 2, 4), (4 * S, 2, 1)])
    first, second = ends_s(one, gang(0, [0, 2], 4) + gang(1, [1, 3], 1))
    assert second == pytest.approx(4 + 4.22)
    # Two rounds alone until 6.04 s, one that begins while both are there, then one alone.
    assert first == pytest.approx(2 * 3.02 + 4.22 + 3.02)


def test_rings_on_links_of_their_own_and_within_a_host_do_not_disturb_each_other() -> None:
    one = world([3, 1, 2], [(0, 2, 4), (0, 2, 4), (0, 2, 4)])
    found = ends_s(one, gang(0, [0, 3], 4) + gang(1, [1, 2], 4) + gang(2, [4, 5], 4))
    assert found == pytest.approx([4 * 3.02, 4 * 1.03, 4 * 1.03])


def test_a_ring_starts_when_all_its_devices_are_free_and_holds_them_to_its_end() -> None:
    one = world([3], [(0, 1, 2), (0, 3, 1), (0, 1, 1)])
    found = ends_s(one, gang(0, [0], 2) + gang(1, [0, 1, 2], 1) + gang(2, [1], 1))
    lone = 1.01  # one worker sends nothing
    three = 1 + 2 * 2 * (2 / 3) / 100 + 0.01
    assert found == pytest.approx([2 * lone, 2 * lone + three, 3 * lone + three])


def test_without_a_model_of_links_an_exchange_takes_t_s() -> None:
    one = world([2, 2], [(0, 2, 4), (0, 2, 4)], model="constant")
    assert ends_s(one, gang(0, [0, 2], 4) + gang(1, [1, 3], 4)) == [16, 16]


def round_by_round(
    one: World,
    rows: Rows,
    there_ns: Callable[[int, int], int] = lambda job, now: 0,
    comp_ns: Callable[[int, int, int], int] = lambda job, at, devices: S,
) -> list[int]:
    """When each ring ends, counted again: every round by itself, all of (6)-(8) written out.

    ``there_ns``: of a job whose devices have come to it now; its first COMP, which is padded, ends
    no sooner. Asked in order of time. ``comp_ns``: COMP of a job's round, where so many devices are
    at work.
    """
    network, jobs = one.run.cluster.network, one.run.workload.jobs
    hosts = [host.name for host in one.run.cluster.hosts]
    host_of = [hosts.index(device.host) for device in one.run.cluster.devices]
    devices = {job.index: [row[4] for row in rows if row[0] == job.index] for job in jobs}
    queues = {d: [row[0] for row in rows if row[4] == d] for d in range(len(host_of))}
    left = {job.index: job.rounds or 0 for job in jobs}
    ends, end_of_round, now = [0] * len(jobs), dict[int, int](), 0
    while any(left.values()):
        for job in [job for job, at in end_of_round.items() if at == now]:
            del end_of_round[job]
            left[job] -= 1
            if not left[job]:
                ends[job] = now
                for device in devices[job]:
                    queues[device].pop(0)
        at_work = [
            job.index for job in jobs
            if left[job.index] and job.arrival_ns <= now
            and all(queues[d] and queues[d][0] == job.index for d in devices[job.index])
        ]  # fmt: skip
        crossing = {
            job: {host_of[d] for d in devices[job]} if len({host_of[d] for d in devices[job]}) > 1
            else set() for job in at_work
        }  # fmt: skip
        for job in at_work:
            if job in end_of_round:
                continue
            p = max(
                (sum(h in other for other in crossing.values()) for h in crossing[job]), default=0
            )
            k = 1 + network.xi1 * (p - 1)
            rate = 1e6 / (k + network.alpha * (k - 1)) if p else 1e8
            w = len(devices[job])
            took_s = 2 * 2e6 * (w - 1) / w / rate + network.xi2_s * len(
                {host_of[d] for d in devices[job]}
            )
            late_ns, at = 0, (jobs[job].rounds or 0) - left[job]
            took_ns = comp_ns(job, at, sum(len(devices[other]) for other in at_work))
            if left[job] == jobs[job].rounds:
                late_ns = max(0, there_ns(job, now) - now - took_ns)
            end_of_round[job] = now + took_ns + late_ns + round(took_s * S)
        to_come = [job.arrival_ns for job in jobs if job.arrival_ns > now]
        now = min([*end_of_round.values(), *to_come], default=now)
    return ends


@pytest.mark.parametrize("seed", range(40))
def test_legs_of_equal_rounds_end_when_a_simulation_of_every_round_says(seed: int) -> None:
    draw = random.Random(seed)
    held = [draw.randint(1, 4) for _ in range(draw.randint(1, 4))]
    count = sum(held)
    jobs = sorted(
        (draw.choice([0, 0, 1, 7, 30]) * S + draw.randrange(S), draw.randint(1, min(4, count)),
         draw.randint(1, 12)) for _ in range(draw.randint(1, 8))
    )  # fmt: skip
    one = world(held, jobs)
    rows = [
        row for k, (_, scale, rounds) in enumerate(jobs)
        for row in gang(k, draw.sample(range(count), scale), rounds)
    ]  # fmt: skip
    found = [round(end * S) for end in ends_s(one, rows)]
    assert found == pytest.approx(round_by_round(one, rows), abs=len(rows))


def test_one_stretch_and_stretches_of_one_round_end_alike() -> None:
    one = world([2, 2], [(0, 2, 6), (4 * S, 2, 3)])
    whole = gang(0, [0, 2], 6) + gang(1, [1, 3], 3)
    cut = [row for r in range(6) for row in gang(0, [0, 2], 1, r)]
    cut += [row for r in range(3) for row in gang(1, [1, 3], 1, r)]
    assert ends_s(one, cut) == ends_s(one, whole)


def test_with_noise_each_round_has_its_own_time_and_the_slowest_sets_it() -> None:
    one = world([2, 2], [(0, 2, 50)])
    noisy = World(replace(one.run, truth=Truth(task_cv=0.3, seed=1)), one.costs)
    (found,) = ends_s(noisy, gang(0, [0, 2], 50))
    assert 50 * 3.02 * 1.01 < found < 50 * 3.02 * 1.3
    assert [found] == ends_s(noisy, [row for r in range(50) for row in gang(0, [0, 2], 1, r)])


@pytest.mark.parametrize(
    "rows",
    [gang(0, [0, 0], 1), gang(0, [0, 0], 4), [(0, r, 1, k, 0) for r in range(4) for k in (0, 1)]],
)
def test_a_ring_with_fewer_devices_than_tasks_is_refused(rows: Rows) -> None:
    one = world([2], [(0, 2, len({row[1] for row in rows}) if rows[0][2] == 1 else 4)])
    with pytest.raises(InfeasibleDecision, match=r"ring of job 0 fewer devices than tasks"):
        ends_s(one, rows)


def test_a_least_exchange_is_no_longer_than_one_at_any_place() -> None:
    one = world([1, 3, 2, 2], [(0, scale, 1) for scale in range(1, 9)])
    exchanges = ring_exchanges(one.run.workload.jobs, one.costs)
    least_s = least_exchange_s_J(one.run.cluster, exchanges)
    draw = random.Random(1)
    for _ in range(300):
        for job in one.run.workload.jobs:
            places = draw.sample(range(8), job.scale)
            host_D = host_of_D(one.run.cluster)
            workers_JS = np.bincount(host_D[places], minlength=4)[None]
            (took_ns,) = ContentionLinks(one.run, one.costs).exchange_ns_J([job.index], workers_JS)
            assert took_ns >= round(least_s[job.index] * S) - 1
    raised = with_rings(one.run, one.costs).sync_ns_JT
    assert raised[:, 0].tolist() == [round(one_s * S) for one_s in least_s.tolist()]


@pytest.mark.parametrize("model", ["contention", "fluid"])
def test_a_ring_larger_than_the_cluster_keeps_its_t_s(model: str) -> None:
    one = world([2, 2], [(0, 4, 1), (0, 5, 1)], model=model)
    exchange_ns, kept_ns = with_rings(one.run, one.costs).sync_ns_JT[:, 0].tolist()
    assert kept_ns == 3 * S
    assert 0 < exchange_ns != 3 * S


def test_a_network_is_that_of_the_slowest_links() -> None:
    assert ring_network(cluster([1, 2])) == RingNetwork(
        inner_bytes_per_s=1e8, outer_bytes_per_s=1e6, xi1=0.5, xi2_s=0.01, alpha=0.2
    )
