"""GPU groups by construction and local search: multi-way partitioning with few kinds of items.

A group is a vector of counts, and many groups are equal, so a grouping is a few *patterns*, each
with its number of groups. Two constructions: every group the whole part of an even share of each
kind, the rest to the groups that lack its speed most; and LPT, the fastest GPU first, always to the
slowest group (Graham 1969). A move takes two groups and an exchange e of GPUs, from one to the
other and back; it is done in as many pairs of equal groups as there are at once.

(4) has plateaus: most moves change neither the fastest nor the slowest group. So moves are judged
by the sum over groups and jobs of |s c - center| ** power; the best improving move is taken, until
there is none. The power rises to ``POWERS[-1]``, nearly the largest difference; then the center is
the middle between fastest and slowest. From such a grouping, some exchanges at random and again, in
turn.

Budgets count moves. Ties go to the pattern seen first, then to the shortest exchange.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heapreplace
from itertools import combinations, product
from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.gpu_groups.problem import ALIKE, ReducedProblem, spread

POWERS: Final = (2, 8, 16, 16)
"""The powers of the sum, one descent after the other; the second half is about the middle."""
EXCHANGES: Final = 256
"""Most exchanges that are tried, those of least change of speeds first, but all single GPUs."""
_KINDS_MANY: Final = 8
"""With more kinds than this an exchange is one GPU, or one for another."""
_COMPARED: Final = 1_500_000
"""Most pairs and exchanges compared for one move; beyond, only the worst groups give."""
_KICKS: Final = 3
"""Exchanges at random of one disturbance."""
_LEAST_GAIN: Final = 1e-9
"""A move that lowers the sum by no more is not one: sums round."""

Pattern = tuple[int, ...]
Mix = Counter[Pattern]
"""Number of groups of each pattern, in the order in which they were first seen."""


class _Exchanges(NamedTuple):
    """Exchanges of GPUs between two groups, in pairs: number e and its reverse ``reverse_E[e]``.

    ``exchange_EK``: the giver's loss of each kind, negative where it receives.
    """

    exchange_EK: IntArray
    reverse_E: IntArray
    speed_EN: FloatArray


def constructions(problem: ReducedProblem) -> Iterator[IntArray]:
    """Yield the groupings to begin with, as counts (G, K)."""
    yield _even(problem)
    yield _longest_first(problem)


def _even(problem: ReducedProblem) -> IntArray:
    """Give every group the whole part of an even share, and the rest to those that lack most.

    The lack of a group is weighed by the speeds of this kind.
    """
    count_GK = np.tile(problem.count_K // problem.groups, (problem.groups, 1))
    for kind in _fastest_first(problem):
        lack_GN = problem.mean_N - count_GK @ problem.speed_NK.T
        order_G = np.argsort(-(lack_GN @ problem.speed_NK[:, kind]), kind="stable")
        count_GK[order_G[: problem.count_K[kind] % problem.groups], kind] += 1
    return count_GK


def _longest_first(problem: ReducedProblem) -> IntArray:
    """Give the fastest GPU first, always to the slowest group: LPT by the mean speed over jobs."""
    count_GK = np.zeros((problem.groups, len(problem.count_K)), np.int64)
    speed_K = problem.speed_NK.mean(axis=0).tolist()
    waiting = [(0.0, group) for group in range(problem.groups)]
    heapify(waiting)
    for kind in _fastest_first(problem).tolist():
        for _ in range(int(problem.count_K[kind])):
            load, group = waiting[0]
            heapreplace(waiting, (load + speed_K[kind], group))
            count_GK[group, kind] += 1
    return count_GK


def _fastest_first(problem: ReducedProblem) -> IntArray:
    """Order the kinds by their mean speed over jobs, the fastest first."""
    return np.argsort(-problem.speed_NK.mean(axis=0), kind="stable")


class GroupingSearch:
    """The best grouping tried, its value by (4), and the moves spent."""

    def __init__(self, problem: ReducedProblem, seed: int) -> None:
        self._problem = problem
        self._exchanges = _exchanges(problem)
        self._random = np.random.default_rng([seed, 0x6709])
        self.best = Mix()
        self.value = np.inf
        self.spent = 0

    @property
    def count_GK(self) -> IntArray:
        """Return the best grouping as counts of its groups (G, K)."""
        patterns, times = list(self.best), list(self.best.values())
        return np.repeat(np.array(patterns, np.int64), times, axis=0)

    def consider(self, count_GK: IntArray, allowance: int) -> None:
        """Keep a grouping if it is better, and the results of descents from it."""
        self._settle(Mix(map(tuple, count_GK.tolist())), allowance)

    def go_on(self, allowance: int, goal: float) -> None:
        """Disturb the best and descend again until the moves are spent or it is at the goal."""
        if not len(self._exchanges.exchange_EK):
            return
        while self.spent < allowance and self.value > goal + ALIKE:
            self.spent += 1
            self._settle(self._disturbed(), allowance)

    def _settle(self, mix: Mix, allowance: int) -> None:
        """Descend with one power after the other, and keep improvements."""
        self._keep(mix)
        for number, power in enumerate(POWERS):
            at_middle = number >= len(POWERS) // 2
            mix = self._descend(mix, power, at_middle, allowance)
            self._keep(mix)

    def _keep(self, mix: Mix) -> None:
        """Make a grouping the best one if its value by (4) is smaller."""
        value = spread(np.array(list(mix), np.int64), self._problem.speed_NK)
        if value < self.value - ALIKE:
            self.best, self.value = mix.copy(), value

    def _descend(self, mix: Mix, power: int, at_middle: bool, allowance: int) -> Mix:
        """Take the best move while there is one."""
        mix = mix.copy()
        speed_QN = np.array(list(mix), np.int64) @ self._problem.speed_NK.T
        # The mean does not change with the grouping; the middle makes the sum, at a high power,
        # nearly the largest difference of (4).
        centre_N = self._problem.mean_N
        if at_middle:
            centre_N = (speed_QN.max(axis=0) + speed_QN.min(axis=0)) / 2
        # Distances as parts of the largest one: powers of them are at most 1 at the start.
        scale = float(np.abs(speed_QN - centre_N).max(initial=0.0))
        if scale <= ALIKE:
            return mix
        evaluator = _MoveEvaluator(self._problem, self._exchanges, centre_N, scale, power)
        while self.spent < allowance:
            self.spent += 1
            if not evaluator.move(mix):
                break
        return mix

    def _disturbed(self) -> Mix:
        """Return the best with some exchanges at random; in the first an extreme group gives."""
        mix, exchange_EK = self.best.copy(), self._exchanges.exchange_EK
        for number in range(_KICKS):
            patterns = list(mix)
            one = self._extreme(patterns) if number == 0 else self._any(mix)
            giver, taker = patterns[one], patterns[self._any(mix)]
            after_EK = np.array(giver) - exchange_EK
            taken_EK = np.array(taker) + exchange_EK
            possible = np.flatnonzero(((after_EK >= 0) & (taken_EK >= 0)).all(axis=1))
            if len(possible) and (giver != taker or mix[giver] > 1):
                chosen = possible[int(self._random.integers(len(possible)))]
                _apply(mix, giver, taker, exchange_EK[chosen], 1)
        return mix

    def _any(self, mix: Mix) -> int:
        """Draw a group, all with equal chances, and return the position of its pattern."""
        last_Q = np.cumsum(list(mix.values()))
        return int(np.searchsorted(last_Q, self._random.integers(last_Q[-1]), side="right"))

    def _extreme(self, patterns: list[Pattern]) -> int:
        """Return the fastest or the slowest group for the job whose groups differ most."""
        speed_QN = np.array(patterns) @ self._problem.speed_NK.T
        worst = int((speed_QN.max(axis=0) - speed_QN.min(axis=0)).argmax())
        sign = 1 if self._random.integers(2) else -1
        return int((sign * speed_QN[:, worst]).argmax())


class _MoveEvaluator:
    """The change of the sum by each exchange from each pattern, for one center and one power.

    Results for a pattern are kept.
    """

    def __init__(
        self,
        problem: ReducedProblem,
        exchanges: _Exchanges,
        centre_N: FloatArray,
        scale: float,
        power: int,
    ) -> None:
        self._speed_NK, self._exchanges = problem.speed_NK, exchanges
        self._centre_N = centre_N
        self._scale = scale
        self._power = power
        self._seen: dict[Pattern, tuple[float, FloatArray]] = {}

    def move(self, mix: Mix) -> bool:
        """Do the move that lowers the sum most; False if none does."""
        if not len(self._exchanges.exchange_EK):
            return False
        patterns = list(mix)
        seen = [self._looked_up(pattern) for pattern in patterns]
        now_Q = np.array([now for now, _ in seen])
        # The change of one group of pattern q that gives e. A group that takes e gives its reverse,
        # so a pair's change is a sum of two. The worst groups come first if that is too many.
        give_QE = np.stack([after_E for _, after_E in seen]) - now_Q[:, None]
        most = max(1, _COMPARED // give_QE.size)
        giver_P = np.sort(np.argsort(-now_Q, kind="stable")[:most])
        change_PQE = give_QE[giver_P][:, None, :] + give_QE[:, self._exchanges.reverse_E]
        # A group cannot exchange with itself: two groups of one pattern must be there.
        alone = [place for place, one in enumerate(giver_P) if mix[patterns[one]] < 2]
        change_PQE[alone, giver_P[alone]] = np.inf
        chosen = int(change_PQE.argmin())
        if not change_PQE.flat[chosen] < -_LEAST_GAIN:
            return False
        place, other, number = np.unravel_index(chosen, change_PQE.shape)
        giver, taker = patterns[giver_P[place]], patterns[other]
        # In as many pairs of equal groups as there are.
        times = mix[giver] // 2 if giver == taker else min(mix[giver], mix[taker])
        _apply(mix, giver, taker, self._exchanges.exchange_EK[number], times)
        return True

    def _looked_up(self, pattern: Pattern) -> tuple[float, FloatArray]:
        """Return a pattern's term of the sum, and its term after it has given each exchange."""
        found = self._seen.get(pattern)
        if found is None:
            off_N = self._speed_NK @ np.array(pattern, np.int64) - self._centre_N
            after_E = self._sum(off_N - self._exchanges.speed_EN)
            # A group cannot give GPUs that it does not have.
            left_EK = np.array(pattern) - self._exchanges.exchange_EK
            after_E = np.where((left_EK >= 0).all(axis=1), after_E, np.inf)
            found = self._seen[pattern] = float(self._sum(off_N)), after_E
        return found

    def _sum(self, off: FloatArray) -> FloatArray:
        """Sum |off / scale| ** power over the jobs, the last axis."""
        squared = np.square(off / self._scale)
        total: FloatArray = (squared ** (self._power // 2)).sum(axis=-1)
        return total


def _apply(mix: Mix, giver: Pattern, taker: Pattern, exchange_K: IntArray, times: int) -> None:
    """Exchange GPUs between ``times`` groups of one pattern and as many of another."""
    for pattern, sign in ((giver, -1), (taker, 1)):
        mix[pattern] -= times
        changed = (np.array(pattern) + sign * exchange_K).tolist()
        mix[tuple(changed)] += times
    for pattern in [one for one, number in mix.items() if number == 0]:
        del mix[pattern]


def _exchanges(problem: ReducedProblem) -> _Exchanges:
    """List the exchanges: up to two GPUs of up to three kinds, each one way or the other."""
    kinds = len(problem.count_K)
    most_K = np.minimum(problem.count_K, 2 if kinds <= _KINDS_MANY else 1).tolist()
    half: list[list[int]] = []
    for size in range(1, min(kinds, 3 if kinds <= _KINDS_MANY else 2) + 1):
        for places in combinations(range(kinds), size):
            ways = [[n for n in range(-most_K[k], most_K[k] + 1) if n] for k in places]
            # The first kind only one way: the other way is the reverse.
            for numbers in product(range(1, most_K[places[0]] + 1), *ways[1:]):
                one = [0] * kinds
                for place, number in zip(places, numbers, strict=True):
                    one[place] = number
                half.append(one)
    half_HK = np.array(half, np.int64).reshape(len(half), kinds)
    length_H = np.abs(half_HK @ problem.speed_NK.T).max(axis=1, initial=0.0)
    is_single_H = np.abs(half_HK).sum(axis=1) == 1
    # All single GPUs, then the shortest, until there are enough; in order of length among them.
    order_H = np.lexsort((length_H, ~is_single_H))[: max(EXCHANGES // 2, kinds)]
    order_H = order_H[np.argsort(length_H[order_H], kind="stable")]
    # Number e and its reverse are half of the list apart.
    exchange_EK = np.concatenate([half_HK[order_H], -half_HK[order_H]])
    reverse_E = np.roll(np.arange(len(exchange_EK)), len(order_H))
    return _Exchanges(exchange_EK, reverse_E, exchange_EK @ problem.speed_NK.T)
