"""Rings on fluid links: worlds to draw, and a second simulation of them in exact fractions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from sim_worlds import World
from test_sim_rings import MB, Rows, S, gang, world

from warren.model.cluster import Cluster, Network
from warren.model.costs import CostTable
from warren.model.job import Job


def fluid(
    held: list[int], jobs: list[tuple[int, int, int]], nic_MB_s: list[int] | None = None
) -> World:
    """The world of ``test_sim_rings``: a second of COMP, 2 MB, 1 MB/s or these, 10 ms a host."""
    one = world(held, jobs, model="fluid")
    cluster = one.run.cluster
    hosts = tuple(
        replace(host, nic_bps=8e6 * rate)
        for host, rate in zip(cluster.hosts, nic_MB_s or [1] * len(held), strict=True)
    )
    cluster = replace(cluster, hosts=hosts, network=Network(model="fluid", xi2_s=0.01))
    return World(replace(one.run, cluster=cluster), one.costs)


def with_costs(one: World, comp_s: list[float], model_mb: list[float]) -> World:
    shape = one.costs.comp_ns_JT.shape
    costs = CostTable(
        comp_ns_JT=np.array([round(c * S) for c in comp_s]).reshape(shape),
        sync_ns_JT=np.zeros(shape, dtype=np.int64),
        fits_JT=np.ones(shape, dtype=np.bool_),
        model_bytes_J=np.array([round(m * MB) for m in model_mb]),
    )
    return World(one.run, costs)


def max_min(capacity: list[Fraction], crossed: dict[int, set[int]]) -> dict[int, Fraction]:
    """Of the hosts, the one with the least for each of its rings sets their rates; and so on."""
    left, rates = dict(enumerate(capacity)), dict[int, Fraction]()
    while len(rates) < len(crossed):
        on = {h: [j for j in crossed if h in crossed[j] and j not in rates] for h in left}
        least, host = min((left[h] / len(on[h]), h) for h in left if on[h])
        for job in on[host]:
            rates[job] = least
            for crosses in crossed[job]:
                left[crosses] -= least
    return rates


def bytes_per_s(cluster: Cluster) -> tuple[list[Fraction], list[Fraction]]:
    """What the network card of each host carries, and what is carried inside it."""
    nic = [Fraction(int(host.nic_bps or 0), 8) for host in cluster.hosts]
    inner = [Fraction(int(host.intra_bps or 0), 8) for host in cluster.hosts]
    return nic, inner


def sent_bytes(costs: CostTable, job: Job) -> Fraction:
    """What each rank of a ring sends in a round: 2 (w - 1) / w of the model."""
    assert costs.model_bytes_J is not None
    return Fraction(2 * int(costs.model_bytes_J[job.index]) * (job.scale - 1), job.scale)


def step_by_step(
    one: World,
    rows: Rows,
    there_ns: Callable[[int, int], int] = lambda job, now: 0,
    comp_ns: Callable[[int, int, int], int] | None = None,
) -> list[float]:
    """When each ring ends, in exact fractions of a second: every phase of every round by itself.

    ``there_ns``: of a job whose devices have come to it now; its first COMP, which is padded, ends
    no sooner. Asked in order of time. ``comp_ns``: COMP of a job's round, where so many devices are
    at work; None: that of the profile.
    """
    cluster, jobs = one.run.cluster, one.run.workload.jobs
    nic, inner = bytes_per_s(cluster)
    hosts = [host.name for host in cluster.hosts]
    host_of = [hosts.index(device.host) for device in cluster.devices]
    devices = {job.index: [row[4] for row in rows if row[0] == job.index] for job in jobs}
    queues = {d: [row[0] for row in rows if row[4] == d] for d in range(len(host_of))}
    on = {job: {host_of[d] for d in devices[job]} for job in devices}
    sent = {job.index: sent_bytes(one.costs, job) for job in jobs}
    latency = {job: len(on[job]) * Fraction(1, 100) for job in on}
    arrival = {job.index: Fraction(job.arrival_ns, S) for job in jobs}
    left = {job.index: job.rounds or 0 for job in jobs}
    bytes_left, until = dict[int, Fraction](), dict[int, Fraction]()
    ends, now = [Fraction(0)] * len(jobs), Fraction(0)

    def heads(of: list[int], job: int) -> bool:
        return all(queues[d] and queues[d][0] == job for d in of)

    while any(left.values()):
        again = True
        while again:
            again = False
            for job in list(left):
                free = heads(devices[job], job)
                if left[job] and arrival[job] <= now and free and job not in until | bytes_left:
                    first = left[job] == jobs[job].rounds
                    comp = Fraction(int(one.costs.comp_ns_JT[job, 0]), S)
                    if comp_ns is not None:
                        has_come = [k for k in left if left[k] and arrival[k] <= now]
                        held = sum(len(devices[k]) for k in has_come if heads(devices[k], k))
                        comp = Fraction(comp_ns(job, (jobs[job].rounds or 0) - left[job], held), S)
                    there = Fraction(there_ns(job, round(now * S)), S) if first else now
                    late = max(Fraction(0), there - now - comp)
                    until[job], again = now + comp + latency[job] + late, True
                if until.get(job) == now:
                    del until[job]
                    bytes_left[job], again = sent[job], True
                if bytes_left.get(job) == 0:
                    del bytes_left[job]
                    left[job], again = left[job] - 1, True
                    if not left[job]:
                        ends[job] = now
                        for device in devices[job]:
                            queues[device].pop(0)
        crossed = {job: on[job] for job in bytes_left if len(on[job]) > 1}
        rates = max_min(nic, crossed)
        rates |= {job: inner[min(on[job])] for job in bytes_left if job not in crossed}
        steps = [now + bytes_left[job] / rates[job] for job in bytes_left]
        steps += [*until.values(), *(at for at in arrival.values() if at > now)]
        then = min(steps, default=now)
        for job in bytes_left:
            bytes_left[job] -= rates[job] * (then - now)
        now = then
    return [float(end) for end in ends]


def drawn(seed: int) -> tuple[World, Rows]:
    draw = random.Random(seed)
    held = [draw.randint(1, 8) for _ in range(draw.randint(2, 4))]
    count = sum(held)
    jobs = sorted(
        (draw.choice([0, 0, 0, 1, 7, 30]) * S + draw.randrange(S) * draw.randint(0, 1),
         draw.randint(1, min(5, count)), draw.randint(1, 12)) for _ in range(draw.randint(4, 12))
    )  # fmt: skip
    one = with_costs(
        fluid(held, jobs, [draw.choice([1, 1, 2, 5]) for _ in held]),
        [draw.randint(0, 2000) / 1000 for _ in jobs],
        [draw.choice([0, *range(1, 3000)]) / 1000 for _ in jobs],
    )
    rows = [
        row for k, (_, scale, rounds) in enumerate(jobs)
        for row in gang(k, draw.sample(range(count), scale), rounds)
    ]  # fmt: skip
    return one, rows
