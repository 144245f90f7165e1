"""Groups of devices that are about equally fast for every job, as a policy uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

import numpy as np

from warren.model.costs import CostTable, IntArray
from warren.model.view import View
from warren.policy.place.estimate import cluster_speed, counts_T
from warren.policy.place.gpu_groups import gpu_groups, members
from warren.solve.pool import Pool, new_pool

KNOWN: int = 256
"""At most so many jobs are looked at to make groups: more are of the same models."""


def mean_round_ns(
    costs: CostTable, job: int, scale: int, count_T: Sequence[int], groups: int
) -> int:
    r"""\bar T_n: tasks of a round over the mean speed of a group; see ``solve.grouping``."""
    speed = cluster_speed(costs, job, count_T)
    return round(scale * groups / speed) if speed else 0


def attained_ns(view: View, groups: int) -> list[int]:
    """What jobs of the past had attained when they ended, as HLAS counts it on so many groups."""
    past, count_T = view.past, counts_T(view)
    return [
        (job.rounds or 0) * mean_round_ns(past.costs, row, job.scale, count_T, groups)
        for row, job in enumerate(past.jobs)
    ]


@dataclass(slots=True)
class Known:
    """What follows from costs alone, which stay as they are: kept so that it is found once.

    ``round_ns`` by job; ``rounds_J`` of a stretch by group, 0 where not known yet; ``turn_ns_JT``:
    T^c + T^s of the jobs so far.
    """

    round_ns: dict[int, int] = field(default_factory=dict)
    rounds_J: dict[int, IntArray] = field(default_factory=dict)
    turn_ns_JT: IntArray | None = None

    def turns(self, costs: CostTable) -> IntArray:
        """T^c + T^s, 0 where a job does not fit."""
        found = self.turn_ns_JT
        if found is None or len(found) != len(costs.fits_JT):
            turn_ns_JT = np.where(costs.fits_JT, costs.comp_ns_JT, 0) + np.where(
                costs.fits_JT, costs.sync_ns_JT, 0
            )
            found = self.turn_ns_JT = turn_ns_JT
        return found

    def rounds_in(self, group: int, jobs: int) -> IntArray:
        """``rounds_J`` of a group, to be filled in, for at least so many jobs."""
        found = self.rounds_J.get(group)
        if found is None or len(found) < jobs:
            known = 0 if found is None else len(found)
            more = np.zeros(max(jobs, 2 * known) - known, np.int64)
            found = more if found is None else np.concatenate((found, more))
            self.rounds_J[group] = found
        return found


class Part(NamedTuple):
    """A group's devices (D,), ascending, their types, and a pool of them, which is scratch."""

    devices: IntArray
    kind_D: IntArray
    pool: Pool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """``devices``: of each group, ascending; the fastest group first, as who is served first takes
    it; ``parts`` the same for kernels. ``rank_G``: groups that are as fast have the same.
    ``count_T``: devices of each type; ``known`` is scratch."""

    devices: tuple[tuple[int, ...], ...]
    group_D: IntArray
    rank_G: IntArray
    count_T: tuple[int, ...]
    parts: tuple[Part, ...]
    known: Known = field(default_factory=Known)

    def round_ns(self, view: View, job: int) -> int:
        """``mean_round_ns`` of a job of the view."""
        found = self.known.round_ns.get(job)
        if found is None:
            scale = view.scale_J.item(job)
            found = mean_round_ns(view.costs, job, scale, self.count_T, len(self.devices))
            self.known.round_ns[job] = found
        return found

    def idle(self, view: View) -> list[list[int]]:
        """The devices of each group of which none has work."""
        work_G = np.bincount(self.group_D, weights=view.queued_D)
        return [list(self.devices[group]) for group in (work_G == 0).nonzero()[0].tolist()]


def make_groups(view: View, count: int) -> Groups:
    """Groups for the jobs that are known, fastest first; at most as many as there are devices."""
    known = view.costs.first(KNOWN)
    found = gpu_groups(known, view.type_D, min(count, len(view.type_D)))
    held_GT, count_T = [tuple(one) for one in found.count_GT.tolist()], counts_T(view)
    speed_of = {held_T: group_speed(known, held_T, count_T) for held_T in dict.fromkeys(held_GT)}
    order = sorted(range(len(held_GT)), key=lambda group: -speed_of[held_GT[group]])
    devices = members(found)
    return Groups(
        devices=tuple(tuple(devices[group].tolist()) for group in order),
        group_D=np.argsort(order)[found.group_D],
        rank_G=np.unique([-speed_of[held_GT[group]] for group in order], return_inverse=True)[1],
        count_T=count_T,
        parts=tuple(_part(view, devices[group]) for group in order),
    )


def _part(view: View, devices: IntArray) -> Part:
    kind_D = view.type_D[devices]
    return Part(devices, kind_D, new_pool(kind_D, view.costs.fits_JT.shape[1]))


def group_speed(costs: CostTable, held_T: Sequence[int], count_T: Sequence[int]) -> float:
    """How fast a group is for the jobs of a table: the sum of its parts of the cluster's speed."""
    parts = [
        cluster_speed(costs, job, held_T) / whole
        for job in range(len(costs.fits_JT))
        if (whole := cluster_speed(costs, job, count_T))
    ]
    return fsum(parts)
