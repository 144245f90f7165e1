"""The one call for GPU groups: construct, search, prove; exact where groups can have few patterns.

``problem`` states the question (HLAS, (4)-(6)), ``local_search`` describes the search, ``bound``
and ``branch_and_bound`` the proof.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.gpu_groups.bound import least_spread
from warren.solve.gpu_groups.branch_and_bound import exact
from warren.solve.gpu_groups.local_search import GroupingSearch, constructions
from warren.solve.gpu_groups.problem import ALIKE, Grouping, GroupingProblem, expanded, reduced

MOVES: Final = 300
PROGRAMS: Final = 200
_DISTURBING: Final = 6
"""Divisor of the moves: this part of them is kept for the time after the constructions."""


def grouped(
    problem: GroupingProblem, moves: int = MOVES, programs: int = PROGRAMS, seed: int = 0
) -> Grouping:
    """Find the best GPU groups within ``moves`` and ``programs``, with a lower bound of (4).

    Parameters
    ----------
    moves
        Exchanges between two groups that the local search may do; each looks at all of them.
    programs
        Linear and integer programs that the exact search may solve, where the bound does not
        already prove the best; 0: none, and scipy is not loaded.
    seed
        Seed of the disturbances of the local search, which goes on where nothing is proved.
    """
    least = reduced(problem)
    # No job can use any GPU: all groupings are equal.
    if not len(least.count_K):
        return expanded(problem, least, np.zeros((problem.groups, 0), np.int64), 0.0)
    search = GroupingSearch(least, seed)
    for count_GK in constructions(least):
        search.consider(count_GK, moves - moves // _DISTURBING)
    # The bound needs patterns, of which there are the fewer the better the grouping is.
    bound = least_spread(least, search.value)
    if search.value > bound + ALIKE and programs:
        proof = exact(least, search.value, bound, programs)
        bound = proof.bound
        if proof.count_GK is not None:
            search.consider(proof.count_GK, moves)
    # Nothing is proved: the rest of the moves goes into disturbances, and a better grouping may
    # have a better bound.
    if search.value > bound + ALIKE:
        search.go_on(search.spent + moves // _DISTURBING, bound)
        bound = max(bound, least_spread(least, search.value))
    return expanded(problem, least, search.count_GK, bound)
