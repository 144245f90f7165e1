"""Bounds from how much work there is: prices of device types, and the makespan.

*One fast machine.* Take speeds v_t >= 0 with sum_t D_t v_t = 1 and p_j = min_t v_t W_jt. While a
device of type t runs job j it completes the share 1 / W_jt of it a second, that is p_j / W_jt
<= v_t of the volume p_j; all devices together at most 1. So every schedule is, in volumes, a
preemptive schedule of one machine of speed 1 that may serve several jobs at fractional rates,
for any v. (v_t = 1 / sum D gives p_j = min_t W_jt / number of devices.) So the work of all jobs
released from r on ends at r + their sum of p_j or later, and one synchronization still follows.
The best v for r = min a is the dual of the area linear program

    least C: sum_t x_jt = 1, sum_j W_jt x_jt <= D_t C.

*With paths.* x_jt, the share of job j's tasks that run on type t, also satisfies
sum_t P_jt x_jt <= C - a_j: a round takes at least the mean over its tasks of max(q_j, T^c + T^s).
Multiply the rows of the types by v_t >= 0 and these by u_j >= 0, and add them up: for all v, u

    C (sum_t D_t v_t + sum_j u_j) >= sum_j u_j a_j + sum_j min_t (v_t W_jt + u_j P_jt).

The best v, u come from the linear program; the bound is computed from them, so that the solver's
tolerances cannot make it wrong.

*Where paths bind.* Let C be the longest path's end. Let each job be on one type t with a_j + P_jt
<= C. For the jobs released from every r on, let r + the most of a type's work per device + one
synchronization <= C. Then neither bound is above C: these x satisfy the linear program, and the p_j
of the jobs add up to sum_t v_t (their work on t), at most the most work per device. The search
begins with such a choice; it spares the solver, whose import takes longer than most instances.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from warren.solve.bounds.columns import BoundJobs
from warren.solve.common.arrays import FloatArray, IntArray

LP_CELLS: Final = 20_000
"""Most jobs times types for which the linear programs are solved."""
TRIALS: Final = 32
"""Choices of types for the jobs that are tried before the linear programs are."""


def volumes(jobs: BoundJobs, speed_T: FloatArray) -> FloatArray:
    """Compute p_j in s for speeds, which are normalized here to sum_t D_t v_t = 1."""
    # Work that is infinite times a speed of 0 is no number.
    with np.errstate(invalid="ignore"):
        share_JT = np.where(np.isinf(jobs.work_s_JT), np.inf, jobs.work_s_JT * speed_T)
    volume_J: FloatArray = share_JT.min(axis=1) / float(jobs.devices_T @ speed_T)
    return volume_J


def even_speeds(jobs: BoundJobs) -> FloatArray:
    """Compute speeds in proportion to how fast the types are on average over the jobs."""
    best_J = np.maximum(jobs.comp_s_JT.min(axis=1), 1e-12)
    ratio_JT = np.where(np.isinf(jobs.comp_s_JT), 0.0, best_J[:, None] / jobs.comp_s_JT.clip(1e-12))
    speed_T: FloatArray = np.maximum(ratio_JT.mean(axis=0), 1e-9) * (jobs.devices_T > 0)
    return speed_T


def area_speeds(jobs: BoundJobs) -> FloatArray:
    """Compute the dual prices of the area linear program where it is small; else even speeds."""
    if jobs.work_s_JT.size > LP_CELLS or jobs.work_s_JT.shape[1] == 1:
        return even_speeds(jobs)
    found = _duals(jobs, with_paths=False)
    if found is None or not float(jobs.devices_T @ found[0]) > 0:
        return even_speeds(jobs)
    return found[0]


def makespan_bound(jobs: BoundJobs) -> tuple[float, str]:
    """Compute a bound from the first arrival to the last end in s, and name the argument.

    path | area | both.
    """
    path = float((jobs.arrival_s_J + jobs.path_s_J).max())
    # ``around``, for each r: the jobs released from r on still synchronize after their last task,
    # which takes the least T^s of any of them at least.
    latest_first = np.argsort(-jobs.arrival_s_J, kind="stable")
    tail = np.minimum.accumulate(jobs.least_sync_s_J[latest_first])
    around = jobs.arrival_s_J[latest_first] + tail
    if _paths_bind(jobs, path, latest_first, around):
        return path, "path"
    area = 0.0
    # r + the sum of p_j + one synchronization, the largest over all r, for each v.
    for speed_T in (area_speeds(jobs), even_speeds(jobs)):
        volume = np.cumsum(volumes(jobs, speed_T)[latest_first])
        area = max(area, float((around + volume).max()))
    both = _with_paths(jobs)
    if both > max(path, area):
        return both, "both"
    return (path, "path") if path >= area else (area, "area")


def _paths_bind(jobs: BoundJobs, path_s: float, latest_first: IntArray, around: FloatArray) -> bool:
    """Tell whether a choice of types shows that neither the area nor both exceed the path.

    "Where paths bind" in the module's text. ``around``: arrival plus synchronization behind, in
    the order ``latest_first``. Types that are loaded above the average get dearer from trial to
    trial, by less and less.
    """
    in_time_JT = jobs.arrival_s_J[:, None] + jobs.path_s_JT <= path_s
    price_T = even_speeds(jobs)
    for trial in range(TRIALS):
        # Each job takes the type on which it pays least, among those on which it ends in time.
        with np.errstate(invalid="ignore"):
            kind_J = np.where(in_time_JT, jobs.work_s_JT * price_T, np.inf).argmin(axis=1)
        load_JT = np.zeros(in_time_JT.shape)
        load_JT[np.arange(len(kind_J)), kind_J] = jobs.work_s_JT[np.arange(len(kind_J)), kind_J]
        load_JT = np.cumsum(load_JT[latest_first], axis=0) / np.maximum(jobs.devices_T, 1)
        if (around + load_JT.max(axis=1)).max() <= path_s:
            return True
        over_T = np.clip(load_JT[-1] / max(float(load_JT[-1].mean()), 1e-12), 0.1, 10.0)
        price_T = price_T * over_T ** (0.5 / (1 + trial))
    return False


def _with_paths(jobs: BoundJobs) -> float:
    """Compute the bound of the linear program with paths; 0 where the program is too large."""
    if jobs.work_s_JT.size > LP_CELLS:
        return 0.0
    found = _duals(jobs, with_paths=True)
    if found is None:
        return 0.0
    speed_T, tie_J = found
    total = float(jobs.devices_T @ speed_T + tie_J.sum())
    if not total > 0:
        return 0.0
    # C >= (sum u_j a_j + sum min_t (v_t W_jt + u_j P_jt)) / (sum D_t v_t + sum u_j), which holds
    # for any v and u: the solver's result need not be exact.
    runs_JT = np.isfinite(jobs.work_s_JT)
    work_JT, path_JT = (np.where(runs_JT, s, 0.0) for s in (jobs.work_s_JT, jobs.path_s_JT))
    paid_JT = np.where(runs_JT, speed_T * work_JT + tie_J[:, None] * path_JT, np.inf)
    return float(tie_J @ jobs.arrival_s_J + paid_JT.min(axis=1).sum()) / total


def _duals(jobs: BoundJobs, *, with_paths: bool) -> tuple[FloatArray, FloatArray] | None:
    """Solve the area linear program for v and u (u is 0 without paths); None where it fails."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    linear: Any = linprog  # its stubs know no sparse matrices
    count, types = jobs.work_s_JT.shape
    # One variable x_jt for each type that a job can use, and C behind them. Times are divided by
    # the largest, so that the solver's tolerances suit any unit.
    job, kind = np.nonzero(np.isfinite(jobs.work_s_JT))
    work, path = jobs.work_s_JT[job, kind], jobs.path_s_JT[job, kind]
    scale = max(float(work.max()), float(path.max()), 1e-12)
    cells = np.arange(len(job))
    # Rows of the types: sum_j W_jt x_jt - D_t C <= 0.
    last = np.full(types, len(job))
    entries = [(work / scale, kind, cells), (-jobs.devices_T.astype(float), np.arange(types), last)]
    limit = np.zeros(types)
    # Rows of the jobs: sum_t P_jt x_jt - C <= -a_j.
    if with_paths:
        entries += [
            (path / scale, types + job, cells),
            (-np.ones(count), types + np.arange(count), np.full(count, len(job))),
        ]
        limit = np.append(limit, -jobs.arrival_s_J / scale)
    value, row, column = (np.concatenate(part) for part in zip(*entries, strict=True))
    upper = coo_array((value, (row, column)), shape=(len(limit), len(job) + 1)).tocsr()
    # Each job's shares add up to 1.
    whole = coo_array((np.ones(len(job)), (job, cells)), shape=(count, len(job) + 1)).tocsr()
    cost = np.zeros(len(job) + 1)
    cost[-1] = 1.0
    found = linear(cost, upper, limit, whole, np.ones(count), method="highs")
    if found.status != 0:
        return None
    # Marginals of "at most" rows are 0 or less; v and u are their magnitudes.
    dual = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return dual[:types], dual[types:] if with_paths else np.zeros(count)
