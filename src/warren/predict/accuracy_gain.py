"""The gain of a job's metric in the next period, and the number of steps of that period.

*What.* ``accuracy_gain`` is A_imp of the paper. ``expected_gain`` is ours, with effects of real
runs beside those of the families. ``smoothed_gain`` is between them, to show which difference
matters. Jobs are ordered by it, the greatest first.

*Source.* JPAS (JNCA'20), 4.2 (the engineering method: V_train is that of the shortest step seen;
equations (13) to (20), the mathematical one, are ``warren.cost.parameter_server.StepTimes``), 4.3
with (21) and (22). Pseudocode 1 is ``warren.solve.flows.class_order``.

*Differs.* The paper's metric is an accuracy from 0 to 1. Here one in percent counts as a hundredth,
a falling one (a loss, an error) in parts of its first value, and other values in parts of the range
seen: gains of jobs can be compared. The paper subtracts y_t, the last value; the others subtract
the curve's value without its noise, since the noise of one evaluation is no gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from warren.model.costs import FloatArray
from warren.predict.curve import Curve, direction_of, limit_of
from warren.predict.curve_kind import UNSTATED, CurveKind
from warren.predict.forecast import Scaled, forecast

_RISE: Final = 0.1
"""The mean gain of each family beforehand, in units of the rise seen; decision 0019."""


def steps_ahead(period_s: float, steps_per_s: float) -> float:
    """Return T_schedule V_train of (21): the steps of the next period."""
    return period_s * steps_per_s


def published_mean(curve: Curve, at: Sequence[float] | FloatArray, seed: int) -> FloatArray:
    """Eq. (12) of JPAS: return the mean of the sampled sums of families at some steps, (a,).

    The same seed gives the same mean. No value passes the limit that accuracies and losses have.
    """
    direction = direction_of(curve)
    at_a = np.asarray(at, dtype=float)
    if direction == 0:
        return np.full(len(at_a), curve.values[0])
    scaled = Scaled.of(curve, direction)
    horizon = scaled.horizon(at_a)
    return scaled.back(scaled.posterior(seed, _RISE).values(horizon).mean(axis=0))


def accuracy_gain(curve: Curve, steps: float, seed: int) -> float:
    """Eq. (21), (22) of JPAS: return the mean of the sampled curves ``steps`` on, less y_t.

    Below 0 if the last value lies above the curve. See the module for its unit.
    """
    direction = direction_of(curve)
    if direction == 0:
        return 0.0
    later = published_mean(curve, curve.steps[-1:] + steps, seed)
    return direction * float(later[0] - curve.values[-1]) / unit_of(curve, direction)


def smoothed_gain(curve: Curve, steps: float, seed: int) -> float:
    """Return ``accuracy_gain``, but less the mean of the sampled curves now, not y_t."""
    direction = direction_of(curve)
    if direction == 0:
        return 0.0
    last = float(curve.steps[-1])
    now, later = published_mean(curve, [last, last + steps], seed)
    return direction * float(later - now) / unit_of(curve, direction)


def expected_gain(curve: Curve, steps: float, seed: int, kind: CurveKind = UNSTATED) -> float:
    """Return the expected improvement of the metric ``steps`` on, 0 or more.

    The difference of two values of ``warren.predict.forecast``, both without noise; ``kind``: the
    stated facts of the curve.
    """
    last = float(curve.steps[-1])
    found = forecast(curve, [last, last + steps], seed, kind)
    if found.direction == 0:
        return 0.0
    now, later = found.mean
    return max(0.0, found.direction * float(later - now) / unit_of(curve, found.direction))


def unit_of(curve: Curve, direction: int) -> float:
    """Return the size of a gain of 1: the limit of an accuracy, a falling metric's first value.

    Otherwise it is the range of the values seen.
    """
    limit = limit_of(curve, direction)
    first = float(curve.values[0])
    return limit or (first if direction < 0 and first > 0 else float(np.ptp(curve.values)))


def orders_by_gain(gains: Sequence[float]) -> tuple[int, ...]:
    """Return each job's order by its gain, 1 the greatest; of equals the earlier job is first."""
    ranked = sorted(range(len(gains)), key=lambda job: -gains[job])
    place = {job: order for order, job in enumerate(ranked, start=1)}
    return tuple(place[job] for job in range(len(gains)))
