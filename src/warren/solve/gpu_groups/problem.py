"""GPU grouping of HLAS, (4)-(6): what is asked for, what is answered, and speeds.

Groups of GPUs shall be about equally fast for every job, so that what a round costs does not
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
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ALIKE: Final = 1e-9
"""Values of (4) this close, as parts of the mean speed, are equal: sums round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingProblem:
    """What to group. ``speed_JT`` (J, T), finite, at least 0; ``type_D`` (D,) positions in T.

    Raises
    ------
    ValueError
        If ``groups`` is not within 1 and the number of GPUs, or a speed is negative or infinite.
    """

    speed_JT: Floats
    type_D: Ints
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

    group_D: Ints
    count_GT: Ints
    spread: float
    bound: float

    @property
    def gap(self) -> float:
        """``spread / bound - 1``; 0 for an optimum, infinity where only the bound is 0."""
        if self.spread <= self.bound:
            return 0.0
        return self.spread / self.bound - 1 if self.bound > 0 else float("inf")


class ReducedProblem(NamedTuple):
    """The problem without what (4) does not see.

    Types that are equally fast for every job are one kind (K), jobs that are equally fast on every
    kind one row (N). Speeds are in units of the largest mean speed of a group. ``kind_T`` is -1
    for a type of which there is no GPU, or whose GPUs no job can use.
    """

    speed_NK: Floats
    count_K: Ints
    groups: int
    kind_T: Ints
    unit: float

    @property
    def mean_N(self) -> Floats:
        """Mean speed of a group."""
        mean_N: Floats = self.speed_NK @ self.count_K / self.groups
        return mean_N


def speeds(comp_ns_JT: Ints, sync_ns_JT: Ints, fits_JT: Bools) -> Floats:
    """s_nm = 1 / (T^c + T^s) in tasks a second, 0 where the job does not fit; shape (J, T)."""
    turn_ns_JT = np.where(fits_JT, comp_ns_JT, 1) + np.where(fits_JT, sync_ns_JT, 0)
    return np.where(fits_JT, 1e9 / np.maximum(turn_ns_JT, 1), 0.0)


def mean_speeds(speed_JT: Floats, type_D: Ints, groups: int) -> Floats:
    r"""\bar s_n = sum over m of s_nm / |U|: it does not depend on the grouping; shape (J,)."""
    count_T = np.bincount(type_D, minlength=speed_JT.shape[1])
    mean_J: Floats = speed_JT @ count_T / groups
    return mean_J


def mean_round_s(scale_J: Ints, mean_speed_J: Floats) -> Floats:
    r"""\bar T_n = scale / \bar s_n, a round's time in s in a mean group; infinite if it fits none.

    The paper says only that it is calculated from the mean speed.
    """
    with np.errstate(divide="ignore"):
        return np.where(mean_speed_J > 0, scale_J / mean_speed_J, np.inf)


def relative_speeds(speed_JT: Floats, type_D: Ints, groups: int) -> Floats:
    """Each job's speeds as parts of its mean over groups; 0 for a job that fits nowhere."""
    mean_J = mean_speeds(speed_JT, type_D, groups)[:, None]
    return np.divide(speed_JT, mean_J, out=np.zeros_like(speed_JT), where=mean_J > 0)


def spread(count_GT: Ints, speed_JT: Floats) -> float:
    """The objective (4): the largest p_n^max - p_n^min of any job."""
    sum_GJ = count_GT @ speed_JT.T
    return float((sum_GJ.max(axis=0) - sum_GJ.min(axis=0)).max(initial=0.0))


def reduced(problem: GroupingProblem) -> ReducedProblem:
    """What (4) sees of a problem."""
    count_T = np.bincount(problem.type_D, minlength=problem.speed_JT.shape[1])
    unit = float((problem.speed_JT @ count_T).max(initial=0.0)) / problem.groups or 1.0
    there_T = np.flatnonzero((count_T > 0) & (problem.speed_JT > 0).any(axis=0))
    speed_NP = np.round(problem.speed_JT[:, there_T] / unit, 14)
    speed_NK, first_K, kind_P = np.unique(speed_NP, axis=1, return_index=True, return_inverse=True)
    order_K = np.argsort(first_K)  # kinds in the order of their first types
    speed_NK, kind_P = speed_NK[:, order_K], np.argsort(order_K)[kind_P.reshape(-1)]
    kind_T = np.full(len(count_T), -1, np.int64)
    kind_T[there_T] = kind_P
    count_K = np.bincount(kind_P, weights=count_T[there_T]).astype(np.int64)
    return ReducedProblem(np.unique(speed_NK, axis=0), count_K, problem.groups, kind_T, unit)


def expanded(
    problem: GroupingProblem, least: ReducedProblem, count_GK: Ints, bound: float
) -> Grouping:
    """The answer in GPUs, for counts of kinds and a bound in the units of the reduced problem."""
    kind_D = least.kind_T[problem.type_D]
    count_GK = _filled(count_GK)
    if count_GK.size:
        count_GK = count_GK[np.lexsort(-count_GK.T[::-1])]
    group_D = np.zeros(len(kind_D), np.int64)
    useless = np.flatnonzero(kind_D < 0)  # no job can use them: one after the other, the last first
    group_D[useless] = problem.groups - 1 - np.arange(len(useless)) % problem.groups
    for kind in range(len(least.count_K)):
        group_D[kind_D == kind] = np.repeat(np.arange(len(count_GK)), count_GK[:, kind])
    count_GT = np.zeros((problem.groups, problem.speed_JT.shape[1]), np.int64)
    np.add.at(count_GT, (group_D, problem.type_D), 1)
    order_G = np.lexsort(-count_GT.T[::-1])
    count_GT, group_D = count_GT[order_G], np.argsort(order_G)[group_D]
    value = spread(count_GT, problem.speed_JT)
    is_tight = value <= (bound + ALIKE) * least.unit
    return Grouping(
        group_D=group_D,
        count_GT=count_GT,
        spread=value,
        bound=value if is_tight else bound * least.unit,
    )


def _filled(count_GK: Ints) -> Ints:
    """No group empty as long as there are GPUs; the module says why this costs nothing."""
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
