"""GPU groups of devices that are about equally fast for every job: HLAS's preparation phase.

IV-C, (4)-(6). ``warren.solve.gpu_groups.problem`` describes how groups are found, what is proved of
them and where we differ. The paper has no rule for |U|. ``usual_groups`` is the shape of its Fig.
25: 160 GPUs in 40 groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import fsum
from typing import Final

import numpy as np

from warren.model.cluster import Cluster
from warren.model.costs import CostTable, IntArray
from warren.model.view import View
from warren.policy.common.round_times import cluster_speed, counts_T
from warren.solve.common.heaps import in_groups
from warren.solve.gpu_groups.problem import Grouping, GroupingProblem, relative_speeds, speeds
from warren.solve.gpu_groups.round_dispatch import GroupedDevices
from warren.solve.gpu_groups.solve import MOVES, PROGRAMS, grouped

DEVICES_A_GROUP: Final = 4
"""The shape of HLAS's Fig. 25: 160 GPUs in 40 groups."""


def usual_groups(devices: int) -> int:
    """Return |U| where nothing else is said: groups of about four devices, at least one."""
    return max(1, round(devices / DEVICES_A_GROUP))


def gpu_groups(
    costs: CostTable, type_D: IntArray, groups: int, moves: int = MOVES, programs: int = PROGRAMS
) -> Grouping:
    """Find groups in which every job of the table is about equally fast: the problem (4)-(6).

    Speeds are relative to each job's mean speed of a group; else the fast models would dominate
    (4), since s is given up to a factor only. Raises ValueError if there are more groups than
    devices, or none.
    """
    # s_nm of each job and type; grouping works on types, since GPUs of one type are alike in (4).
    speed_JT = speeds(costs.comp_ns_JT, costs.sync_ns_JT, costs.fits_JT)
    letter = GroupingProblem(speed_JT=speed_JT, type_D=type_D, groups=groups)
    relative_JT = relative_speeds(speed_JT, type_D, groups)
    return grouped(replace(letter, speed_JT=relative_JT), moves, programs)


def cluster_text(cluster: Cluster, costs: CostTable, groups: int | None = None) -> str:
    """Describe the groups of a cluster for the jobs of a table; as many as usual if None."""
    type_D = np.array(cluster.type_of_device, dtype=np.int64)
    count = usual_groups(len(type_D)) if groups is None else groups
    return grouping_text(gpu_groups(costs, type_D, count), cluster.type_names)


def grouping_text(grouping: Grouping, type_names: Sequence[str]) -> str:
    """Describe the members of the groups, how equal the groups are, and how equal they could be."""
    gpus, groups = len(grouping.group_D), len(grouping.count_GT)
    # Groups that hold the same devices stand together: a line for each such series.
    lines = [f"{gpus} GPU{'s' * (gpus != 1)} in {groups} group{'s' * (groups != 1)}:"]
    first = 0
    for counts, alike in groupby(grouping.count_GT.tolist()):
        times = len(list(alike))
        held = [f"{n} {name}" for n, name in zip(counts, type_names, strict=True) if n]
        label = f"group {first}" if times == 1 else f"groups {first} to {first + times - 1}, each"
        lines.append(f"  {label}: {' + '.join(held)}")
        first += times
    return "\n".join([*lines, *_quality(grouping)])


def _quality(grouping: Grouping) -> list[str]:
    """Say how equal groups are by (4), and how equal they could be at best."""
    # If a grouping is optimal the bound is the value itself.
    value, bound = grouping.spread, grouping.bound
    said = f"A job's speed differs between groups by at most {value:.2%} of its mean (eq. 4)."
    if value <= bound:
        return [said, "No grouping has less."]
    return [said, f"No grouping has less than {bound:.2%}."]


def members(grouping: Grouping) -> tuple[IntArray, ...]:
    """List the devices of each group, ascending."""
    return tuple(
        np.flatnonzero(grouping.group_D == group) for group in range(len(grouping.count_GT))
    )


KNOWN: int = 256
"""Most jobs that are looked at to make groups: further jobs are of the same models."""


def mean_round_ns(
    costs: CostTable, job: int, scale: int, count_T: Sequence[int], groups: int
) -> int:
    r"""Return \bar T_n: the tasks of a round over the mean speed of a group, in nanoseconds.

    The mean speed is the cluster's over the number of groups, whichever devices each has; see
    ``gpu_groups.problem``. 0 where no device fits the job.
    """
    # scale / s_n with s_n = sum over m of s_nm / |U|: it does not depend on the grouping found.
    speed = cluster_speed(costs, job, count_T)
    return round(scale * groups / speed) if speed else 0


def attained_ns(view: View, groups: int) -> list[int]:
    """Return the attained service of past jobs at their ends: rounds times mean round time.

    In nanoseconds, as HLAS counts it on ``groups`` groups.
    """
    past, count_T = view.past, counts_T(view)
    return [
        (job.rounds or 0) * mean_round_ns(past.costs, row, job.scale, count_T, groups)
        for row, job in enumerate(past.jobs)
    ]


@dataclass(slots=True)
class KnownGroups:
    """Figures that follow from costs alone, which never change, so that each is found once.

    ``grouped_devices``: the devices for kernels, which is scratch, with room for the widest of the
    first ``jobs`` jobs. ``turn_ns_JT``: T^c + T^s of these, 0 where they do not fit; it may have
    more rows. ``round_ns`` by job.
    """

    grouped_devices: GroupedDevices
    turn_ns_JT: IntArray
    jobs: int = 0
    round_ns: dict[int, int] = field(default_factory=dict)

    def look(self, view: View) -> None:
        """Take in the costs of the jobs that have arrived since the last time."""
        first = self.jobs
        jobs = len(view.scale_J)
        costs = view.costs
        # Nothing is new; an earlier view that is shown once more has even fewer jobs.
        if first >= jobs:
            return
        # Room doubles, so that all copies together cost no more than the rows there are.
        if len(self.turn_ns_JT) < jobs:
            grown_JT = np.zeros((max(jobs, 2 * first), costs.fits_JT.shape[1]), np.int64)
            grown_JT[:first] = self.turn_ns_JT[:first]
            self.turn_ns_JT = grown_JT
        turn_ns_JT = costs.comp_ns_JT[first:] + costs.sync_ns_JT[first:]
        self.turn_ns_JT[first:jobs] = np.where(costs.fits_JT[first:], turn_ns_JT, 0)
        widest = int(view.scale_J[first:].max())
        if widest > len(self.grouped_devices.chosen_K):
            self.grouped_devices = self.grouped_devices._replace(
                chosen_K=np.zeros(widest, np.int64)
            )
        self.jobs = jobs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuGroups:
    """The groups of a cluster's devices, the fastest group first, as idle groups are served so.

    ``devices``: of each group, ascending; ``group_D``: the group of each device. ``rank_G``: groups
    that are equally fast have the same. ``count_T``: devices of each type; ``known`` is scratch.
    """

    devices: tuple[tuple[int, ...], ...]
    group_D: IntArray
    rank_G: IntArray
    count_T: tuple[int, ...]
    known: KnownGroups

    def round_ns(self, view: View, job: int) -> int:
        """Return ``mean_round_ns`` of a job of the view, computed once."""
        found = self.known.round_ns.get(job)
        if found is None:
            scale = view.scale_J.item(job)
            found = mean_round_ns(view.costs, job, scale, self.count_T, len(self.devices))
            self.known.round_ns[job] = found
        return found

    def idle(self, view: View) -> list[list[int]]:
        """List the devices of each group of which none has work."""
        work_G = np.bincount(self.group_D, weights=view.queued_D)
        return [list(self.devices[group]) for group in (work_G == 0).nonzero()[0].tolist()]


def make_groups(view: View, count: int) -> GpuGroups:
    """Make groups for the jobs that are known, fastest first; at most one a device.

    The preparation phase of HLAS (TCC'24), IV-C.
    """
    known = view.costs.first(KNOWN)
    found = gpu_groups(known, view.type_D, min(count, len(view.type_D)))
    held_GT, count_T = [tuple(one) for one in found.count_GT.tolist()], counts_T(view)
    speed_of = {held_T: group_speed(known, held_T, count_T) for held_T in dict.fromkeys(held_GT)}
    # Groups of the same devices have the same speed to the last bit, as it is computed once each.
    order = sorted(range(len(held_GT)), key=lambda group: -speed_of[held_GT[group]])
    devices, group_D = members(found), np.argsort(order)[found.group_D]
    return GpuGroups(
        devices=tuple(tuple(devices[group].tolist()) for group in order),
        group_D=group_D,
        rank_G=np.unique([-speed_of[held_GT[group]] for group in order], return_inverse=True)[1],
        count_T=count_T,
        known=KnownGroups(_grouped_devices(view, group_D), np.zeros((0, len(count_T)), np.int64)),
    )


def _grouped_devices(view: View, group_D: IntArray) -> GroupedDevices:
    """Lay out the devices for kernels: group by group, in it type by type, of a type ascending."""
    # Row R is a pair of group and type; its devices are first_R[R] to first_R[R + 1].
    groups, types = int(group_D.max()) + 1, view.costs.fits_JT.shape[1]
    row_D = group_D * types + view.type_D
    device_C, first_R = in_groups(row_D, groups * types)
    rows_GT = np.arange(groups)[:, None] * types + np.arange(types + 1)
    return GroupedDevices(
        first_GT=first_R[rows_GT],
        free_ns_C=np.zeros(len(row_D), np.int64),
        device_C=device_C,
        type_D=view.type_D,
        load_D=np.zeros(len(row_D), np.int64),
        idle_T=np.zeros(types, np.bool_),
        chosen_K=np.zeros(1, np.int64),
    )


def group_speed(costs: CostTable, held_T: Sequence[int], count_T: Sequence[int]) -> float:
    """Return how fast a group is for the jobs of a table.

    The sum over jobs of the group's part of the cluster's speed. A job that no device fits is left
    out.
    """
    parts = [
        cluster_speed(costs, job, held_T) / whole
        for job in range(len(costs.fits_JT))
        if (whole := cluster_speed(costs, job, count_T))
    ]
    return fsum(parts)
