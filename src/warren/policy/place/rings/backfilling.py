"""braid-online: rings as they come, short ones first, none of them put off for ever.

What
    Knows the rounds of jobs that have come, and of no other. Whenever devices come free or a job
    comes, waiting jobs are looked at, least device time by weight first, and each that has room
    starts and keeps its devices to its end: on one host if one has room, else where it and those
    that it slows lose least, by (6)-(8). A job is due when it has waited ``patience`` times as long
    as it would take alone. Of those that are due the first goes before all others, and devices are
    kept for it: what it will have first. Others take these only if they end before, even with all
    contention that there can be.
Source
    Ours. Reservations are those of EASY backfilling (Lifka, 1995), with devices instead of counts.
Differs
    From ``braid`` in all but the choice of devices: nothing is planned ahead or searched.

A job that is due first has its devices no later than when enough of those at work have ended at the
latest: what starts meanwhile either leaves its devices alone or has left them by then. Jobs that
come later are due later, unless they are shorter; so no stream of others holds a job up for ever.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from warren.model.decision import Decision, Reason
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed, RolledBack, RoundsDone
from warren.model.view import View
from warren.policy.common.gang_holding import GangHolder, Holdings
from warren.policy.common.round_times import gang_round_ns
from warren.policy.place.rings.planned_gangs import RingProblem, ring_problem

if TYPE_CHECKING:
    from warren.solve.rings.device_choice import DispatchOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Of all jobs, made once. ``due_ns_J``: when they are due; ``rank_J``: who goes first."""

    problem: RingProblem
    ways: DispatchOptions
    due_ns_J: Any
    rank_J: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillingMemory:
    """``waiting``: (rank, job), first in line first; when running jobs have ended at the latest."""

    estimates: Estimates
    waiting: tuple[tuple[float, int], ...]
    until_ns: Mapping[int, int]
    holdings: Holdings


@dataclass(frozen=True, slots=True, kw_only=True)
class RingBackfilling:
    """See the module's text. ``patience``: 0: in order of arrival."""

    patience: float = 2.0

    name: ClassVar[str] = "braid-online"
    source: ClassVar[str] = "ours; contention as in SJF-BCO (MobiHoc'22) (6)-(8)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    plans_rings: ClassVar[bool] = True
    holds_devices: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def __post_init__(self) -> None:
        if isnan(self.patience) or self.patience < 0:
            raise ValueError("patience is a number, 0 or more")

    def initial(self, view: View) -> BackfillingMemory:
        """Nobody waits, nothing is held."""
        holdings = Holdings.none(view)
        return BackfillingMemory(
            estimates=_estimates(view, self.patience), waiting=(), until_ns={}, holdings=holdings
        )

    def decide(self, view: View, memory: BackfillingMemory) -> tuple[Decision, BackfillingMemory]:
        """Continue the gangs that moved on, then start what has room."""
        step = _Step(view, memory)
        step.holder.release_ended()
        step.holder.go_on()
        step.queue_up()
        step.start()
        return Decision(assign=tuple(step.holder.assign), reasons=step.reasons()), step.memory()

    def explain(self, view: View, memory: BackfillingMemory, job: int) -> str:
        """One sentence: why this job is where it is."""
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
    from warren.solve.rings.dispatch import longest_ns_J
    from warren.solve.rings.order_search import alone, ways

    problem = ring_problem(view, RingBackfilling.name)
    fits_JT = problem.rings.fits_JT
    times = alone(problem.gangs, problem.links, fits_JT)
    most_J = longest_ns_J(problem.gangs, problem.links, fits_JT)
    wait_ns_J = np.minimum(patience * times.span_ns_J, 2.0**61)
    return Estimates(
        problem=problem,
        ways=ways(times, times.pace_ns_JT)._replace(span_ns_J=most_J),
        due_ns_J=view.arrival_ns_J + wait_ns_J.astype(np.int64),
        rank_J=problem.size_J * times.span_ns_J / view.weight_J,
    )


@dataclass(slots=True)
class _Step:
    """One decision in the making."""

    view: View
    before: BackfillingMemory
    holder: GangHolder = field(init=False)
    waiting: list[tuple[float, int]] = field(init=False)
    until_ns: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.holder = GangHolder(self.view, self.before.holdings)
        self.waiting = list(self.before.waiting)
        self.until_ns = self.before.until_ns

    def memory(self) -> BackfillingMemory:
        waiting = tuple(self.waiting)
        holdings = self.holder.after()
        if holdings is self.before.holdings and waiting == self.before.waiting:
            return self.before
        return replace(self.before, waiting=waiting, until_ns=self.until_ns, holdings=holdings)

    def queue_up(self) -> None:
        """Arrivals take their place in the line; who has ended leaves it."""
        made = self.before.estimates
        for event in self.view.changes:
            if isinstance(event, JobArrived) and made.problem.size_J[event.job]:
                insort(self.waiting, (float(made.rank_J[event.job]), event.job))
        if any(isinstance(event, JobFailed | JobCancelled) for event in self.view.changes):
            self.waiting = [one for one in self.waiting if not self.view.done_J[one[1]]]

    def start(self) -> None:
        """Give devices to all that have room."""
        from warren.solve.rings.dispatch import RunningRings, start_now

        view, made = self.view, self.before.estimates
        held = self.holder.after().by_job
        if not self.waiting or self.holder.held_D.all():
            return
        line = [job for _, job in self.waiting]
        first = min(line, key=lambda job: (int(made.due_ns_J[job]), job))
        if made.due_ns_J[first] <= view.now_ns:
            line.remove(first)
            line.insert(0, first)
        else:
            first = -2
        at_work = {
            job: RunningRings(
                devices=one.devices,
                until_ns=self.until_ns[job],
                rounds=int(view.rounds_J[job] - view.round_J[job]),
            )
            for job, one in held.items()
        }
        until_ns = {job: self.until_ns[job] for job in held}
        begun = start_now(
            made.problem.gangs, made.problem.links, made.ways, at_work, line, view.now_ns, first
        )
        for job, devices in begun:
            self.holder.start(job, devices, gang_round_ns(view, job, devices))
            until_ns[job] = view.now_ns + int(made.ways.span_ns_J[job])
        self.until_ns = until_ns
        started = {job: None for job, _ in begun}
        self.waiting = [one for one in self.waiting if one[1] not in started]

    def reasons(self) -> dict[int, Reason]:
        """Of arrivals that wait."""
        came = {event.job for event in self.view.changes if isinstance(event, JobArrived)}
        return {job: Reason.WAITING_FOR_DEVICES for _, job in self.waiting if job in came}
