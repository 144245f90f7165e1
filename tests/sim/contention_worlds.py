"""Machines with measured overheads, and runs on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sim_worlds import (
    World,
    drain,
    world_of,
)

from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, TasksDone
from warren.model.measured import Overheads
from warren.model.run import Run
from warren.sim.build import parts_of
from warren.sim.port import SimPort
from warren.sim.speculation import TaskCopies

MS = 10**6
FULL = Overheads(cores=2, dispatch_ns=MS, task_cpu_ns=5 * MS, slowdown=1.5)
"""With T^c = 20 ms and T^s = 1 ms: rounds of 21 ms alone, 35 ms for two, 52.5 ms for three."""
TINY = Overheads(cores=2, dispatch_ns=1, task_cpu_ns=3, slowdown=1.4)
SPARE = Overheads(cores=9, dispatch_ns=2, task_cpu_ns=5)
"""The number of devices at work does not matter."""


def on(overheads: Overheads, made: World, verify: float = 0.0) -> World:
    cluster = replace(made.run.cluster, overheads=overheads)
    return World(replace(made.run, cluster=cluster, verify=verify), made.costs)


def full(jobs: list[tuple[int, int, int]], devices: int, sync_ns: int = MS) -> World:
    """Jobs of T^c = 20 ms."""
    made = world_of(jobs, [[20 * MS] for _ in jobs], [[sync_ns] for _ in jobs], ["A"] * devices)
    return on(FULL, made)


def rounds_on(device: int, job: int, rounds: int) -> list[Assignment]:
    return [Assignment(device, job, at, 1, (0,)) for at in range(rounds)]


def copying(run: Run, costs: CostTable) -> SimPort:
    """The port for the run, made to take copies whatever its scheduler says of them."""
    parts = parts_of(run, costs)
    return SimPort(run, costs, replace(parts, copies=TaskCopies(parts.lanes)))


def run(made: World, *assignments: Assignment) -> list[AnyEvent]:
    port = copying(made.run, made.costs)
    port.submit(assignments)
    return drain(port)


def spans_ms(events: list[AnyEvent], job: int) -> list[tuple[float, float]]:
    """COMP of each round."""
    done = [event for event in events if isinstance(event, TasksDone) and event.job == job]
    return [(one.start_ns / MS, one.comp_end_ns / MS) for one in done]


def run_late(
    made: World,
    at_ms: int,
    now: Sequence[Assignment],
    late: Sequence[Assignment],
    copies: Sequence[Assignment] = (),
) -> list[AnyEvent]:
    """``late`` is assigned, and ``copies`` begin, at ``at_ms``, when something must happen."""
    port = copying(made.run, made.costs)
    port.submit(tuple(now))
    events: list[AnyEvent] = []
    while batch := port.next_events():
        events += batch
        if batch[0].time_ns == at_ms * MS:
            port.submit(tuple(late))
            port.copy(tuple(copies))
    return events
