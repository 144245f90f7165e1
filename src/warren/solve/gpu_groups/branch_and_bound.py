r"""The best GPU groups: branch and bound over windows of speed, with linear programs by HiGHS.

Source: (4)-(6) of HLAS (``problem``), written in patterns: vectors c of counts that a group may
have. With x_c the number of groups of pattern c, a grouping is a whole x >= 0 with

    sum of x_c = |U|,   sum of c x_c = all GPUs,

and its value is the largest difference of s c among the patterns used. With a value v at hand, a
better grouping has only patterns within v (|U| - 1) / |U| of the mean speed (``bound``, step 1);
these are listed. For each job the patterns used fit into a window narrower than v. So for any speed
t of a job, either the slowest pattern used is above t, and all others go, or those of at least t +
v go. A node is a set of remaining patterns. It is done with if the system has no solution in
fractions; if all its patterns fit into one window, the program in whole numbers decides. Else t is
chosen so that both children lose a pattern that the fractional solution uses, or a pattern that is
far from these.

Groups have no names here, so the |U|! equal solutions of the form in z_mu are one, and the size
grows neither with |U| nor with the GPUs but with the patterns. Budgets count programs solved.

*Differs.* A grouping that is better by less than ``ALIKE`` is not looked for.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray
from warren.solve.gpu_groups.bound import above_and_below, few_patterns
from warren.solve.gpu_groups.problem import ALIKE, ReducedProblem

PATTERNS: Final = (300, 1500)
"""Most patterns that are looked at, at first and then."""
_NODES_OF_HIGHS: Final = 1000
"""Nodes after which HiGHS gives up one program in whole numbers."""
_USED: Final = 1e-7
"""A pattern that a fractional solution has more often than this is used by it."""


class GroupingProof(NamedTuple):
    """The better grouping as counts (G, K), None if none was found, and a lower bound of (4)."""

    count_GK: IntArray | None
    bound: float


def exact(problem: ReducedProblem, found: float, bound: float, programs: int) -> GroupingProof:
    """Search for the optimum with at most ``programs`` programs; the bound is at least ``bound``.

    ``found`` is the value of a grouping, ``bound`` a known bound; both as ``ReducedProblem`` has
    it. If there are too many patterns within that value, all groupings below a smaller limit are
    looked at: a grouping found there is the optimum too, and if there is none, the limit is a
    bound.
    """
    if problem.groups == 1:
        return GroupingProof(None, 0.0)
    for most in PATTERNS:
        pattern_QK, limit = few_patterns(problem, found, most, known=bound)
        if limit <= bound + ALIKE:
            continue
        windows = _Windows(problem, pattern_QK, limit)
        # A search that has ended proves its value, which is the limit if it has found nothing.
        is_proved = windows.search(bound, programs)
        programs = windows.left
        bound = max(bound, windows.value) if is_proved else bound
        if windows.best_GK is not None or limit == found:
            return GroupingProof(windows.best_GK, bound)
    return GroupingProof(None, bound)


class _Windows:
    """A search over sets of patterns: their speeds, and the best grouping found.

    ``value``: of the best grouping, at first the limit; ``left``: programs that may be solved.
    """

    def __init__(self, problem: ReducedProblem, pattern_QK: IntArray, found: float) -> None:
        self._problem, self._pattern_QK = problem, pattern_QK
        self._speed_QN: FloatArray = pattern_QK @ problem.speed_NK.T
        # The equations of the module's text: sum of x_c = |U|, sum of c x_c = all GPUs.
        self._matrix = np.vstack([np.ones(len(pattern_QK)), pattern_QK.T])
        self._total = np.append(problem.groups, problem.count_K).astype(np.float64)
        # Patterns near the mean are cheap, so solutions tend to fit into a window.
        self._cost_Q = np.square(self._speed_QN - problem.mean_N).max(axis=1, initial=0.0)
        # Step 2 of the proof in ``bound``: for each w some pattern above and some below is used.
        sides = list(above_and_below(problem, pattern_QK))
        self._needed_SQ: BoolArray = np.array(sides, np.bool_).reshape(-1, len(pattern_QK))
        self.value, self.left = found, 0
        self.best_GK: IntArray | None = None
        self._is_sure = True

    def search(self, bound: float, programs: int) -> bool:
        """Go on until nothing better can be left (True) or all programs are spent."""
        self.left = programs
        stack = [np.ones(len(self._pattern_QK), np.bool_)]
        while stack and self.value > bound + ALIKE:
            if self.left <= 0:
                return False
            stack += self._children(stack.pop())
        return self._is_sure or self.value <= bound + ALIKE

    def _children(self, left_Q: BoolArray) -> list[BoolArray]:
        """Return the sets to be looked at below a node; keep the grouping that it leads to.

        The node itself comes back when it has led to a better grouping: its window is narrower
        then.
        """
        if not left_Q.any() or not self._needed_SQ[:, left_Q].any(axis=1).all():
            return []
        width = self.value - ALIKE
        # All in one window: whole numbers decide.
        if (self._range_N(left_Q) < width).all():
            return [left_Q] if self._improves(left_Q) else []
        times_Q = self._solved(left_Q, is_whole=False)
        if times_Q is None:
            return []
        # The fractional solution fits into a window: whole numbers may do so too, with the patterns
        # within that window. If not, the set is split all the same.
        used_Q = times_Q > _USED
        if (self._range_N(used_Q) < width).all():
            middle_N = (self._speed_QN[used_Q].max(axis=0) + self._speed_QN[used_Q].min(axis=0)) / 2
            near_Q = left_Q & (np.abs(self._speed_QN - middle_N) < width / 2).all(axis=1)
            if self._improves(near_Q):
                return [left_Q]
        return self._split(left_Q, used_Q, width)

    def _split(self, left_Q: BoolArray, used_Q: BoolArray, width: float) -> list[BoolArray]:
        """Return both sides of the best t for one job; the side with more patterns comes next."""
        # The job for which the used patterns differ most; if they fit into a window, the one for
        # which all that are left do.
        range_N = self._range_N(used_Q)
        job = int(range_N.argmax())
        if range_N[job] < width:
            job = int(self._range_N(left_Q).argmax())
        speed_Q = self._speed_QN[:, job]
        slow, fast = float(speed_Q[left_Q].min()), float(speed_Q[left_Q].max())
        used_slow, used_fast = float(speed_Q[used_Q].min()), float(speed_Q[used_Q].max())
        # Slow patterns, up to t, go from one side; fast ones, from t + width on, from the other. If
        # the used ones are far enough apart, both sides lose one of them; else, if there is a
        # suitable t, one side loses one of them and the other a pattern that is far from them.
        if used_fast - used_slow >= width:
            t = (used_slow + used_fast - width) / 2
        elif fast - used_slow >= width:
            t = used_slow
        elif used_fast - slow >= width:
            t = used_fast - width
        else:
            t = (slow + fast - width) / 2
        sides = [left_Q & (speed_Q > t), left_Q & (speed_Q < t + width)]
        return sorted(sides, key=np.count_nonzero)

    def _range_N(self, some_Q: BoolArray) -> FloatArray:
        """Return the range of the speeds of these patterns, for each job."""
        speed_QN = self._speed_QN[some_Q]
        range_N: FloatArray = speed_QN.max(axis=0) - speed_QN.min(axis=0)
        return range_N

    def _improves(self, some_Q: BoolArray) -> bool:
        """Keep the grouping that these patterns, all in one window, make; False if there is none.

        In a window narrower than the value it is better.
        """
        times_Q = self._solved(some_Q, is_whole=True)
        if times_Q is None:
            return False
        # HiGHS is right within a tolerance: counts that do not add up in whole numbers prove
        # nothing.
        whole_Q = np.rint(times_Q).astype(np.int64)
        if (self._matrix @ whole_Q != self._total).any():
            self._is_sure = False
            return False
        value = float(self._range_N(whole_Q > 0).max(initial=0.0))
        if value >= self.value - ALIKE:
            return False
        self.value, self.best_GK = value, np.repeat(self._pattern_QK, whole_Q, axis=0)
        return True

    def _solved(self, some_Q: BoolArray, *, is_whole: bool) -> FloatArray | None:
        """Solve for how often each of these patterns is used, at the least cost; None if none."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        if not some_Q.any():
            return None
        self.left -= 1
        answer: Any = milp(
            c=self._cost_Q[some_Q],
            integrality=np.full(int(some_Q.sum()), int(is_whole)),
            bounds=Bounds(0, np.inf),
            constraints=LinearConstraint(self._matrix[:, some_Q], self._total, self._total),
            options={"node_limit": _NODES_OF_HIGHS},
        )
        # Status 2 is infeasible; anything else was given up, and nothing is proved any more.
        if answer.x is None:
            self._is_sure &= answer.status == 2
            return None
        times_Q = np.zeros(len(some_Q))
        times_Q[some_Q] = answer.x
        return times_Q
