"""braid-online: rings as they come, short ones first, none of them put off for ever.

What
    Knows the rounds of jobs that have come, and of no other. Whenever devices come free or a job
    comes, waiting jobs are looked at, least device time by weight first, and each that has room
    starts and keeps its devices to its end: on one host if one has room, else where it and those
    that it slows lose least, by (6)-(8). A job is due when it has waited ``patience`` times as long
    as it would take alone. Of those that are due the first goes before all others, and its devices
    are kept for it: those that it will have first. Others take these only if they end before, even
    with all contention that there can be.
Source
    Ours. Reservations are those of EASY backfilling (Lifka, 1995), with devices instead of counts.
Differs
    From ``braid`` in all but the choice of devices: nothing is planned ahead or searched.

A job that is due first has its devices no later than when enough of those at work have ended at the
latest: a ring that starts meanwhile either leaves its devices alone or has left them by then. Jobs
that come later are due later, unless they are shorter; so no stream of others holds a job up for
ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warren.model.decision import Decision
from warren.model.events import Event
from warren.model.view import View
from warren.policy.common.gang_holding import (
    GangQueue,
    GangQueueMemory,
    Gangs,
    Holdings,
    Waiting,
)
from warren.policy.common.round_times import ROUND_TRIGGERS
from warren.policy.place.rings.planned_gangs import RingProblem, ring_problem

if TYPE_CHECKING:
    from warren.solve.rings.device_choice import DispatchOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Estimates of all known jobs: their times alone, and values that follow from them.

    ``due_ns_J``: when each is due, in nanoseconds; ``rank_J``: the least goes first.
    """

    problem: RingProblem
    ways: DispatchOptions
    due_ns_J: Any
    rank_J: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillingMemory(GangQueueMemory):
    """The queue, with estimates and when running jobs have ended at the latest (``until_ns``)."""

    estimates: Estimates
    until_ns: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingBackfilling:
    """Start short rings first wherever they have room, and keep devices for a ring that is due.

    ``patience``: how many times as long as it would take alone a job waits until it is due; 0: in
    order of arrival.
    """

    patience: float = 2.0

    name: ClassVar[str] = "braid-online"
    source: ClassVar[str] = "ours; contention as in SJF-BCO (MobiHoc'22) (6)-(8)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    plans_rings: ClassVar[bool] = True
    holds_devices: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = ROUND_TRIGGERS

    def __post_init__(self) -> None:
        if isnan(self.patience) or self.patience < 0:
            raise ValueError("patience is a number, 0 or more")

    def initial(self, view: View) -> BackfillingMemory:
        """Estimate all jobs, and return the memory before the first: none waits, none is held."""
        holdings = Holdings.none(view)
        return BackfillingMemory(
            estimates=_estimates(view, self.patience), waiting=(), until_ns={}, holdings=holdings
        )

    def decide(self, view: View, memory: BackfillingMemory) -> tuple[Decision, BackfillingMemory]:
        """Continue the gangs that moved on, then start the rings that have room."""
        if len(memory.estimates.due_ns_J) < len(view.jobs):
            memory = replace(memory, estimates=_estimates(view, self.patience))
        queue = GangQueue(
            partial(_rank, memory.estimates), partial(_with_room, memory), passing=True
        )
        decision, left = queue.decide(view, memory)
        if left is not memory:
            left = replace(left, until_ns=_until_ns(view, memory, left.holdings))
        return decision, left

    def explain(self, view: View, memory: BackfillingMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs as a gang on {memory.holdings.names(view, job)} until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        free = int(np.count_nonzero(~memory.holdings.held_D))
        need = memory.estimates.problem.size_J[job]
        due_s = (memory.estimates.due_ns_J[job] - view.arrival_ns_J[job]) / 1e9
        return (
            f"needs {need} devices that fit it, {free} are free; when it has waited {due_s:.1f} s, "
            "devices are kept for it"
        )


def _estimates(view: View, patience: float) -> Estimates:
    """Estimate all jobs alone, with the contention of (6)-(8) at its most for their ends."""
    from warren.solve.rings.dispatch import longest_ns_J
    from warren.solve.rings.order_search import alone, ways

    problem = ring_problem(view, RingBackfilling.name)
    fits_JT = problem.rings.fits_JT
    times = alone(problem.gangs, problem.links, fits_JT)
    most_J = longest_ns_J(problem.gangs, problem.links, fits_JT)
    # At most 2^61 ns, so that the sum with an arrival still fits 64 bits.
    wait_ns_J = np.minimum(patience * times.span_ns_J, 2.0**61)
    # The span at the longest takes the place of the span alone: reservations must hold for sure.
    return Estimates(
        problem=problem,
        ways=ways(times, times.pace_ns_JT)._replace(span_ns_J=most_J),
        due_ns_J=view.arrival_ns_J + wait_ns_J.astype(np.int64),
        rank_J=problem.size_J * times.span_ns_J / view.weight_J,
    )


def _rank(estimates: Estimates, view: View, job: int) -> float:
    """Return a job's device time by weight: the least goes first."""
    return float(estimates.rank_J[job])


def _with_room(
    before: BackfillingMemory, view: View, waiting: Waiting, holdings: Holdings
) -> Gangs:
    """Choose all waiting jobs that have room now, with their devices."""
    from warren.solve.rings.dispatch import RunningRings, start_now

    made = before.estimates
    line = [job for _, job in waiting]
    # Of the jobs that are due the earliest due job goes before all others, and devices are kept for
    # it (EASY backfilling's reservation); -2: no job is due.
    first = min(line, key=lambda job: (int(made.due_ns_J[job]), job))
    if made.due_ns_J[first] <= view.now_ns:
        line.remove(first)
        line.insert(0, first)
    else:
        first = -2
    at_work = {
        job: RunningRings(
            devices=one.devices,
            until_ns=before.until_ns[job],
            rounds=int(view.rounds_J[job] - view.round_J[job]),
        )
        for job, one in holdings.by_job.items()
    }
    problem = made.problem
    return start_now(problem.gangs, problem.links, made.ways, at_work, line, view.now_ns, first)


def _until_ns(view: View, before: BackfillingMemory, holdings: Holdings) -> dict[int, int]:
    """Return when each running job has ended at the latest; a job that starts now, from now on."""
    known, span_ns_J = before.until_ns, before.estimates.ways.span_ns_J
    return {
        job: known[job] if job in known else view.now_ns + int(span_ns_J[job])
        for job in holdings.by_job
    }
