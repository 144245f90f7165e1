"""Sched_Homo and Sched_Allox as if each job had one round: unknown lengths cannot help them.

What
    ``sched-homo-unit``, ``sched-allox-unit``: see ``sched_homo`` and ``sched_allox``.
Source
    HLAS (TCC'24), section VI-D: "we use a unit job size to disable the job size information".
Differs
    A unit size is one round, so jobs still differ in weight and in the time of a round, which the
    profile gives; Sched_Allox expects a running job to end a round later, always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from warren.model.costs import IntArray
from warren.model.view import View
from warren.policy.common.gangs_in_line import GangsInLine
from warren.policy.common.round_times import gang_size
from warren.policy.place.hare.sched_allox import SchedAllox
from warren.policy.place.hare.sched_homo import SchedHomo, blind_round_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedHomoUnit(GangsInLine):
    """Start gangs as ``sched-homo`` does, but ranked as if every job had one round."""

    name: ClassVar[str] = "sched-homo-unit"
    source: ClassVar[str] = "HLAS (TCC'24) VI-D"
    first_are: ClassVar[str] = SchedHomo.first_are
    needs_rounds: ClassVar[bool] = False

    def rank(self, view: View, job: int) -> float:
        """Return gang size times the time of one round, by weight: the least starts first."""
        # The size, one of the three factors of ``sched-homo``, is its number of rounds: 1.
        gang = gang_size(view, job)
        return gang * blind_round_ns(view, job, gang) / view.weight_J.item(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedAlloxUnit(SchedAllox):
    """Match jobs as ``sched-allox`` does, but as if every job had one round."""

    name: ClassVar[str] = "sched-allox-unit"
    source: ClassVar[str] = "HLAS (TCC'24) VI-D"
    needs_rounds: ClassVar[bool] = False

    def rounds(self, view: View, jobs: IntArray) -> IntArray:
        """Return 1 for each job: a unit size is one round."""
        # This enters run times and expected ends: a running job is thought to end a round later.
        return np.ones_like(jobs)
