"""GPU grouping of HLAS, (4)-(6): the question, its answer, and speeds.

Groups of GPUs shall be about equally fast for every job, so that the time of a round does not
depend on the group that runs it. With s_nm the speed of job n on GPU m, z_mu whether GPU m is in
group u, and |U| groups:

    (4)  min over z of max over n of (p_n^max - p_n^min), each GPU in exactly one group
    (5)  p_n^max = max over u of sum over m of z_mu s_nm
    (6)  p_n^min = min over u of the same sum

*Source.* Hare with HLAS (TCC'24), section IV-C, (4)-(6) and the lines after them.

*Symbols.* n, m, u: axes J (jobs), D (GPUs), G (groups); T is the axis of GPU types. A group is a
vector of counts, one a type, since GPUs of one type are alike in (4).

*Differs.*
- s is printed as "proportional to" 1 / (T^c + T^s). Taken as equal to it, a fast model has the
  largest differences and (4) is about it alone; ``relative_speeds`` divides each job's by its mean
  over groups, so (4) is by how much of a job's speed groups differ. ``speeds`` is the letter.
- The paper says neither how many groups there are (its simulations have 160 GPUs in 40 groups)
  nor how large they may be. Here the number is an argument, the sizes are free, and no group is
  empty: a GPU moved from a larger group to an empty one makes no p^max larger and no p^min smaller.
- Where a job does not fit a type its speed there is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray

ALIKE: Final = 1e-9
"""Values of (4) this close, as parts of the mean speed, are equal: sums round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingProblem:
    """The GPUs to split into ``groups`` groups, and how fast each job is on them.

    ``speed_JT`` (J, T), finite, at least 0; ``type_D`` (D,) positions in T. Raises ValueError if
    ``groups`` is not within 1 and the number of GPUs, or a speed is negative or infinite.
    """

    speed_JT: FloatArray
    type_D: IntArray
    groups: int

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= len(self.type_D):
            raise ValueError(f"{self.groups} groups of {len(self.type_D)} GPUs; allowed: 1 to all")
        if not (np.isfinite(self.speed_JT).all() and (self.speed_JT >= 0).all()):
            raise ValueError("a speed is negative or not finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """An answer: the group of each GPU (D,), the counts of each group (G, T), and how good it is.

    ``spread`` is the value of (4) in the unit of the problem's speeds; no grouping has less than
    ``bound``. Groups are in descending order of their counts, the first type first; of GPUs that
    are equally fast for every job, a group takes those that come first among those left.
    """

    group_D: IntArray
    count_GT: IntArray
    spread: float
    bound: float

    @property
    def gap(self) -> float:
        """Return ``spread / bound - 1``; 0 for an optimum, infinity where only the bound is 0."""
        if self.spread <= self.bound:
            return 0.0
        return self.spread / self.bound - 1 if self.bound > 0 else float("inf")


class ReducedProblem(NamedTuple):
    """The problem reduced to the parts that (4) depends on.

    Types that are equally fast for every job are one kind (K), jobs that are equally fast on every
    kind one row (N). Speeds are in units of the largest mean speed of a group. ``kind_T`` is -1
    for a type of which there is no GPU, or whose GPUs no job can use.
    """

    speed_NK: FloatArray
    count_K: IntArray
    groups: int
    kind_T: IntArray
    unit: float

    @property
    def mean_N(self) -> FloatArray:
        r"""Return \bar s_n, the mean speed of a group, for each row of jobs."""
        mean_N: FloatArray = self.speed_NK @ self.count_K / self.groups
        return mean_N


def speeds(comp_ns_JT: IntArray, sync_ns_JT: IntArray, fits_JT: BoolArray) -> FloatArray:
    """Compute s_nm = 1 / (T^c + T^s) in tasks a second, 0 where the job does not fit; (J, T)."""
    # A T^c of 1 where the job does not fit, and at least 1 ns of both elsewhere: no division by 0.
    turn_ns_JT = np.where(fits_JT, comp_ns_JT, 1) + np.where(fits_JT, sync_ns_JT, 0)
    return np.where(fits_JT, 1e9 / np.maximum(turn_ns_JT, 1), 0.0)


def mean_speeds(speed_JT: FloatArray, type_D: IntArray, groups: int) -> FloatArray:
    r"""Compute \bar s_n = sum over m of s_nm / |U|; shape (J,). No grouping changes it."""
    count_T = np.bincount(type_D, minlength=speed_JT.shape[1])
    mean_J: FloatArray = speed_JT @ count_T / groups
    return mean_J


def relative_speeds(speed_JT: FloatArray, type_D: IntArray, groups: int) -> FloatArray:
    """Divide each job's speeds by its mean over groups; 0 for a job that fits nowhere."""
    mean_J = mean_speeds(speed_JT, type_D, groups)[:, None]
    return np.divide(speed_JT, mean_J, out=np.zeros_like(speed_JT), where=mean_J > 0)


def spread(count_GT: IntArray, speed_JT: FloatArray) -> float:
    """Compute the objective (4): the largest p_n^max - p_n^min of any job."""
    # The sums in (5) and (6), for each group and job.
    sum_GJ = count_GT @ speed_JT.T
    return float((sum_GJ.max(axis=0) - sum_GJ.min(axis=0)).max(initial=0.0))


def reduced(problem: GroupingProblem) -> ReducedProblem:
    """Reduce a problem to the parts that (4) depends on."""
    count_T = np.bincount(problem.type_D, minlength=problem.speed_JT.shape[1])
    # The largest mean speed of a group; 1 where no job can run, to divide by something.
    unit = float((problem.speed_JT @ count_T).max(initial=0.0)) / problem.groups or 1.0
    there_T = np.flatnonzero((count_T > 0) & (problem.speed_JT > 0).any(axis=0))
    # 14 digits: speeds that differ by rounding errors only are equal.
    speed_NP = np.round(problem.speed_JT[:, there_T] / unit, 14)
    speed_NK, first_K, kind_P = np.unique(speed_NP, axis=1, return_index=True, return_inverse=True)
    # Kinds in the order of their first types, not in that of their speeds as np.unique has them.
    order_K = np.argsort(first_K)
    speed_NK, kind_P = speed_NK[:, order_K], np.argsort(order_K)[kind_P.reshape(-1)]
    kind_T = np.full(len(count_T), -1, np.int64)
    kind_T[there_T] = kind_P
    count_K = np.bincount(kind_P, weights=count_T[there_T]).astype(np.int64)
    return ReducedProblem(np.unique(speed_NK, axis=0), count_K, problem.groups, kind_T, unit)


def expanded(
    problem: GroupingProblem, least: ReducedProblem, count_GK: IntArray, bound: float
) -> Grouping:
    """Turn counts of kinds and a bound in the units of the reduced problem into an answer in GPUs.

    ``least`` is ``reduced(problem)``. The GPUs of each kind may be in any order.
    """
    kind_D = least.kind_T[problem.type_D]
    count_GK = _filled(count_GK)
    if count_GK.size:
        count_GK = count_GK[np.lexsort(-count_GK.T[::-1])]
    group_D = np.zeros(len(kind_D), np.int64)
    # GPUs that no job can use go to one group after the other, the last group first.
    useless = np.flatnonzero(kind_D < 0)
    group_D[useless] = problem.groups - 1 - np.arange(len(useless)) % problem.groups
    for kind in range(len(least.count_K)):
        group_D[kind_D == kind] = np.repeat(np.arange(len(count_GK)), count_GK[:, kind])
    count_GT = np.zeros((problem.groups, problem.speed_JT.shape[1]), np.int64)
    np.add.at(count_GT, (group_D, problem.type_D), 1)
    # Descending by the first type, then by the second, and so on: lexsort's last key counts first.
    order_G = np.lexsort(-count_GT.T[::-1])
    count_GT, group_D = count_GT[order_G], np.argsort(order_G)[group_D]
    # Within rounding of the bound the value is the optimum, and is its own bound.
    value = spread(count_GT, problem.speed_JT)
    is_tight = value <= (bound + ALIKE) * least.unit
    return Grouping(
        group_D=group_D,
        count_GT=count_GT,
        spread=value,
        bound=value if is_tight else bound * least.unit,
    )


def _filled(count_GK: IntArray) -> IntArray:
    """Move GPUs from the largest groups to empty ones; the module says why this costs nothing."""
    count_GK = count_GK.copy()
    size_G = count_GK.sum(axis=1)
    for group in np.flatnonzero(size_G == 0):
        giver = int(size_G.argmax())
        if size_G[giver] < 2:
            break
        kind = int(count_GK[giver].argmax())
        count_GK[giver, kind] -= 1
        count_GK[group, kind] += 1
        size_G[[giver, group]] += (-1, 1)
    return count_GK
