"""Devices for policies that do not tell types apart: drawn from the free ones, by the run's seed.

The lowest indexes would favor the type that a cluster file names first.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.view import View

_DRAWS: Final = 0x40E0
"""Which stream of the run's seed the choice of devices is drawn from."""


def drawn(view: View, job: int, free: IntArray, need: int) -> list[int]:
    """Draw ``need`` of the ``free`` devices that fit, in order of index; none if they are too few.

    A job draws again for every round at which it starts again.
    """
    free = free[view.costs.fits_JT[job, view.type_D[free]]]
    if len(free) < max(need, 1):
        return []
    # A generator of its own for each job and round: the choice does not depend on earlier draws.
    first = view.next_round_J.item(job)
    draws = np.random.default_rng([view.seed, _DRAWS, job, *([first] if first else [])])
    return sorted(draws.choice(free, size=need, replace=False).tolist())
