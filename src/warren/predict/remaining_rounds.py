"""The rounds that a job has left, by its metric so far: expected, and almost surely.

*What.* ``optimus_rounds`` continues the published loss fit to the target. ``sure_rounds`` is the
conservative prediction for HLAS-P: rounds that the job will run almost surely, 0 if nothing is
sure.

*Source.* Optimus (EuroSys'18) for the fit, as HLAS (TCC'24) cites it in V-A; HLAS V-A for
"conservative", of which it prints no formula.

*Differs.* See ``warren.predict.optimus`` for the fit. ``sure_rounds`` is ours.

A job ends at the first value at its target. Two things bring it there: the trend goes on, or
something sudden happens, most often a lower learning rate. So the answer is the less of

- the trend: the way from the best value so far to the target, at the fastest speed that the latest
  values allow. A convex curve cannot be faster.
- a part of the rounds run so far: sudden changes come about evenly over the logarithm of rounds;
- the rounds to the next cut of the learning rate, if the job states one: beyond it nothing is
  sure. The absence of a near cut makes no more rounds sure: noise ends jobs, too.

On real curves neither the noise of single values nor the target's distance from the metric's limit
made a third that helped. The constants were chosen on half of them
(`experiments/remaining_rounds.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from warren.model.view import Progress
from warren.predict.curve_kind import UNSTATED, CurveKind
from warren.predict.local_trend import noise_of, shortfall, speed_of
from warren.predict.optimus import fit

_LEAST_POINTS: Final = 4


@dataclass(frozen=True, slots=True)
class Cautiousness:
    """The constants of ``sure_rounds``: the part of the likely rounds that it predicts.

    ``trend``: part of the trend's rounds. ``slope``: standard errors by which slopes may be steeper
    than they seem. ``ahead``: most rounds, in times the rounds run so far.
    """

    trend: float = 1.0
    slope: float = 2.0
    ahead: float = 0.35


CAUTION: Final = Cautiousness()


def optimus_rounds(progress: Progress, target: float) -> float:
    """Return the expected rounds until the metric is at the target, by the loss fit of Optimus.

    0 with fewer than three points or where the target is reached; infinite where the fitted curve
    never gets there.
    """
    # The fit has three parameters.
    if len(progress) < 3:
        return 0.0
    short = shortfall(progress, target)
    if short.best <= 0:
        return 0.0
    return max(0.0, fit(short).rounds_at_target() - float(short.rounds_P[-1]))


def sure_rounds(
    progress: Progress,
    target: float,
    caution: Cautiousness = CAUTION,
    kind: CurveKind = UNSTATED,
) -> int:
    """Return the rounds that the job will run almost surely before its metric is at the target.

    0 if it predicts none: with fewer than four points, or if the target was reached. Its time
    hardly depends on the number of points. ``kind``: the stated facts of the curve, in rounds.
    """
    trend = caution.trend * trend_rounds(progress, target, caution.slope)
    if not trend:
        return 0
    # The least: the trend goes on, or something sudden ends it, or the next cut does.
    last = float(progress.rounds_P[-1])
    return int(min(trend, caution.ahead * last, kind.next_cut(last) - last))


def trend_rounds(progress: Progress, target: float, slope: float) -> float:
    """Return the rounds of the trend: from the best value to the target at the fastest speed.

    0 with too few points or at the target, infinite where nothing moves. ``slope``: standard errors
    by which slopes may be steeper than they seem.
    """
    if len(progress) < _LEAST_POINTS:
        return 0.0
    short = shortfall(progress, target)
    if short.best <= 0:
        return 0.0
    noise = noise_of(short.rounds_P, short.short_P)
    speed = speed_of(short.rounds_P, short.short_P, noise, slope)
    # The way that is left from the best value, at the fastest speed that the values allow.
    return short.best / speed if speed > 0 else math.inf
