"""Hare as published: Algorithm 1 to the letter, on the relaxation (9).

What
    Solves Hare_Sched_RL, sorts tasks by the largest middle completion time H, and places them one
    after another on the earliest available device, whatever its speed.
Source
    Hare (HPDC'22), section 5.2, Algorithm 1; relaxation (9).
Differs
    (9) is bilinear and goes to CPLEX in the paper; here its integer part is searched and the rest
    is a linear program (see ``warren.solve.relaxation.hare_lp``). Types that a job does not fit are
    left out. ``every_subset`` imposes (9) on every subset of a device's tasks, which Lemma 2 needs
    and the printed (9) does not give. The plan keeps Algorithm 1's order a device, so a device
    stays reserved for a task that waits for its barrier. Above ``MAX_TASKS`` tasks a stand-in takes
    the relaxation's place (``warren.solve.relaxation.hare_wspt``), and ``explain`` says so; with
    ``stand_in`` it always does. Algorithm 1's lines 5-17 stay to the letter. ``idle: fastest`` is
    another reading of line 12: of the GPUs that are idle when a task may start it takes the fastest
    for the task, not the GPU that is idle longest. The proof of Theorem 4 speaks of machines with
    the earliest start time, which all idle ones have alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.model.decision import Decision, Plan
from warren.model.errors import Problem, SpecError
from warren.model.events import Event
from warren.model.view import View
from warren.policy.common.round_times import columns

if TYPE_CHECKING:
    from warren.solve.relaxation.hare_lp import RelaxationInstance

MAX_TASKS: Final = 400
"""Above this one linear program takes too long to search with, and the stand-in is used."""
LARGEST: Final = 5_000_000
"""Tasks that a plan may have: it has a row for each, whatever the grain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarePublishedMemory:
    """The outcome of the relaxation, for ``explain``.

    Its ``objective``, the linear programs solved (none: the stand-in), and whether these were all
    assignments.
    """

    objective: float = 0.0
    solves: int = 0
    exhaustive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HarePublished:
    """Plan all tasks by Algorithm 1 as printed. ``budget`` counts linear programs."""

    every_subset: bool = False
    budget: int = 500
    idle: str = "longest"
    """The idle device that line 12 takes: idle ``longest``, as it is printed, or the ``fastest``.
    """
    stand_in: bool = False

    name: ClassVar[str] = "hare-published"
    source: ClassVar[str] = "Hare (HPDC'22) 5.2, Algorithm 1 on (9)"
    offline: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.budget, int) or isinstance(self.budget, bool) or self.budget < 1:
            raise ValueError("budget is a count of linear programs, 1 or more")
        for option in ("every_subset", "stand_in"):
            if not isinstance(getattr(self, option), bool):
                raise ValueError(f"{option} is true or false")
        if self.idle not in ("longest", "fastest"):
            raise ValueError("idle is longest or fastest")

    def initial(self, view: View) -> HarePublishedMemory:
        """Return the memory before the plan: nothing is solved."""
        return HarePublishedMemory()

    def decide(
        self, view: View, memory: HarePublishedMemory
    ) -> tuple[Decision, HarePublishedMemory]:
        """Make the whole plan, once.

        Raises SpecError if the instance has more than ``LARGEST`` tasks.
        """
        tasks = int((view.rounds_J * view.scale_J).sum())
        # A row a task whatever the grain: Algorithm 1 knows no stretches.
        if tasks > LARGEST:
            message = f"{tasks} tasks; {self.name} takes at most {LARGEST}; use hare"
            raise SpecError(Problem(file=self.name, field="scheduler.place", message=message))
        if not tasks:
            return Decision(plan=Plan.empty()), memory
        # Algorithm 1, line 3 (the relaxation) and line 4 (tasks sorted by H).
        by_stand_in = self.stand_in or tasks > MAX_TASKS
        table, found = _sequence(view) if by_stand_in else self._relaxed(view)
        from warren.solve.lists.hare_algorithm1 import AVAILABLE, FASTEST, algorithm1

        # Algorithm 1, lines 5-17, in compiled code.
        job_I, round_I, shard_I = (np.ascontiguousarray(column) for column in table.T)
        device_I, _, _ = algorithm1(
            job_I,
            round_I,
            view.arrival_ns_J,
            view.scale_J,
            view.rounds_J,
            view.costs.comp_ns_JT,
            view.costs.sync_ns_JT,
            view.costs.fits_JT,
            view.type_D,
            FASTEST if self.idle == "fastest" else AVAILABLE,
        )
        plan = Plan(
            job_R=job_I,
            round_R=round_I,
            rounds_R=np.ones(tasks, dtype=np.int64),
            shard_R=shard_I,
            device_R=device_I,
        )
        return Decision(plan=plan), found

    def _relaxed(self, view: View) -> tuple[IntArray, HarePublishedMemory]:
        """List job, round and shard of all tasks in the order of H, from the relaxation.

        Algorithm 1, lines 3 and 4. Ties go by the order of the instance's tasks.
        """
        from warren.solve.relaxation.hare_lp import solve_relaxed

        instance = _instance(view)
        relaxed = solve_relaxed(instance, every_subset=self.every_subset, budget=self.budget)
        table = np.array(instance.tasks(), dtype=np.int64)
        table = table[np.argsort(_in_rounds(relaxed.middle_s_I, table), kind="stable")]
        return table, HarePublishedMemory(
            objective=relaxed.objective, solves=relaxed.solves, exhaustive=relaxed.exhaustive
        )

    def explain(self, view: View, memory: HarePublishedMemory, job: int) -> str:
        """Say in one sentence how far the plan has come, and how its order was found."""
        how = "all assignments" if memory.exhaustive else f"{memory.solves} assignments"
        done = f"{view.round_J[job]} of {view.rounds_J[job]} rounds are done"
        if self.stand_in or int((view.rounds_J * view.scale_J).sum()) > MAX_TASKS:
            why = "asked for" if self.stand_in else "many tasks"
            return f"{done}; planned in the order of a stand-in for the relaxation ({why})"
        if not memory.solves:  # a run that goes on has the plan, not how it was made
            return f"{done}; planned in the order of the relaxation"
        return f"{done}; planned in the order of the relaxation over {how}"


def _sequence(view: View) -> tuple[IntArray, HarePublishedMemory]:
    """List job, round and shard of all tasks in the order of the stand-in's H (lines 3 and 4)."""
    from warren.solve.relaxation.hare_wspt import stand_in_middles

    job_G, round_G, middle_s_G = stand_in_middles(**columns(view))
    order_G = np.argsort(middle_s_G, kind="stable")
    # A group G is a round of a job; its tasks have one H, and it becomes a row for each task.
    scale_G = view.scale_J[job_G[order_G]]
    group_I = np.repeat(order_G, scale_G)
    first_I = np.repeat(np.cumsum(scale_G) - scale_G, scale_G)
    shard_I = np.arange(len(group_I)) - first_I
    return np.stack([job_G[group_I], round_G[group_I], shard_I], axis=1), HarePublishedMemory()


def _in_rounds(middle_s_I: FloatArray, table: IntArray) -> FloatArray:
    """Raise H to that of the job's earlier rounds, which the solver's tolerance may exceed.

    Lines 8 and 9 read the ends of the round before, so it must come first in the sequence.
    """
    # Tasks of ``table`` stand job by job and round by round; ``start_I`` begins each round.
    raised_I = middle_s_I.copy()
    start_I = np.flatnonzero(np.append(True, np.any(np.diff(table[:, :2], axis=0) != 0, axis=1)))
    least = 0.0
    for begin, end in pairwise([*start_I.tolist(), len(table)]):
        if table[begin, 1] > 0:
            np.maximum(raised_I[begin:end], least, out=raised_I[begin:end])
        least = float(raised_I[begin:end].max())
    return raised_I


def _instance(view: View) -> RelaxationInstance:
    """Return the relaxation's instance: times in seconds, a column a device (GPU m)."""
    from warren.solve.relaxation.hare_lp import RelaxationInstance

    # The paper's m are GPUs, not types, so each device has a column; 0 where a job does not fit.
    fits_JM = view.costs.fits_JT[:, view.type_D]
    return RelaxationInstance(
        arrival_s_J=view.arrival_ns_J / 1e9,
        weight_J=view.weight_J.astype(np.float64),
        scale_J=view.scale_J,
        rounds_J=view.rounds_J,
        comp_s_JM=np.where(fits_JM, view.costs.comp_ns_JT[:, view.type_D], 0) / 1e9,
        sync_s_JM=np.where(fits_JM, view.costs.sync_ns_JT[:, view.type_D], 0) / 1e9,
        fits_JM=fits_JM,
    )
