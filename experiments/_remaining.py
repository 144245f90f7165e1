"""Cases of remaining rounds out of the real curves, and the constants that are sure enough.

A case is a curve, how much of it is seen, and a target that it reaches later. One point is one
round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from _curves import Real
from numpy.typing import NDArray

from warren.model.view import Progress
from warren.predict.remaining_rounds import Cautiousness, trend_rounds

SEEN: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
REACHED: Final = (0.6, 0.8, 0.95, 1.0)
"""A target is the best value of the first so much of a curve."""
LIMIT: Final = 0.05
"""At most so many of the rounds called sure are to be too many."""
CHOSEN_LIMIT: Final = 0.04
"""Of those that constants are chosen on: other curves are not like them."""

SLOPE: Final = (0.0, 1.0, 2.0, 3.0)
TREND: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
AHEAD: Final = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Case:
    """``left`` rounds after ``progress`` the curve is first at ``target``."""

    curve: int
    seen: float
    reached: float
    progress: Progress
    target: float
    left: int


def cases(curves: Sequence[Real]) -> list[Case]:
    """All of them, without targets that what is seen has reached, and each target once."""
    found = []
    for number, real in enumerate(curves):
        values = real.curve.values
        best = _best_so_far(values)
        rounds = np.arange(1, len(values) + 1)
        for seen in SEEN:
            points = max(1, int(len(values) * seen + 1e-9))
            progress, told = Progress(rounds[:points], values[:points]), set()
            for reached in REACHED:
                target = float(best[max(1, int(len(values) * reached + 1e-9)) - 1])
                first = int(np.argmax(best == target)) + 1
                if first > points and target not in told:
                    told.add(target)
                    case = Case(number, seen, reached, progress, target, first - points)
                    found.append(case)
    return found


def _best_so_far(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The greatest value until each point of a curve that rises, the least of one that falls."""
    greatest, least = np.maximum.accumulate(values), np.minimum.accumulate(values)
    rises = greatest[-1] - values[0] > values[0] - least[-1]
    found: NDArray[np.float64] = greatest if rises else least
    return found


Chosen = Callable[[NDArray[np.bool_]], tuple[Cautiousness, float]]


def chooser(every: Sequence[Case]) -> Chosen:
    """What chooses constants on some of the cases: from a mask over all to constants and worth.

    Of the grid's candidates that are wrong in at most ``CHOSEN_LIMIT`` of the cases that they dare,
    the one of most worth: the mean over all cases of sure over true rounds.
    """
    left = np.array([case.left for case in every])
    run = np.array([len(case.progress) for case in every])
    told: list[tuple[Cautiousness, NDArray[np.float64]]] = []
    for slope in SLOPE:
        trend = np.array([trend_rounds(case.progress, case.target, slope) for case in every])
        for part, ahead in product(TREND, AHEAD):
            sure = np.floor(np.minimum(part * trend, ahead * run))
            told.append((Cautiousness(part, slope, ahead), sure / left))

    def choose(mask: NDArray[np.bool_]) -> tuple[Cautiousness, float]:
        best: tuple[Cautiousness, float] | None = None
        for caution, ratio in told:
            ours = ratio[mask]
            dared = ours > 0
            worth = float(np.minimum(ours, 1.0).mean())
            sound = np.count_nonzero(ours > 1) <= CHOSEN_LIMIT * np.count_nonzero(dared)
            if sound and (best is None or worth > best[1]):
                best = caution, worth
        assert best is not None, "a candidate that never dares is always sound"
        return best

    return choose
