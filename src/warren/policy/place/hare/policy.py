"""Hare, ours: Hare's relaxed rounds, planned from jobs as liquids down to single tasks.

What
    Plans all tasks before time starts, in three steps. *Jobs*: a rule (an order of the jobs, and
    prices of device time) shares the devices among the jobs present, as if both were liquid; local
    search over such rules takes a millisecond a trial. *Rounds*: dispatch in time gives each round
    of a job the type that the rule has for it, and a free device the first task in order. Stretches
    of rounds are inserted, job by job, into the free time of the devices, or dispatched in time,
    the least left to do first; one of these schedules is that of ``srtf``. Each schedule is run
    with the profile's times before it is compared, so more budget never gives a worse plan.
Source
    Hare (HPDC'22), problem Hare_Sched (4)-(8) and the idea of Algorithm 1: relax to jobs, spread
    over rounds, list.
Differs
    The relaxation is not (9), which ``hare-published`` solves, but divisible devices with the rule
    as its unknown. Line 12 of Algorithm 1 takes the earliest available GPU whatever its speed and
    reserves it while the task waits for its barrier; here a round uses one type, chosen by the
    worth of its time to others, and no device waits for a barrier while a task waits for its type.
    The objective is the sum of w (C - a), which differs from the paper's sum of w C by a constant,
    or the makespan. The paper leaves switching between jobs out of its model. If a cluster charges
    it, schedules are made without it and compared with it, and schedules of longer stretches, which
    switch less, compete: when a switch costs more than a task they win.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.decision import Decision, Plan
from warren.model.events import Event
from warren.model.view import View
from warren.policy.place.hare.planner import Planner

OBJECTIVES: Final = ("weighted-jct", "makespan")


@dataclass(frozen=True, slots=True, kw_only=True)
class HareMemory:
    """The outcome of the search: planned finish times, -1 for none, and the schedules it made."""

    finish_ns_J: IntArray
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hare:
    """Plan all tasks before time starts, by a search over rules, rounds and single tasks.

    ``budget`` counts task placements (stretches at a coarse grain) spent on improvement; a trial
    of a rule counts as a thousand, and one more for every ten jobs served in it. 0 keeps the first
    schedule. ``objective``: ``weighted-jct`` or ``makespan``.
    """

    budget: int = 1_000_000
    objective: str = OBJECTIVES[0]

    name: ClassVar[str] = "hare"
    source: ClassVar[str] = "Hare (HPDC'22) (4)-(8), after Algorithm 1"
    offline: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset()

    def __post_init__(self) -> None:
        # A bool is an int, but no count.
        if not isinstance(self.budget, int) or isinstance(self.budget, bool) or self.budget < 0:
            raise ValueError("budget is a count of task placements, 0 or more")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective is one of {', '.join(OBJECTIVES)}")

    def initial(self, view: View) -> HareMemory:
        """Return the memory before the plan: no finish time is known."""
        return HareMemory(finish_ns_J=np.full(len(view.jobs), -1, dtype=np.int64), schedules=0)

    def decide(self, view: View, memory: HareMemory) -> tuple[Decision, HareMemory]:
        """Make the whole plan, once."""
        if not view.jobs:
            return Decision(plan=Plan.empty()), memory
        # In the place of Algorithm 1's lines 3-17: relax, order and list; then search, which is
        # ours, since a better plan is worth the time before the run starts.
        planner = Planner(view, self.objective)
        planner.start()
        planner.improve(self.budget)
        return Decision(plan=planner.plan()), HareMemory(
            finish_ns_J=planner.finish_ns_J, schedules=planner.schedules
        )

    def explain(self, view: View, memory: HareMemory, job: int) -> str:
        """Say in one sentence where the plan has the job."""
        finish_s = memory.finish_ns_J[job] / 1e9
        done = f"{view.round_J[job]} of {view.rounds_J[job]} rounds are done"
        if finish_s < 0:  # a run that goes on has the plan, not its estimates
            return f"{done}; the plan has a place for the others"
        return f"{done}; the plan ends it at {finish_s:.1f} s"
