"""The order of gains over one period, which is all that MAIF uses: ours, (22) and naive rules.

JPAS orders jobs by what their metric gains in the next period. How far a predicted value is off
(``predict_curves.py``) says little of that: here pairs of moments of real curves are put in order.

*Moments.* Of each curve of a metric between 0 and 1 (accuracy, error, mAP, F1; ``_curves.py``) four
moments, at shares of its points drawn evenly from 0.1 to 0.85, and a period of 3 or 8 % of its
points, at least one point, drawn too. Seed, shares, periods and rules were fixed before a run.
*steps*: the same at shares of 0.15, 0.3, 0.5 and 0.75 with a period of 2, 5 or 10 %, the choices of
a review in which naive rules were ahead; added after the first run.
*Truth*: the mean of three points around the end of the period less that of three around now.
*Pairs*: moments of two curves whose truths are ``APART`` or more apart. *Right*: the share of these
that a rule puts in order; a tie counts one half. Intervals: 90 %, curves drawn again.

*Rules*, all in the unit that MAIF has (``unit_of``)::

    (22)            the mean of the families' curves then, less y_t
    smoothed        the same, less that mean now
    ours            ``expected_gain`` with what the job states; ours, unstated: without
    last period     the last value less that one period ago, means of three points each
    log slope       the slope over log steps in the newer half of the points, times log of the ratio
    missing         what the last value lacks: jobs that are far from the best gain most
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import _common
import numpy as np
from _curves import FOLDER, Real, real_curves

from warren.predict.accuracy_gain import (
    accuracy_gain,
    expected_gain,
    smoothed_gain,
    unit_of,
)
from warren.predict.curve import Curve, direction_of, first
from warren.predict.curve_kind import UNSTATED

SEED: Final = 1
MOMENTS: Final = 4
SETS: Final[Mapping[str, tuple[Sequence[float] | None, Sequence[float]]]] = {
    "drawn": (None, (0.03, 0.08)), "steps": ((0.15, 0.3, 0.5, 0.75), (0.02, 0.05, 0.1)),
}  # fmt: skip
"""Of each set of moments the shares, None: drawn evenly, and the periods."""
SHARES: Final = (0.1, 0.85)
APART: Final = 0.002
DRAWS: Final = 1000
LEAST_SEEN: Final = 4
Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Moment:
    """What is seen of a curve, the steps of the next period, and what it will bring."""

    curve: int
    real: Real
    seen: Curve
    steps: float
    truth: float


def last_period(seen: Curve, steps: float) -> float:
    """What the last ``steps`` steps brought, or all that are seen in proportion."""
    direction = direction_of(seen)
    if direction == 0:
        return 0.0
    last = float(seen.steps[-1])
    # The newest point that is at least a period old, else the first one.
    begin = max(0, int(np.searchsorted(seen.steps, last - steps, side="right")) - 1)
    begin = min(begin, len(seen) - 2)
    now, before = (
        float(seen.values[max(0, at - 2) : at + 1].mean()) for at in (len(seen) - 1, begin)
    )
    took = last - float(seen.steps[begin])
    return direction * (now - before) * steps / took / unit_of(seen, direction)


def log_slope(seen: Curve, steps: float) -> float:
    """The slope over log steps of the newer half of the points, carried on."""
    half = len(seen) // 2
    x, y = np.log(np.maximum(seen.steps[half:], 1e-9)), seen.values[half:]
    slope = float(np.polyfit(x, y, 1)[0]) if np.ptp(x) > 0 else 0.0
    last, direction = float(seen.steps[-1]), direction_of(seen)
    gain = direction * slope * float(np.log((last + steps) / last))
    return gain / unit_of(seen, direction) if direction else 0.0


def missing(seen: Curve) -> float:
    """The part of the metric's unit that is still missing, in the worst case all of it."""
    direction = direction_of(seen)
    part = float(seen.values[-1]) / unit_of(seen, direction) if direction else 0.0
    return 1 - part if direction > 0 else part


RULES: Final[Mapping[str, Callable[[Moment], float]]] = {
    "(22)": lambda one: accuracy_gain(one.seen, one.steps, SEED),
    "smoothed": lambda one: smoothed_gain(one.seen, one.steps, SEED),
    "ours": lambda one: expected_gain(one.seen, one.steps, SEED, one.real.kind),
    "ours, unstated": lambda one: expected_gain(one.seen, one.steps, SEED, UNSTATED),
    "last period": lambda one: last_period(one.seen, one.steps),
    "log slope": lambda one: log_slope(one.seen, one.steps),
    "missing": lambda one: missing(one.seen),
}


def main() -> None:
    """Order the gains by each rule, print and save."""
    if not FOLDER.is_dir():
        print("skipped: the public curves are not here; WARREN_DATA=FOLDER names their folder")
        return
    curves, sets = list(real_curves()), []
    for name, (shares, periods) in SETS.items():
        moments = list(drawn(curves, SEED, shares, periods))
        gains = {name: [rule(one) for one in moments] for name, rule in RULES.items()}
        rows = judged(moments, gains, SEED)
        for row in rows:
            print(name, row, flush=True)
        made = {"moments": len(moments), "curves": len({one.curve for one in moments})}
        sets.append({"set": name, **made, "rows": rows})
    _common.save("gain_order", SEED, {"apart": APART, "sets": sets})


def drawn(
    curves: Sequence[Real], seed: int, shares: Sequence[float] | None, periods: Sequence[float]
) -> Iterator[Moment]:
    """The moments of all curves whose metric has a range of 0 to 1."""
    random = np.random.default_rng(seed)
    for number, real in enumerate(curves):
        for moment in range(MOMENTS):
            drawn_share, period = random.uniform(*SHARES), random.choice(periods)
            share = drawn_share if shares is None else shares[moment]
            if real.unit is None:
                continue
            points = len(real.curve)
            now, ahead = int(share * points), max(1, round(period * points))
            if now < LEAST_SEEN or now + ahead + 1 >= points:
                continue
            seen = first(real.curve, now + 1)
            sign = direction_of(real.curve) * real.unit
            truth = sign * (_around(real.curve, now + ahead) - _around(real.curve, now))
            steps = float(real.curve.steps[now + ahead] - real.curve.steps[now])
            yield Moment(number, real, seen, steps, truth)


def _around(curve: Curve, at: int) -> float:
    return float(np.mean(curve.values[at - 1 : at + 2]))


def judged(
    moments: Sequence[Moment], gains: Mapping[str, Sequence[float]], seed: int
) -> list[dict[str, Any]]:
    """A row a rule: the share of pairs in order, and how far that of (22) is below it."""
    truth_M = np.array([one.truth for one in moments])
    curve_M = np.array([one.curve for one in moments])
    right = {name: right_MM(np.array(found), truth_M) for name, found in gains.items()}
    apart_MM = np.abs(truth_M[:, None] - truth_M) >= APART
    apart_MM &= curve_M[:, None] != curve_M
    random, numbers = np.random.default_rng(seed), np.unique(curve_M)
    weights = []
    for _ in range(DRAWS):
        count = np.bincount(random.choice(len(numbers), len(numbers)), minlength=len(numbers))
        weights.append(count[np.searchsorted(numbers, curve_M)].astype(float))
    base = [share(right["(22)"], apart_MM, one) for one in weights]
    rows = []
    for name, one in right.items():
        again = [share(one, apart_MM, weight) for weight in weights]
        more = np.nanquantile(np.array(again) - base, (0.05, 0.95))
        rows.append({
            "rule": name, "pairs": int(apart_MM.sum()) // 2,
            "right": share(one, apart_MM, np.ones(len(moments))),
            "right_90": np.nanquantile(again, (0.05, 0.95)).tolist(), "over_22_90": more.tolist(),
        })  # fmt: skip
    return rows


def right_MM(gain_M: Array, truth_M: Array) -> Array:
    """Which pairs a rule puts in order: 1, or one half for a tie."""
    told, true = (np.sign(one[:, None] - one) for one in (gain_M, truth_M))
    found: Array = np.where(told == 0, 0.5, (told == true).astype(float))
    return found


def share(right: Array, apart_MM: Array, weight_M: Array) -> float:
    """The share of the pairs in order; ``weight_M``: how often each moment counts."""
    weight_MM = weight_M[:, None] * weight_M * apart_MM
    total = float(weight_MM.sum())
    return float((right * weight_MM).sum() / total) if total else float("nan")


if __name__ == "__main__":
    main()
