"""Which `Settings` the predictor gets: scored on real curves, with some of them left out.

A candidate's score is the mean CRPS (Gneiting and Raftery 2007) of its samples at four steps up to
the last one, in units of each curve's range. The rule: among the candidates whose 80 % interval
holds at least 80 % of the last values, the one of the least score.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from _curves import OBSERVED, Real, real_curves
from numpy.typing import NDArray

from warren.predict.curve import Curve, direction_of
from warren.predict.family_error import FamilyError, departed, normal_quantiles
from warren.predict.forecast import HIGH, LOW, Scaled, Settings

Array = NDArray[np.float64]

WANTED: Final = 0.8
RISES: Final = (0.05, 0.1, 0.2)
DEPARTURES: Final = tuple(
    FamilyError(*one)
    for one in itertools.product((0.35, 0.5, 0.75, 1.0), (0.3, 0.5, 0.8, 1.2), (0.2, 0.3, 0.4))
)
STEPS: Final = 4
TASKS: Final = {
    "pollux cifar10": "cifar10", "gluon cifar10": "cifar10", "dawnbench cifar10": "cifar10",
    "pollux imagenet": "imagenet", "gluon imagenet": "imagenet", "dawnbench imagenet": "imagenet",
    "gluon detection": "detection", "gluon nlp": "text", "dawnbench squad": "text",
    "gluon ucf101": "video", "rubick": "language model",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One curve at one share observed: its four later steps, the truth there, and its range."""

    dataset: str
    scaled: Scaled
    horizon: Array
    truth: Array
    span: float


class _Kept:
    """Samples of a posterior at the last point and at a case's steps, computed once."""

    def __init__(self, case: Case, seed: int, rise: float) -> None:
        posterior = case.scaled.posterior(seed, rise)
        self._now, self._later = posterior.values(np.ones(1)), posterior.values(case.horizon)

    def values(self, z: Array) -> Array:
        """As `Posterior.values`."""
        return self._now if len(z) == 1 else self._later


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one candidate, for each case: ``score``, and whether the last value was ``held``."""

    settings: Settings
    score: Array
    held: NDArray[np.bool_]


def cases_of(curves: Iterable[Real]) -> list[Case]:
    """Every curve at every share."""
    return [_case(real, real.seen(share)) for real in curves for share in OBSERVED]


def _case(real: Real, seen: Curve) -> Case:
    scaled = Scaled.of(seen, direction_of(seen))
    steps, values = real.curve.steps, real.curve.values
    far = scaled.horizon(steps[-1:])[0]
    wanted = np.geomspace(1, far, STEPS + 1)[1:] * scaled.last - scaled.shift
    nearest = np.abs(steps[:, None] - wanted).argmin(axis=0)
    truth = (values[nearest] - scaled.zero) / scaled.unit
    span = float(np.ptp(values)) / abs(scaled.unit)
    return Case(real.dataset, scaled, scaled.horizon(steps[nearest]), truth, span)


def scored(cases: Sequence[Case], seed: int) -> list[Scores]:
    """Every candidate on every case."""
    found = []
    for rise in RISES:
        kept = [_Kept(case, seed, rise) for case in cases]
        for departure in DEPARTURES:
            told = [
                _told(one, case, departure, seed) for one, case in zip(kept, cases, strict=True)
            ]
            score, held = (np.array(column) for column in zip(*told, strict=True))
            found.append(Scores(Settings(rise, departure), score, held))
        print(f"rise {rise:g} done", flush=True)
    return found


def _told(kept: Any, case: Case, departure: FamilyError, seed: int) -> tuple[float, bool]:
    random = np.random.Generator(np.random.PCG64([seed, 1]))
    limit = case.scaled.limit
    paths, _ = departed(kept, case.horizon, limit, departure, random)
    values = paths + case.scaled.noise * normal_quantiles(len(paths), random)[:, None]
    values = values if limit is None else np.minimum(values, limit)
    low, high = np.quantile(values[:, -1], [LOW, HIGH])
    return float(crps(values, case.truth).mean() / case.span), bool(low <= case.truth[-1] <= high)


def crps(values: Array, truth: Array) -> Array:
    """E|X - truth| - E|X - X'| / 2 for samples (s, a) of X, (a,)."""
    samples = len(values)
    rank = 2 * np.arange(1, samples + 1) - samples - 1
    spread = rank @ np.sort(values, axis=0) / samples**2
    return np.asarray(np.abs(values - truth).mean(axis=0) - spread)


def chosen(scores: Sequence[Scores], use: NDArray[np.bool_]) -> Settings:
    """The rule, on the cases in use."""
    enough = [one for one in scores if one.held[use].mean() >= WANTED]
    return min(enough or scores, key=lambda one: one.score[use].mean()).settings


def without(
    scores: Sequence[Scores], cases: Sequence[Case], group: Callable[[str], str]
) -> dict[str, Settings]:
    """For each group of data sets, what the rule chooses without it."""
    groups = np.array([group(case.dataset) for case in cases])
    return {name: chosen(scores, groups != name) for name in dict.fromkeys(groups.tolist())}


def calibrated(seed: int) -> tuple[Settings, dict[str, Settings], dict[str, Settings]]:
    """The settings from all curves; without each data set; without each task."""
    cases = cases_of(real_curves())
    scores = scored(cases, seed)
    everything = np.ones(len(cases), dtype=bool)
    by_dataset = without(scores, cases, lambda name: name)
    return chosen(scores, everything), by_dataset, without(scores, cases, TASKS.__getitem__)
