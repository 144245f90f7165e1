"""Which `Settings` the predictor gets: scored on real curves, with some of them left out.

The rule, in two steps over grids. First the chances and the size of late rises: among the
candidates that err by at most 0.02 on curves drawn from the families (30 % seen, accuracies), and
by at most a tenth more than without late rises where those are losses, the one of the least mean
error on real curves, in units of their range. Then the widths: among those whose 80 % interval
holds at least 80 % of the real last values, the one of the least CRPS (Gneiting and Raftery 2007).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from _curves import OBSERVED, TASKS, Real, real_curves
from _family_curves import family_curves
from numpy.typing import NDArray

from warren.predict.curve import Curve, direction_of
from warren.predict.curve_kind import UNSTATED, CurveKind
from warren.predict.curve_paths import Ahead, normal_quantiles
from warren.predict.forecast import DEFAULT, HIGH, LOW, Scaled, Settings
from warren.predict.late_rise import Evidence, LateRise, chance_of

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

WANTED: Final = 0.8
FAMILY_ERROR: Final = 0.02
FAMILY_SEEN: Final = 0.3
SAMPLES: Final = 1000
RISES: Final = tuple(
    LateRise(*one)
    for one in itertools.product(
        (0.36, 0.4, 0.44, 0.48, 0.52, 0.56), (0.0, 0.5, 1.0, 1.5, 2.0), (2.0, 3.0, 4.0, 5.0, 6.0),
        (-2.0, -3.0, -4.0), (2.0, 3.0, 4.0, 5.0),
    )
)  # fmt: skip
WIDTHS: Final = tuple(itertools.product((0.3, 0.4, 0.5, 0.6, 0.7), (0.1, 0.2, 0.3, 0.4)))


@dataclass(frozen=True, slots=True)
class Case:
    """One curve at one share observed: what it starts from, the truth at its end, and its range.

    All in scaled values; ``unit`` is one of them in the curve's own.
    """

    dataset: str
    evidence: Evidence
    ahead: Ahead
    noise: float
    truth: float
    span: float
    unit: float


def real_cases(curves: Iterable[Real]) -> list[Case]:
    """Every real curve at every share."""
    return [
        case_of(real.dataset, real.seen(share), real.curve, real.end, real.kind)
        for real in curves
        for share in OBSERVED
    ]


def family_cases(seed: int, *, falling: bool) -> list[Case]:
    """Curves of the families, of which nothing is stated."""
    drawn = [one.falling() if falling else one for one in family_curves(seed)]
    return [
        case_of(one.family, one.seen(FAMILY_SEEN), one.curve, one.end, UNSTATED) for one in drawn
    ]


def case_of(dataset: str, seen: Curve, whole: Curve, end: float, kind: CurveKind) -> Case:
    """What is known of a curve when some of it is seen."""
    steps, span = whole.steps[-1:], float(np.ptp(whole.values))
    if kind.in_logs(seen):
        seen, kind = Curve(seen.steps, np.log(seen.values)), replace(kind, metric="loss")
        end, span = float(np.log(end)), float(np.ptp(np.log(whole.values)))
    scaled = Scaled.of(seen, direction_of(seen))
    ahead = scaled.ahead(seen, steps, kind)
    cut = kind.cut_between(float(seen.steps[-1]), steps)
    stated = 0 if cut is None else 1 if cut[0] else -1
    evidence = replace(scaled.evidence(seen, ahead.members, kind), stated=stated)
    unit = abs(scaled.unit)
    truth = (end - scaled.zero) / scaled.unit
    return Case(dataset, evidence, ahead, scaled.noise, truth, span / unit, unit)


@dataclass(frozen=True, slots=True)
class Table:
    """Cases as columns, so that a candidate is scored at once."""

    evidence: Evidence
    usual: Array
    best: Array
    room: Array
    progress: Array
    truth: Array
    span: Array
    unit: Array

    @staticmethod
    def of(cases: Sequence[Case]) -> Table:
        """Of all cases."""

        def column(value: Callable[[Case], float]) -> Array:
            return np.array([value(one) for one in cases], dtype=float)

        evidence = Evidence(
            column(lambda one: float(one.evidence.accuracy)),
            column(lambda one: float(one.evidence.excess)),
            column(lambda one: float(one.evidence.stated)),
        )
        return Table(
            evidence, column(lambda one: one.ahead.families_mean()[0]),
            column(lambda one: one.ahead.best), column(lambda one: one.ahead.room()),
            column(lambda one: one.ahead.horizon[0]), column(lambda one: one.truth),
            column(lambda one: one.span), column(lambda one: one.unit),
        )  # fmt: skip

    def off(self, late: LateRise) -> Array:
        """How far each expected value is off, scaled."""
        risen = self.best + self.room * (1 - self.progress**-late.power)
        chance = chance_of(self.evidence, late)
        return np.abs(self.usual + chance * (risen - self.usual) - self.truth)


@dataclass(frozen=True, slots=True)
class Scores:
    """The error of each candidate on each case, (c, n), and which of them families allow."""

    error: Array
    allowed: Mask


def scored(cases: Sequence[Case], seed: int) -> Scores:
    """Every candidate on every case."""
    real = Table.of(cases)
    rising, falling = (Table.of(family_cases(seed, falling=one)) for one in (False, True))
    never = np.abs(falling.usual - falling.truth) / falling.span
    allowed = [
        (rising.off(late) * rising.unit).mean() <= FAMILY_ERROR
        and (falling.off(late) / falling.span).mean() <= 1.1 * never.mean()
        for late in RISES
    ]
    error = np.array([real.off(late) / real.span for late in RISES])
    return Scores(error, np.array(allowed))


def chosen(scores: Scores, use: Mask) -> LateRise:
    """The first step of the rule, on the cases in use."""
    error = scores.error[:, use].mean(axis=1)
    return RISES[int(np.argmin(np.where(scores.allowed, error, error + error.max())))]


def widened(late: LateRise, cases: Sequence[Case], seed: int) -> LateRise:
    """The second step of the rule."""
    tried = []
    for spread, wobble in WIDTHS:
        one = replace(late, spread=spread, wobble=wobble)
        score, held = zip(*(_told(case, one, seed) for case in cases), strict=True)
        tried.append((float(np.mean(score)), float(np.mean(held)), one))
    enough = [one for one in tried if one[1] >= WANTED]
    return min(enough or tried, key=lambda one: one[0])[2]


def _told(case: Case, late: LateRise, seed: int) -> tuple[float, bool]:
    random = np.random.Generator(np.random.PCG64(seed))
    ahead = replace(case.ahead, chance=np.atleast_1d(chance_of(case.evidence, late)))
    paths = ahead.paths(SAMPLES, late, random)
    values = paths + case.noise * normal_quantiles(SAMPLES, random)[:, None]
    values = values if ahead.limit is None else np.minimum(values, ahead.limit)
    low, high = np.quantile(values[:, 0], [LOW, HIGH])
    score = float(crps(values, np.array([case.truth]))[0] / case.span)
    return score, bool(low <= case.truth <= high)


def crps(values: Array, truth: Array) -> Array:
    """E|X - truth| - E|X - X'| / 2 for samples (s, a) of X, (a,)."""
    samples = len(values)
    rank = 2 * np.arange(1, samples + 1) - samples - 1
    spread = rank @ np.sort(values, axis=0) / samples**2
    return np.asarray(np.abs(values - truth).mean(axis=0) - spread)


def calibrated(seed: int) -> tuple[Settings, dict[str, Settings], dict[str, Settings]]:
    """The settings from all curves; without each data set; without each task."""
    cases = real_cases(real_curves())
    scores = scored(cases, seed)

    def settings(use: Mask) -> Settings:
        some = [case for case, used in zip(cases, use, strict=True) if used]
        return replace(DEFAULT, late=widened(chosen(scores, use), some, seed))

    def without(group: Callable[[str], str]) -> dict[str, Settings]:
        groups = np.array([group(case.dataset) for case in cases])
        return {name: settings(groups != name) for name in dict.fromkeys(groups.tolist())}

    everything = np.ones(len(cases), dtype=bool)
    return settings(everything), without(str), without(TASKS.__getitem__)
