"""A rise that no family shows: when learning rates are cut, accuracy jumps after it had been flat.

*What.* A curve goes on as its families say, or it rises late: of the remainder to its limit
``progress^-power`` stays, counted from the best value so far. The probability of a late rise
follows from the facts that are known when the prediction is made:

- an accuracy's noise: evaluations that scatter by more than a hundredth of the whole show a
  learning rate that is still high. Few points show nothing; accuracies then have their usual rate;
- a loss, a perplexity, a score: hardly ever;
- a schedule, where stated: a cut between now and then makes it likely, none unlikely.

*Source.* Ours; the rule with one constant for all curves is ``one_constant``. The constants were
chosen on real curves and on curves of the families; `experiments/_late_rises.py` and
decision 0019 say how, and give the results with each task left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit

from warren.model.costs import FloatArray

ONE_CONSTANT: Final = 0.4
_FEW: Final = 4
"""Number of points that any family fits, and that show nothing of the noise."""
_TELLING: Final = 3.0
"""Number of further points at which their noise counts half."""
_USUAL: Final = 0.011
"""An accuracy's noise, in parts of the whole, that tells nothing: exp(-4.5)."""
_LEAST: Final = 1e-4


@dataclass(frozen=True, slots=True)
class LateRise:
    """The constants. Probabilities are log odds.

    ``power``: a late rise leaves ``progress^-power`` of the remainder. ``accuracy``: the odds for
    an accuracy with the usual noise, ``noise`` times the logarithm of its noise over the usual one
    added. ``other``: the odds for any other metric. ``stated``: the odds that a schedule adds, or
    takes. ``spread``: deviation of the logarithm of the remainder after a late rise, far ahead;
    ``wobble``: the same of the remainder without a late rise.
    """

    power: float = 0.52
    accuracy: float = 1.5
    noise: float = 6.0
    other: float = -4.0
    stated: float = 5.0
    spread: float = 0.5
    wobble: float = 0.3


@dataclass(frozen=True, slots=True)
class Evidence:
    """The known facts of a curve, or of many (arrays): is it an ``accuracy``?

    ``excess``: the logarithm of its noise over the usual one, less if points are few; ``stated``: 1
    if a cut lies ahead, -1 if none does, 0 if nothing is stated.
    """

    accuracy: bool | FloatArray
    excess: float | FloatArray
    stated: int | FloatArray


def excess_of(noise: float, points: int) -> float:
    """Return the logarithm of an accuracy's noise over the usual one; 0 where points are few.

    ``noise``: off the likeliest member, in parts of the whole.
    """
    more = max(0, points - _FEW)
    return more / (more + _TELLING) * float(np.log((noise + _LEAST) / _USUAL))


def chance_of(evidence: Evidence, late: LateRise) -> FloatArray:
    """Return the chance that a late rise comes."""
    by_noise = late.accuracy + late.noise * evidence.excess
    odds = np.where(evidence.accuracy, by_noise, late.other)
    return np.asarray(expit(odds + late.stated * np.asarray(evidence.stated)))


def one_constant(best: float, limit: float, progress: float, power: float = ONE_CONSTANT) -> float:
    """Return the rule of one constant: ``best + (limit - best) (1 - progress^-power)``."""
    return best + (limit - best) * (1.0 - float(progress**-power))
