"""Gittins: the job with the least expected effort to its end goes first, on the type it bids for.

What
    The expected number of rounds left of a job follows from ended jobs like it (``job_history``),
    given the rounds it has run (``gittins_index``). That number, times the work of a round on the
    mean device, is the job's rank, and jobs are taken in the order of their ranks. Types of device
    have prices, at which about as many jobs ask for each type as it has devices for
    (``type_market``). A job goes to the type that it gains most by: a job that is much faster on
    fast devices than on others pays for them, another job leaves them. Tasks take free devices of
    that type, else of types that are at most ``patience`` times as slow; else they wait, though
    slower ones idle. A job to which no type is worth its price takes what is free. A job as slow as
    the slowest of a gang goes before faster ones. The expectation is learned: from the jobs of the
    past, and from the ends of this run's own.
Source
    None for training jobs: Warren's. The index is Gittins's (see ``gittins_index``). It uses what
    HLAS and HLAS-P leave unused: which jobs are alike, the whole distribution of their sizes, how
    much more one job gains by a fast device than another, and single devices instead of groups.
Differs
    If nothing is known of a model, all ended jobs count, in rounds; if none is known, a job is
    expected to need as much again as it has had, which is least attained service. A job is ranked
    and bids when it takes its place in the line; jobs that end while it waits count from its next
    turn on. At most ``LOOKED_AT`` jobs that find no device are passed over in a decision. Weights
    count for nothing unless ``weighted`` is set, as for HLAS.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.decision import ENDLESS, Assignment, Decision, Reason
from warren.model.events import Event
from warren.model.view import View
from warren.policy.common.job_history import JobHistory, kinds_by_code, like, records_of
from warren.policy.common.persistent_heap import Entry, PersistentHeap, entries, put, take
from warren.policy.common.round_times import (
    TASK_TRIGGERS,
    gang_round_ns,
    made_ready,
    may_start,
    no_faster,
    stretch_on,
    tasks_on,
)
from warren.policy.place.gittins.type_market import TypeMarket, new_market
from warren.solve.assignment.gittins_index import least_effort

LOOKED_AT: Final = 32
"""Most jobs that find no device, or too few, and are passed over in one decision."""
_LEAST_WEIGHT: Final = 1e-6
"""A job of no weight counts as this light, so that nothing is divided by 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GittinsMemory:
    """The prices of types, the knowledge from ended jobs, and the waiting jobs.

    ``line``: jobs whose round may start, by rank; ``known``: rounds of ended jobs.
    """

    market: TypeMarket
    known: JobHistory
    line: PersistentHeap[Entry] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gittins:
    """Give free devices to jobs of the least expected effort, each on the type it gains most by."""

    patience: float = 1.2
    """Largest ratio of a type's time to that of the job's best type at which the job takes it; at
    least 1."""
    weighted: bool = False
    """Whether work counts, and bids are, by the weight of a job."""
    past: bool = True
    """Whether ended jobs count for others; else a job needs as much again as it has had."""
    prices: bool = True
    """Whether types have prices; else a job takes any free device."""

    name: ClassVar[str] = "gittins"
    source: ClassVar[str] = "Warren; Gittins (1979)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = TASK_TRIGGERS

    def __post_init__(self) -> None:
        # Written this way, nan is refused, too.
        if not self.patience >= 1:
            raise ValueError(
                "patience is a number, 1 or more: how many times as slow a type may be"
            )

    def initial(self, view: View) -> GittinsMemory:
        """Return the memory before the first decision, with the past's knowledge of ended jobs."""
        known = records_of(view.past, kinds_by_code) if self.past else JobHistory(kinds_by_code)
        return GittinsMemory(market=new_market(view), known=known)

    def decide(self, view: View, memory: GittinsMemory) -> tuple[Decision, GittinsMemory]:
        """Learn from jobs that ended, then give free devices to the first jobs that wait."""
        step = _Step(self, view, memory)
        step.learn()
        step.queue_up()
        step.serve()
        decision = Decision(assign=tuple(step.assign), reasons=step.reasons)
        return decision, step.memory

    def explain(self, view: View, memory: GittinsMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if not view.open_J[job]:
            return "waits for nothing: it has not arrived or has ended"
        if view.next_round_J[job] > view.round_J[job]:
            return f"all its tasks of round {view.round_J[job]} are running or queued"
        left = _left(view, memory.known, job)
        pressing = self.pressing(view, memory.known, job)
        here = (_rank(view, memory.market, job, pressing), job)
        ahead = sum(1 for other in entries(memory.line) if other < here)
        return (
            f"has run {view.round_J[job]} rounds and is expected to need some {left:.0f} more; "
            f"{ahead} jobs have less work left; {self._takes(view, memory, job)}"
        )

    def _takes(self, view: View, memory: GittinsMemory, job: int) -> str:
        """Say which devices the job takes."""
        if not self.prices:
            return "it takes what is free"
        kind = memory.market.type_of(job)
        best = "what others leave" if kind is None else view.cluster.types[kind].name
        return f"it gains most by {best}"

    def pressing(self, view: View, known: JobHistory, job: int) -> float:
        """Return the rounds that a job is expected to need, over its weight where weights count."""
        left = _left(view, known, job)
        return left / max(view.weight_J.item(job), _LEAST_WEIGHT) if self.weighted else left


def _left(view: View, known: JobHistory, job: int) -> float:
    """Return the rounds that the job is expected to need still, at the least effort for an ending.

    The inverse of its Gittins index, from the rounds that ended jobs like it had.
    """
    return least_effort(like(known, view.jobs[job]).sizes, float(view.round_J.item(job)))


def _rank(view: View, market: TypeMarket, job: int, left: float) -> float:
    """Return the work of ``left`` rounds of the job, in ns of the mean device that fits it."""
    return left * view.scale_J.item(job) * market.need(view, job).task_ns


@dataclass(slots=True)
class _Step:
    """One decision in the making. ``shard``: first task not placed yet, of rounds begun here."""

    policy: Gittins
    view: View
    memory: GittinsMemory
    assign: list[Assignment] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    shard: dict[int, int] = field(default_factory=dict)

    def learn(self) -> None:
        """Note of jobs that ended how many rounds their kind has."""
        if not self.policy.past:
            return
        known = self.memory.known.learned(self.view)
        if known is not self.memory.known:
            self.memory = replace(self.memory, known=known)

    def queue_up(self) -> None:
        """Queue the jobs that may begin a round now by their rank, each with a new bid."""
        view = self.view
        line = self.memory.line
        market = self.memory.market
        for job in made_ready(view):
            left = self.policy.pressing(view, self.memory.known, job)
            line = put(line, (_rank(view, market, job, left), job))
            market = market.bid(view, job, left) if self.policy.prices else market
            self.reasons[job] = Reason.WAITING_FOR_TURN
        # After all bids of this instant, so that the order of its events does not matter.
        market = market.priced(view) if self.policy.prices else market
        if line is not self.memory.line or market is not self.memory.market:
            self.memory = replace(self.memory, market=market, line=line)

    def serve(self) -> None:
        """Give the free devices to the first jobs that wait."""
        idle_D = self.view.queued_D == 0
        line, kept = self.memory.line, list[Entry]()
        while line is not None and len(kept) < LOOKED_AT and idle_D.any():
            entry, line = take(line)
            job = entry[1]
            # An old entry of a job that has gone on, ended, or been placed in this decision.
            if not may_start(self.view, job) or job in self.shard:
                continue
            given = self._give(job, self._free(job, idle_D.nonzero()[0]))
            idle_D[[one.device for one in given]] = False
            self.assign += given
            if given:
                self.reasons.pop(job, None)
            placed = self.shard[job] = sum(len(one.shards) for one in given)
            # Tasks of its round are left: it keeps its place for the next decision.
            if placed < self.view.scale_J.item(job) - self.view.next_shard_J.item(job):
                kept.append(entry)
        # Back into the heap only after all were asked, so that none is asked twice.
        for one in kept:
            line = put(line, one)
        if line is not self.memory.line:
            self.memory = replace(self.memory, line=line)

    def _free(self, job: int, idle: IntArray) -> IntArray:
        """Return those of the idle devices that a job would rather have than wait."""
        view, market = self.view, self.memory.market
        best = market.type_of(job) if self.policy.prices else None
        if best is None:
            return idle
        type_N = view.type_D[idle]
        left = view.scale_J.item(job) - view.next_shard_J.item(job)
        # The best type alone if it has devices enough for the gang; else types nearly as fast, too.
        chosen_N = type_N == best
        if np.count_nonzero(chosen_N) < min(market.need(view, job).gang, left):
            chosen_N = np.array(market.usable(job, best, self.policy.patience))[type_N]
        chosen: IntArray = idle[chosen_N]
        return chosen

    def _give(self, job: int, free: IntArray) -> list[Assignment]:
        """Assign the job's next tasks to free devices: single tasks, or a gang's whole stretch."""
        view = self.view
        shard, scale = view.next_shard_J.item(job), view.scale_J.item(job)
        gang = no_faster(view, job, free, self.memory.market.need(view, job).gang)
        if not gang:
            return []
        # A round that has begun task by task is finished so; no stretch can begin in its middle.
        round_ns = gang_round_ns(view, job, gang)
        rounds = 1 if shard else view.grain.rounds_for(round_ns, ENDLESS)
        if rounds == 1:
            return tasks_on(view, job, shard, no_faster(view, job, free, scale - shard))
        return stretch_on(view, job, rounds, gang)
