"""GPU groups for a policy, and what is told of them: HLAS's preparation phase (IV-C, (4)-(6)).

How groups are found, what is proved of them and where we differ:
``warren.solve.gpu_groups.problem``. The paper has no rule for |U|. ``usual_groups`` is the shape of
its Fig. 25: 160 GPUs in 40 groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import numpy as np

from warren.model.cluster import Cluster
from warren.model.costs import CostTable, IntArray
from warren.solve.gpu_groups.problem import Grouping, Problem, relative_speeds, speeds
from warren.solve.gpu_groups.solve import MOVES, PROGRAMS, grouped

DEVICES_A_GROUP: Final = 4


def usual_groups(devices: int) -> int:
    """|U| where nothing else is said: groups of about four devices."""
    return max(1, round(devices / DEVICES_A_GROUP))


def gpu_groups(
    costs: CostTable, type_D: IntArray, groups: int, moves: int = MOVES, programs: int = PROGRAMS
) -> Grouping:
    """Groups in which every job of the table is about equally fast, as parts of its mean speed.

    Raises
    ------
    ValueError
        If there are more groups than devices, or none.
    """
    speed_JT = speeds(costs.comp_ns_JT, costs.sync_ns_JT, costs.fits_JT)
    letter = Problem(speed_JT=speed_JT, type_D=type_D, groups=groups)
    relative_JT = relative_speeds(speed_JT, type_D, groups)
    return grouped(replace(letter, speed_JT=relative_JT), moves, programs)


def cluster_text(cluster: Cluster, costs: CostTable, groups: int | None = None) -> str:
    """The groups of a cluster for the jobs of a table, in words; as many as usual if None."""
    type_D = np.array(cluster.type_of_device, dtype=np.int64)
    count = usual_groups(len(type_D)) if groups is None else groups
    return grouping_text(gpu_groups(costs, type_D, count), cluster.type_names)


def grouping_text(grouping: Grouping, type_names: Sequence[str]) -> str:
    """What is in the groups, how equal they are, and how equal they could be at best."""
    gpus, groups = len(grouping.group_D), len(grouping.count_GT)
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
    value, bound = grouping.spread, grouping.bound
    said = f"A job's speed differs between groups by at most {value:.2%} of its mean (eq. 4)."
    if value <= bound:
        return [said, "No grouping has less."]
    return [said, f"No grouping has less than {bound:.2%}."]


def members(grouping: Grouping) -> tuple[IntArray, ...]:
    """The devices of each group, ascending."""
    return tuple(
        np.flatnonzero(grouping.group_D == group) for group in range(len(grouping.count_GT))
    )
