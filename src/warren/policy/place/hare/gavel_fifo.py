"""Gavel_FIFO: jobs in order of arrival, each on the fastest free devices, as a gang.

What
    A job waits until as many devices as its scale are free, takes the fastest of them for its
    whole life, and no later job passes it. Weights and lengths of jobs count for nothing.
Source
    Hare (HPDC'22), section 7.1, "Gavel_FIFO"; after Narayanan et al., OSDI'20.
Differs
    A job of more tasks than the cluster has fitting devices takes all of them and runs several
    tasks of a round one after the other (the papers do not say). Gavel's own FIFO shares devices
    by a linear program and moves jobs between types; Hare's sentence has a job take the fastest
    GPUs that are free when it starts, which is what stands here. See ``gang_holding`` for how
    rounds are handed out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.costs import IntArray
from warren.model.view import View
from warren.policy.common.gangs_in_line import GangsInLine
from warren.policy.common.round_times import fastest, gang_size


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelFifo(GangsInLine):
    """Start jobs in order of arrival, as gangs on the fastest free devices."""

    one_host: bool = False
    """Whether a gang waits until one host has devices enough for it."""

    name: ClassVar[str] = "gavel-fifo"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; Gavel (OSDI'20)"
    first_are: ClassVar[str] = "came earlier"
    needs_rounds: ClassVar[bool] = False
    plans_rings: ClassVar[bool] = True

    def rank(self, view: View, job: int) -> float:
        """Return the same for each job: they go by index, which is arrival."""
        return 0.0

    def take(self, view: View, job: int, free: IntArray) -> list[int]:
        """Take the fastest free devices for a gang; none if they are too few."""
        # Gavel, as Hare has it: the fastest available GPUs; it waits where too few are idle.
        needed = gang_size(view, job)
        gang = fastest(view, job, free, needed)
        return gang if len(gang) == needed else []
