"""Speed of grouping GPUs (HLAS, (4)-(6)), and how far from its bound the answer is.

The eight shipped models on four types in uneven numbers. Prints the median of a few runs and
checks it against ``ranges.json``; what is found is counted, not timed, so it is the same anywhere.
"""

from __future__ import annotations

import numpy as np
from _ranges import median_s, report

from warren.profile.published import TABLE
from warren.solve.gpu_groups.problem import GroupingProblem, relative_speeds
from warren.solve.gpu_groups.solve import grouped

TYPES = ("V100", "P100", "T4", "K80")
SHARES = (0.31, 0.27, 0.24, 0.18)
SIZES = ((160, 40), (1024, 256), (2500, 500))


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    figures = {}
    for devices, groups in SIZES:
        problem = cluster(devices, groups)
        name = f"gpus_{devices}_in_{groups}"
        figures[f"{name}_s"] = median_s(lambda one=problem: grouped(one))
        figures[f"{name}_gap"] = grouped(problem).gap
        figures[f"{name}_search_s"] = median_s(lambda one=problem: grouped(one, programs=0))
        figures[f"{name}_search_over_best"] = (
            grouped(problem, programs=0).spread / grouped(problem).spread
        )
    report(figures)


def cluster(devices: int, groups: int) -> GroupingProblem:
    """So many GPUs in these shares, all shipped models at their own batch, T^c only."""
    speed_JT = np.array([[1.0 / row.comp_s[kind] for kind in TYPES] for row in TABLE.values()])
    ends = np.rint(np.cumsum(SHARES) * devices).astype(np.int64)
    type_D = np.searchsorted(ends, np.arange(devices), side="right")
    relative_JT = relative_speeds(speed_JT, type_D, groups)
    return GroupingProblem(speed_JT=relative_JT, type_D=type_D, groups=groups)


if __name__ == "__main__":
    main()
