r"""The best equality of groups: lower bounds of (4) from the possible groups.

The linear relaxation of (4)-(6) says nothing: every GPU split evenly over the groups gives 0.
Groups differ because a group has whole GPUs. So these bounds look at *patterns*, vectors of counts
c that a group may have, with speeds s c, of which the mean over groups is \bar s.

*Proof.* Let a grouping have value v.

1. If one group is off \bar s_n by d, the others are off by d in all to the other side, one of them
   by d / (|U| - 1) at least: v >= d |U| / (|U| - 1). So for every radius r either v > r |U| /
   (|U| - 1), or all groups are among the patterns within r of \bar s for every job.
2. Let w be a vector of integers. The numbers w c of the groups are integers with the mean
   w (sum of c) / |U|. Where this is none, some group a is above it and some group b below. The
   other |U| - 2 groups have the rest beside a and b, and their mean speed lies between their
   extremes. So v is at least the largest difference, over jobs, among a, b and that mean; and a, b
   are two patterns within r, of which the best pair bounds v. With two groups nothing, with three
   one pattern within r is left.

The bound is the smaller of the two for one r; every r is valid, and r is chosen so that there are
few patterns. The w are those with entries -1, 0, 1. With |U| = 2 the bound is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, Final

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray
from warren.solve.gpu_groups.problem import ALIKE, ReducedProblem

PATTERNS: Final = 400
"""Most patterns that are compared with each other."""
PARTIAL: Final = 40_000
"""Most partial patterns on the way to them; fewer where there are many kinds and jobs."""
_WORK: Final = 32_000_000
"""Largest cost of a list of patterns in all: partial patterns times kinds squared times jobs."""
WEIGHTS: Final = 150
"""Most vectors w that are tried, those with the fewest entries first."""
_SMALLER: Final = 1.5
"""Divisor of the limit when there are too many patterns."""
_TRIES: Final = 12
"""Most limits that are tried."""


def least_spread(problem: ReducedProblem, found: float) -> float:
    """Compute a lower bound of (4), at most ``found``, the value of a grouping.

    In the units of the reduced problem. One group alone has the value 0.
    """
    if problem.groups == 1 or found <= ALIKE:
        return 0.0
    pattern_QK, limit = few_patterns(problem, found, PATTERNS)
    return min(limit, _by_pairs(problem, pattern_QK))


def few_patterns(
    problem: ReducedProblem, found: float, most: int, known: float = 0.0
) -> tuple[IntArray, float]:
    """Find patterns, and a limit: groupings of a value below it have no others (step 1).

    The limit is ``found`` if there are at most ``most``, else smaller; 0 if that is not enough,
    or if it would be no more than the bound ``known``.
    """
    # Step 1: a group that is r off the mean makes the value r times this, or more.
    stretch = problem.groups / (problem.groups - 1)
    limit = found
    for _ in range(_TRIES):
        if limit <= known + ALIKE:
            break
        pattern_QK = patterns(problem, limit / stretch, most)
        if pattern_QK is not None:
            return pattern_QK, limit
        limit /= _SMALLER
    return np.zeros((0, len(problem.count_K)), np.int64), 0.0


def patterns(problem: ReducedProblem, radius: float, most: int) -> IntArray | None:
    """List every count vector within a radius of the mean speed for every job; shape (Q, K).

    None if there are more than ``most``, or too many parts on the way to them. One kind is added
    after another. The kinds left out can still reach the mean or not: for each job, by the counts
    there are at most; for all together, as in Fincke and Pohst (1985), by the triangle of a QR
    decomposition, since all within the radius r are in a ball of radius r sqrt(N).
    """
    speed_NK, count_K = problem.speed_NK, problem.count_K
    low_N, high_N = problem.mean_N - radius - ALIKE, problem.mean_N + radius + ALIKE
    # Parts have the counts of the kinds done before; rest_N is the most that the kinds to come can
    # add.
    part_PK, rest_N = np.zeros((1, len(count_K)), np.int64), speed_NK @ count_K
    partial = min(PARTIAL, _WORK // (len(count_K) ** 2 * max(len(speed_NK), 8)))
    if partial < len(count_K):
        return None
    ball = _Ball(problem, radius)
    for kind in range(len(count_K) - 1, -1, -1):
        # Counts that a part may have of this kind: between nothing and all, so that all kinds to
        # come can still lift every job to low_N and none is above high_N, and within the ball.
        speed_N = speed_NK[:, kind]
        rest_N = rest_N - count_K[kind] * speed_N
        sum_PN = part_PK @ speed_NK.T
        first_P, last_P = _counts(low_N - rest_N - sum_PN, high_N - sum_PN, speed_N)
        near_P, far_P = ball.counts(part_PK, kind)
        first_P = np.maximum(np.maximum(first_P, near_P), 0)
        last_P = np.minimum(np.minimum(last_P, far_P), count_K[kind])
        options_P = np.maximum(last_P - first_P + 1, 0).astype(np.int64)
        if options_P.sum() > partial:
            return None
        # Each part becomes as many as it has options, with the counts first, first + 1, ...
        part_PK = np.repeat(part_PK, options_P, axis=0)
        begin = np.repeat(np.cumsum(options_P) - options_P, options_P)
        part_PK[:, kind] = np.repeat(first_P, options_P) + np.arange(len(part_PK)) - begin
    # With a GPU for every group an empty group is never needed (``problem``, Differs).
    if count_K.sum() >= problem.groups:
        part_PK = part_PK[part_PK.any(axis=1)]
    return part_PK if len(part_PK) <= most else None


class _Ball:
    """All c with |s (c - mean)| <= r for all jobs, and 0 <= c <= count: an ellipsoid around them.

    The sum over jobs of the first squared is at most N r^2, the sum over kinds of (c - mean)^2 /
    count^2 at most K. Kinds that no combination of jobs distinguishes need the second.
    """

    def __init__(self, problem: ReducedProblem, radius: float) -> None:
        jobs, kinds = problem.speed_NK.shape
        self._mean_K: FloatArray = problem.count_K / problem.groups
        small = max(radius, ALIKE)
        # One row a condition, scaled to 1: all rows together are at most N + K in squares.
        rows = np.vstack([problem.speed_NK / small, np.diag(1.0 / problem.count_K)])
        triangle: Any = np.linalg.qr(rows, mode="r")
        self._triangle_KK: FloatArray = triangle
        # A little more than N + K, so that rounding excludes no pattern.
        self._most = (jobs + kinds) * (1 + 1e-6)

    def counts(self, part_PK: IntArray, kind: int) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most of a kind, given those of the kinds after it."""
        # The triangle's rows below use up a part of the sum of squares; the rest bounds this row's
        # square, |slope (c - middle)|^2, which has this kind and those after it only.
        off_PK = (part_PK - self._mean_K)[:, kind + 1 :]
        used_P = np.square(off_PK @ self._triangle_KK[kind + 1 :, kind + 1 :].T).sum(axis=1)
        slope = self._triangle_KK[kind, kind]
        middle_P = self._mean_K[kind] - off_PK @ self._triangle_KK[kind, kind + 1 :] / slope
        reach_P = np.sqrt(np.maximum(self._most - used_P, 0.0)) / abs(slope)
        return np.ceil(middle_P - reach_P - ALIKE), np.floor(middle_P + reach_P + ALIKE)


def _counts(
    low_PN: FloatArray, high_PN: FloatArray, speed_N: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the most of a kind that keep every job's speed between low and high."""
    moves_N = speed_N > ALIKE
    first_PN = np.ceil(low_PN[:, moves_N] / speed_N[moves_N])
    last_PN = np.floor(high_PN[:, moves_N] / speed_N[moves_N])
    # A job that is no faster with this kind: its part is within the limits already, or never.
    fixed = ((low_PN > ALIKE) | (high_PN < -ALIKE))[:, ~moves_N].any(axis=1)
    last_P = last_PN.min(axis=1, initial=float(2**53))
    return first_PN.max(axis=1, initial=0.0), np.where(fixed, -1.0, last_P)


def above_and_below(
    problem: ReducedProblem, pattern_QK: IntArray
) -> Iterator[tuple[BoolArray, BoolArray]]:
    """Yield the patterns above and those below the mean, for each w whose mean is no integer."""
    for weight_K in _weights(len(problem.count_K)):
        total = int(weight_K @ problem.count_K)
        if total % problem.groups:
            is_above_Q = pattern_QK @ weight_K * problem.groups > total
            yield is_above_Q, ~is_above_Q


def _weights(kinds: int) -> Iterator[IntArray]:
    """Yield vectors of -1, 0 and 1 up to their sign, those with the fewest entries first."""
    left = WEIGHTS
    for size in range(1, kinds + 1):
        for places in combinations(range(kinds), size):
            for signs in product((1, -1), repeat=size - 1):
                if left == 0:
                    return
                left -= 1
                weight_K = np.zeros(kinds, np.int64)
                weight_K[list(places)] = (1, *signs)
                yield weight_K


def _by_pairs(problem: ReducedProblem, pattern_QK: IntArray) -> float:
    """Compute the bound of step 2: the best pair for the worst w; infinite if there is no pair."""
    value_QQ = pair_values(problem, pattern_QK)
    bound = 0.0
    for is_above_Q, is_below_Q in above_and_below(problem, pattern_QK):
        bound = max(bound, float(value_QQ[np.ix_(is_above_Q, is_below_Q)].min(initial=np.inf)))
    return bound


def pair_values(problem: ReducedProblem, pattern_QK: IntArray) -> FloatArray:
    """Compute a lower bound of (4) for groupings with two groups of these patterns; (Q, Q).

    Infinite where there are not enough GPUs, or with two groups too many.
    """
    others = problem.groups - 2
    rest_QQK = problem.count_K - pattern_QK[:, None, :] - pattern_QK[None, :, :]
    is_possible_QQ = (rest_QQK >= 0).all(axis=2)
    if others == 0:
        is_possible_QQ &= ~rest_QQK.any(axis=2)
    value_QQ = np.zeros(is_possible_QQ.shape)
    speed_NQ = problem.speed_NK @ pattern_QK.T
    total_N = problem.mean_N * problem.groups
    for speed_Q, total in zip(speed_NQ, total_N.tolist(), strict=True):
        high_QQ = np.maximum(speed_Q[:, None], speed_Q[None, :])
        low_QQ = np.minimum(speed_Q[:, None], speed_Q[None, :])
        # The other groups' mean lies between their extremes, so it widens the range or not.
        if others:
            mean_QQ = (total - speed_Q[:, None] - speed_Q[None, :]) / others
            high_QQ, low_QQ = np.maximum(high_QQ, mean_QQ), np.minimum(low_QQ, mean_QQ)
        np.maximum(value_QQ, high_QQ - low_QQ, out=value_QQ)
    return np.where(is_possible_QQ, value_QQ, np.inf)
