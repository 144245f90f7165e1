"""Worlds of jobs with servers on fluid links: 1 MB/s, a second of COMP, models of 2 MB."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sim_worlds import World, assignments_of, plan_of
from test_sim_rings import Rows, S, gang, world

from warren.model.cluster import Local, Network
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, RoundsDone, TasksDone
from warren.model.run import Scheduler
from warren.sim.build import sim_port
from warren.sim.port import SimPort

At = Sequence[tuple[float, Callable[[SimPort], object]]]
"""What is told to the port at the first instant from so many seconds on."""


def servers(
    held: list[int],
    jobs: list[tuple[float, int, int]],
    *,
    rings: tuple[int, ...] = (),
    count: int = 1,
    look_ahead: int = 2,
    nic_MB_s: list[float] | None = None,
    intra_MB_s: float | None = None,
    flow: str = "fair",
    **network: Any,
) -> World:
    """``held``: devices of each host; ``jobs``: arrival in s, scale, rounds. Job j has its
    ``count`` servers from host j on."""
    one = world(held, [(round(at * S), *rest) for at, *rest in jobs], "ps", "fluid")
    cluster, run = one.run.cluster, one.run
    inner = None if intra_MB_s is None else 8e6 * intra_MB_s
    hosts = tuple(
        replace(host, nic_bps=8e6 * rate, intra_bps=inner)
        for host, rate in zip(cluster.hosts, nic_MB_s or [1.0] * len(held), strict=True)
    )
    cluster = replace(
        cluster,
        hosts=hosts,
        network=Network(model="fluid", **network),
        local=Local(look_ahead=look_ahead),
    )
    made = tuple(
        replace(job, sync="ring") if job.index in rings else job for job in run.workload.jobs
    )
    run = replace(
        run,
        cluster=cluster,
        workload=replace(run.workload, jobs=made),
        scheduler=Scheduler(place="srtf", servers=count, flow=flow),
    )
    return World(run, one.costs)


def events_of(one: World, rows: Rows | tuple[Assignment, ...], told: At = ()) -> list[AnyEvent]:
    """All events; ``told`` is said to the port when its time has come, at a wake-up."""
    port = sim_port(one.run, one.costs)
    for at_s, _ in told:
        port.wake_at(round(at_s * S))
    port.submit(rows if isinstance(rows, tuple) else assignments_of(plan_of(rows)))
    events: list[AnyEvent] = []
    left = list(told)
    while batch := port.next_events():
        events += batch
        while left and batch[0].time_ns >= round(left[0][0] * S):
            left.pop(0)[1](port)
    return events


def tasks(events: list[AnyEvent]) -> dict[tuple[int, int, int], tuple[float, float, float]]:
    """Start, end of COMP and end of each row, in s, by job, round and first shard."""
    return {
        (one.job, one.round, one.shards[0]): (one.start_ns / S, one.comp_end_ns / S, one.end_ns / S)
        for one in events
        if isinstance(one, TasksDone)
    }


def ends(one: World, rows: Rows, told: At = ()) -> list[float]:
    """When each job has ended, in s."""
    found = {
        event.job: event.time_ns / S
        for event in events_of(one, rows, told)
        if isinstance(event, RoundsDone) and event.finished
    }
    return [found[job] for job in sorted(found)]


def drawn(seed: int, *, rings: float = 0.3, **options: Any) -> tuple[World, Rows]:
    """Jobs of several shapes, this part of them rings, a queue of stretches on each device."""
    draw = random.Random(seed)
    held = [draw.randint(1, 3) for _ in range(draw.randint(2, 4))]
    count = sum(held)
    jobs = sorted(
        (draw.choice([0, 0, 0.7, 3]), draw.randint(1, min(4, count)), draw.randint(1, 6))
        for _ in range(draw.randint(1, 5))
    )
    ring_jobs = tuple(job for job in range(len(jobs)) if draw.random() < rings)
    one = servers(
        held, jobs, rings=ring_jobs, count=draw.randint(1, 3), look_ahead=draw.randint(0, 3),
        nic_MB_s=[draw.choice([1, 2, 5]) for _ in held],
        intra_MB_s=draw.choice([None, 3.0]), xi2_s=0.01,
        latency_s=draw.choice([0, 0.3]), **options,
    )  # fmt: skip
    rows: Rows = []
    at = [0] * len(jobs)
    while left := [job for job, (_, _, rounds) in enumerate(jobs) if at[job] < rounds]:
        job = draw.choice(left)
        _, scale, rounds = jobs[job]
        length = min(rounds - at[job], draw.randint(1, 4))
        every = range(count)
        devices = draw.sample(every, scale) if job in ring_jobs else draw.choices(every, k=scale)
        rows += gang(job, devices, length, at[job])
        at[job] += length
    return one, rows
