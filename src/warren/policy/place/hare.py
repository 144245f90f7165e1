"""Hare, ours: Hare's relaxed rounds with heterogeneity-aware, work-conserving placement.

What
    Plans all tasks before time starts. Job orders (by weight per work, by weight per critical
    path, their mix, remaining work, arrival) are each turned into a schedule by list dispatch in
    time; the order with the least total weighted JCT is then improved by moving single jobs to
    other places in it, within a budget of task placements. More budget never gives a worse plan:
    each schedule is run with the profile's times before it is compared.
Source
    Hare (HPDC'22), problem Hare_Sched (4)-(8) and the idea of Algorithm 1 (a global order, then
    list placement).
Differs
    Algorithm 1 takes the earliest available GPU whatever its speed and reserves it while the task
    waits for its barrier; here a task takes the device with the earliest completion, and no
    device waits for a barrier while other work is ready. The order comes from the rules above
    instead of relaxation (9), which ``hare-published`` solves. The objective is the sum of
    w (C - a), which differs from the paper's sum of w C by a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import numpy.typing as npt

from warren.model.costs import IntArray
from warren.model.decision import Decision
from warren.model.events import Event
from warren.model.plan import Plan
from warren.model.units import NEVER_NS
from warren.model.view import View
from warren.policy.place.estimate import round_ns_J

if TYPE_CHECKING:
    from warren.solve.dispatch import Problem

Floats = npt.NDArray[np.float64]
MIN_COST: Final = 1000
"""What one schedule costs at least, in task placements: making it is never free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the search found: planned finish times, and how many schedules it looked at."""

    finish_ns_J: IntArray
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hare:
    """See the module's text.

    ``budget`` counts task placements (stretches at a coarse grain) spent on improving the order;
    0 keeps the best of the rules' orders.
    """

    budget: int = 500_000

    name: ClassVar[str] = "hare"
    source: ClassVar[str] = "Hare (HPDC'22) (4)-(8), after Algorithm 1"
    offline: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.budget, int) or isinstance(self.budget, bool) or self.budget < 0:
            raise ValueError("budget is a count of task placements, 0 or more")

    def initial(self, view: View) -> Memory:
        """Nothing planned."""
        return Memory(finish_ns_J=np.full(len(view.jobs), -1, dtype=np.int64), schedules=0)

    def decide(self, view: View, memory: Memory) -> tuple[Decision, Memory]:
        """The whole plan, once."""
        if not view.jobs:
            return Decision(plan=Plan.empty()), memory
        search = _Search(view)
        for priority, step in _orders(view):
            search.consider(priority, step)
        search.improve(self.budget)
        return Decision(plan=search.plan()), Memory(
            finish_ns_J=search.finish_ns_J, schedules=search.schedules
        )

    def explain(self, view: View, memory: Memory, job: int) -> str:
        """One sentence: where the plan has the job."""
        finish_s = memory.finish_ns_J[job] / 1e9
        done = f"{view.round_J[job]} of {view.rounds_J[job]} rounds are done"
        if finish_s < 0:  # a run that goes on has the plan, not what was thought of it
            return f"{done}; the plan has a place for the others"
        return f"{done}; the plan ends it at {finish_s:.1f} s"


def _orders(view: View) -> Iterator[tuple[Floats, Floats]]:
    """Job orders to start from, as (priority, change of priority per round)."""
    comp_JT = np.where(view.costs.fits_JT, view.costs.comp_ns_JT, NEVER_NS)
    work_J = (view.rounds_J * view.scale_J * comp_JT.min(axis=1)).astype(np.float64)
    path_J = (view.rounds_J * round_ns_J(view)).astype(np.float64)
    still = np.zeros(len(view.jobs))
    mix_J = work_J / len(view.type_D) + path_J
    for length_J in (work_J, path_J, mix_J):
        yield length_J / view.weight_J, still
    # Remaining instead of whole length: the closer to its end, the earlier a job comes.
    for length_J in (path_J, mix_J):
        yield length_J / view.weight_J, -length_J / view.weight_J / view.rounds_J
    yield view.arrival_ns_J.astype(np.float64), still


class _Search:
    """The best schedule so far over the orders considered."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.stretch_J = _stretches(view)
        self.schedules = 0
        self.value = np.inf
        self.finish_ns_J: IntArray = np.full(len(view.jobs), -1, dtype=np.int64)
        self._rows: IntArray = np.zeros((5, 0), dtype=np.int64)
        self._priority_J: Floats = np.zeros(len(view.jobs))
        self._step_J: Floats = np.zeros(len(view.jobs))

    def consider(self, priority_J: Floats, step_J: Floats) -> bool:
        """Dispatch in this order; keep it if the weighted JCT falls."""
        from warren.solve.dispatch import dispatch

        rows, _ = dispatch(self._problem(priority_J, step_J))
        finish_ns_J = self._finish_ns_J(rows)
        self.schedules += 1
        jct_s = (finish_ns_J - self.view.arrival_ns_J) / 1e9
        value = float(self.view.weight_J @ jct_s)
        if value >= self.value:
            return False
        self.value, self._rows, self.finish_ns_J = value, rows, finish_ns_J
        self._priority_J, self._step_J = priority_J, step_J
        return True

    def improve(self, budget: int) -> None:
        """Move one job at a time to another place in the order, while the budget lasts."""
        random = np.random.default_rng([self.view.seed, 0x4A7E])
        jobs, cost = len(self.view.jobs), max(MIN_COST, self._rows.shape[1])
        if jobs < 2:
            return
        for _ in range(budget // cost):
            ranked = np.argsort(self._priority_J, kind="stable")
            moved, place = random.integers(0, jobs, size=2)
            order = np.insert(np.delete(ranked, moved), place, ranked[moved])
            values = np.sort(self._priority_J, kind="stable")
            priority_J = np.empty(jobs)
            priority_J[order] = values
            self.consider(priority_J, self._step_J)

    def plan(self) -> Plan:
        """The best schedule as a plan."""
        job, first, rounds, shard, device = (np.ascontiguousarray(row) for row in self._rows)
        return Plan(job_R=job, round_R=first, rounds_R=rounds, shard_R=shard, device_R=device)

    def _finish_ns_J(self, rows: IntArray) -> IntArray:
        """When the rows, run as a plan, end each job.

        Not what the dispatch expected: a task may start earlier on a device that was idle all
        along, and a network of lanes queues synchronisations.
        """
        from warren.solve.execute import Tables, execute
        from warren.solve.units import Rows

        view = self.view
        nothing = np.zeros(0, dtype=np.uint64)
        tables = Tables(
            arrival_ns_J=np.array(view.arrival_ns_J),
            scale_J=np.array(view.scale_J),
            rounds_J=np.array(view.rounds_J),
            type_D=np.array(view.type_D),
            comp_ns_JT=np.array(view.costs.comp_ns_JT, order="C"),
            sync_ns_JT=np.array(view.costs.sync_ns_JT, order="C"),
            comp_key_J=nothing,
            sync_key_J=nothing,
            cv_ppm=0,
            is_lane=view.cluster.network.model == "lane",
        )
        finish_ns_J: IntArray = execute(Rows(*map(np.ascontiguousarray, rows)), tables)[3]
        return finish_ns_J

    def _problem(self, priority_J: Floats, step_J: Floats) -> Problem:
        from warren.solve.dispatch import Problem

        view = self.view
        return Problem(
            arrival_ns_J=view.arrival_ns_J,
            scale_J=view.scale_J,
            rounds_J=view.rounds_J,
            priority_J=priority_J,
            priority_step_J=step_J,
            comp_ns_JT=view.costs.comp_ns_JT,
            sync_ns_JT=view.costs.sync_ns_JT,
            fits_JT=view.costs.fits_JT,
            type_D=view.type_D,
            stretch_rounds_J=self.stretch_J,
        )


def _stretches(view: View) -> IntArray:
    """Rounds of one stretch of each job at the run's grain."""
    round_J = round_ns_J(view)
    return np.array(
        [
            view.grain.rounds_for(int(round_J[job]), int(view.rounds_J[job]))
            for job in range(len(view.jobs))
        ],
        dtype=np.int64,
    )
