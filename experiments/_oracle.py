"""HLAS for one who is told every length: the shortest remaining time goes first, on its groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.view import View
from warren.policy.place.hlas.policy import Hlas, HlasMemory
from warren.policy.place.hlas.waiting_jobs import QueuePosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle(Hlas):
    """What HLAS could gain by predictions at best: no more than the order of jobs is other."""

    name: ClassVar[str] = "oracle"
    needs_rounds: ClassVar[bool] = True

    def spot(self, view: View, memory: HlasMemory, job: int) -> QueuePosition:
        """Where a job stands: by R T_n, the rounds that are left times the mean time of a round."""
        assert memory.groups is not None, "a job has arrived, so there are groups"
        left = view.rounds_J.item(job) - view.round_J.item(job)
        return QueuePosition(float(left * memory.groups.round_ns(view, job)), 0.0, job)
