"""Worlds for tests of copies: a late device, and jobs that have begun."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from warren.core.journal import Step
from warren.core.journal_reader import decode
from warren.core.loop import Core
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import (
    Event,
    JobArrived,
    Woken,
)
from warren.model.run import Run
from warren.model.units import NS_PER_S
from warren.policy.registry import place_policy
from warren.sim.build import sim_port

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

S = NS_PER_S
E = TypeVar("E", bound=Event)


def copying(run: Run, after: float | None = 2.0) -> Run:
    """The run with copies."""
    return replace(run, scheduler=replace(run.scheduler, copies_after=after))


def core_of(run: Run, costs: CostTable, place: str, true: CostTable, sink: bytearray) -> Core:
    """A core in a simulated world where tasks take the ``true`` times."""
    return Core(
        run=run,
        costs=costs,
        policy=place_policy(place, {"budget": 20_000} if place == "hare" else {}),
        port=sim_port(run, true),
        sink=sink.extend,
        world="sim",
        check=True,
    )


def journal_of(run: Run, costs: CostTable, place: str, true: CostTable) -> bytes:
    """Run it; every step is checked."""
    journal = bytearray()
    core_of(run, costs, place, true, journal).execute()
    return bytes(journal)


def events_of(journal: bytes, kind: type[E]) -> list[E]:
    """Events of a kind, in order."""
    steps = (record for record in decode(journal) if isinstance(record, Step))
    return [event for step in steps for event in step.events if isinstance(event, kind)]


def one_job(rounds: int = 2) -> tuple[Run, CostTable, CostTable]:
    """Two tasks a round on two devices; the profile says 10 s and 2 s, device 0 takes ten times."""
    run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0, scale=2, rounds=rounds)])
    profile = worlds.costs([[10.0, 10.0]], [[2.0, 2.0]])
    return run, profile, worlds.costs([[100.0, 10.0]], [[20.0, 2.0]])


def begun(
    comp_s: list[float],
    queues: list[list[Assignment]],
    *,
    scale: int = 2,
    sync_s: float = 2.0,
    sync: str = "ps",
) -> State:
    """A job that has arrived at 0, on one device of a type of its own for each entry; a second job.

    Profile times are ``comp_s`` and ``sync_s``; what stands in ``queues`` is assigned.
    """
    types = [f"T{device}" for device in range(len(comp_s))]
    run = worlds.run(
        worlds.cluster(types), [worlds.job(0, scale=scale, rounds=3, sync=sync), worlds.job(1)]
    )
    state = State(run, worlds.costs([comp_s] * 2, [[sync_s] * len(comp_s)] * 2))
    state.apply(JobArrived(0, 0))
    state.apply(JobArrived(0, 1))
    for one in (one for queue in queues for one in queue):
        state.assign(one)
    return state


def at(state: State, time_s: float) -> State:
    """The state when nothing has happened until then."""
    state.apply(Woken(round(time_s * S)))
    return state
