"""Curves drawn from the six families themselves, in the parameters that JPAS prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from _jpas import PRINTED, Array

from warren.predict.curve import Curve, curve_of, first, part_of

POINTS: Final = 120
NOISE: Final = 0.006
EACH: Final = 12
_LEAST_RISE: Final = 0.2

Draw = Callable[[np.random.Generator], tuple[float, ...]]
_PARAMETERS: Final[dict[str, Draw]] = {
    "pow4": lambda r: (_top(r), _log(r, -2, 0.5), r.uniform(0.8, 2.5), r.uniform(0.3, 1.5)),
    "exp4": lambda r: (_top(r), _log(r, -1.7, -0.2), r.uniform(0.4, 1.1), r.uniform(-0.6, 0)),
    "pow3": lambda r: (r.uniform(0.6, 1.05), r.uniform(0.3, 0.9), r.uniform(0.2, 1.2)),
    "log-log-linear": lambda r: (_log(r, -1.3, -0.3), r.uniform(1.02, 1.5)),
    "log-power": lambda r: (_top(r), r.uniform(0, 3), -r.uniform(0.6, 1.8)),
    "MMF": lambda r: (_top(r), r.uniform(0, 0.4), _log(r, -1.7, -0.3), r.uniform(0.6, 1.8)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve of one family: noisy values, and the last one without noise."""

    family: str
    curve: Curve
    end: float

    def seen(self, share: float) -> Curve:
        """The first so many of its points."""
        return first(self.curve, part_of(len(self.curve), share))

    def falling(self) -> Drawn:
        """The same as a loss that falls from about 3 and levels out above 0."""
        turned = curve_of(self.curve.steps, 3 * (1.2 - self.curve.values))
        return Drawn(self.family, turned, 3 * (1.2 - self.end))


def family_curves(seed: int, each: int = EACH) -> Iterator[Drawn]:
    """So many of each family; values within 0 to 1 that rise by 0.2 or more."""
    random = np.random.default_rng(seed)
    steps = np.arange(1.0, POINTS + 1)
    for family in PRINTED:
        found = 0
        while found < each:
            values = family.curve(steps, *_PARAMETERS[family.name](random))
            if _is_accuracy(values):
                found += 1
                noisy = values + NOISE * random.standard_normal(POINTS)
                yield Drawn(family.name, curve_of(steps, noisy), float(values[-1]))


def _is_accuracy(values: Array) -> bool:
    return bool(
        np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1
        and np.ptp(values) >= _LEAST_RISE and np.diff(values).min() >= -1e-12
    )  # fmt: skip


def _top(random: np.random.Generator) -> float:
    return random.uniform(0.6, 0.98)


def _log(random: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** random.uniform(low, high))
