"""Gittins: the job with the least expected effort to its end goes first, as others like it ended.

What
    How many rounds a job has left is expected from those that ended jobs like it had (``kinds``),
    given the rounds it has run (``solve.gittins``); times the work of a round on the mean device
    that is its rank. Jobs are taken in this order, and tasks of the first take the free devices
    that end its round soonest, one that is as slow as the slowest of them before faster ones.
    What is expected is learned: from the jobs of the past, and from the ends of this run's own.
Source
    None for training jobs: Warren's. The index is Gittins's (see ``solve.gittins``); the placement
    is that of ``srtf`` here. It uses what HLAS and HLAS-P leave unused: which jobs are alike, the
    whole distribution of their sizes, and single devices instead of fixed groups.
Differs
    Of a model that nothing is known of, all ended jobs tell, in rounds; if none is known, a job
    is expected to need as much again as it has had, which is least attained service. A job is
    ranked when it takes its place in the line; what ends while it waits counts from its next turn
    on. Weights count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from warren.model.decision import Decision, Reason
from warren.model.events import (
    CompDone,
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.plan import ENDLESS, Assignment
from warren.model.view import View
from warren.policy.place.estimate import (
    MAKES_READY,
    cluster_speed,
    counts_T,
    gang_round_ns,
    gang_size,
    may_start,
    no_faster,
    shares,
)
from warren.policy.place.kinds import Known, learned, learned_from, rounds_of_like
from warren.policy.place.line import Entry, Line, entries, put, take
from warren.solve.gittins import least_effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """``line``: jobs whose round may start, by rank; ``known``: rounds of ended jobs.

    ``count_T``: devices of each type.
    """

    count_T: tuple[int, ...]
    line: Line[Entry] | None = None
    known: Known = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gittins:
    """See the module's text."""

    name: ClassVar[str] = "gittins"
    source: ClassVar[str] = "Warren; Gittins (1979)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, CompDone, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> Memory:
        """Of this run no job has ended; the past may tell of others."""
        return Memory(count_T=counts_T(view), known=learned_from(view.past))

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """Learn from jobs that ended, then give free devices to the first of the line."""
        step = _Step(view, memory)
        step.learn()
        step.queue_up()
        step.serve()
        decision = Decision(assign=tuple(step.assign), reasons=step.reasons)
        return decision, step.memory

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """One sentence: why this job is where it is."""
        if view.next_round_J[job] > view.round_J[job]:
            return f"all its tasks of round {view.round_J[job]} are running or queued"
        here = (_rank(view, memory, job), job)
        ahead = sum(1 for other in entries(memory.line) if other < here)
        left = _left(view, memory.known, job)
        return (
            f"has run {view.round_J[job]} rounds and is expected to need some {left:.0f} more; "
            f"{ahead} jobs have less work left"
        )


def _left(view: View, known: Known, job: int) -> float:
    """Rounds that the job is expected to need still, at the least effort for an ending."""
    rounds = rounds_of_like(known, view.jobs[job])
    return least_effort(np.array(rounds, dtype=np.float64), float(view.round_J[job]))


def _rank(view: View, memory: Memory, job: int) -> float:
    """Work that the job is expected to need still, in ns of the mean device that fits it."""
    fitting = sum(
        n for n, fits in zip(memory.count_T, view.costs.fits_JT[job], strict=True) if fits
    )
    if not fitting:
        return float("inf")
    task_ns = fitting / cluster_speed(view.costs, job, memory.count_T)
    return _left(view, memory.known, job) * view.scale_J.item(job) * task_ns


@dataclass(slots=True)
class _Step:
    """One decision in the making. ``shard``: first task not placed yet, of rounds begun here."""

    view: View
    memory: Memory
    assign: list[Assignment] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    shard: dict[int, int] = field(default_factory=dict)

    def learn(self) -> None:
        """Jobs that ended tell how many rounds their kind has."""
        for event in self.view.changes:
            if isinstance(event, RoundsDone) and event.finished:
                job, rounds = self.view.jobs[event.job], event.round + event.rounds
                known = learned(self.memory.known, job, rounds)
                self.memory = replace(self.memory, known=known)

    def queue_up(self) -> None:
        """Who may begin a round now stands in the line."""
        view, memory, line = self.view, self.memory, self.memory.line
        for event in view.changes:
            if isinstance(event, MAKES_READY) and may_start(view, event.job):
                line = put(line, (_rank(view, memory, event.job), event.job))
                self.reasons[event.job] = Reason.WAITING_FOR_TURN
        if line is not memory.line:
            self.memory = replace(memory, line=line)

    def serve(self) -> None:
        """The first of the line take the free devices."""
        idle_D = self.view.queued_D == 0
        line, kept = self.memory.line, list[Entry]()
        while line is not None and idle_D.any():
            entry, line = take(line)
            job = entry[1]
            if not may_start(self.view, job) or job in self.shard:
                continue
            given = self._give(job, idle_D.nonzero()[0])
            idle_D[[one.device for one in given]] = False
            self.assign += given
            if given:
                self.reasons.pop(job, None)
            placed = self.shard[job] = sum(len(one.shards) for one in given)
            if placed < self.view.scale_J.item(job) - self.view.next_shard_J.item(job):
                kept.append(entry)
        for one in kept:
            line = put(line, one)
        if line is not self.memory.line:
            self.memory = replace(self.memory, line=line)

    def _give(self, job: int, free: np.typing.NDArray[np.int64]) -> list[Assignment]:
        view = self.view
        first, shard = view.next_round_J.item(job), view.next_shard_J.item(job)
        scale = view.scale_J.item(job)
        gang = no_faster(view, job, free, gang_size(view, job))
        if not gang:
            return []
        round_ns = gang_round_ns(view, job, gang)
        rounds = 1 if shard else view.grain.rounds_for(round_ns, ENDLESS)
        if rounds == 1:
            devices = no_faster(view, job, free, scale - shard)
            return [
                Assignment(device, job, first, 1, (shard + i,)) for i, device in enumerate(devices)
            ]
        return [
            Assignment(device, job, first, rounds, shards)
            for device, shards in zip(gang, shares(scale, len(gang)), strict=True)
        ]
