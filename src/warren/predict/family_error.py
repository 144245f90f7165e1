"""How real training runs depart from any sum of the families, as a small random process.

Learning rates are cut: accuracy jumps, loss falls, after a curve had been flat for long. When is
not to be seen in the curve. So *cuts* come at random over the logarithm of progress, and each takes
a part of what is left to the curve's limit. Besides, a run does somewhat better or worse than it
promised: the part left *wobbles*, more the further on. Both are 0 at the last point seen.

The three constants were chosen on real curves, `experiments/_departures.py` and
docs/decisions/0019 say how, and what leaving out each data set gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtri

from warren.model.costs import FloatArray
from warren.predict.mcmc import Posterior

_MOST_CUTS: Final = 12
"""A path has at most so many cuts."""
_LEAST_ROOM: Final = 1e-6


@dataclass(frozen=True, slots=True)
class FamilyError:
    """The three constants of the process.

    ``rate``: cuts expected while progress grows e-fold; ``cut``: mean of the logarithm by which a
    cut divides what is left; ``wobble``: deviation of that logarithm after the first e-fold.
    """

    rate: float = 0.75
    cut: float = 0.5
    wobble: float = 0.2


def departed(
    posterior: Posterior,
    horizon: FloatArray,
    limit: float | None,
    departure: FamilyError,
    random: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Return sampled paths (s, a) at some progress of at least 1, and their expected value (a,).

    The posterior is scaled so that the rise seen is 1; ``horizon`` is progress (a,), with the last
    point seen at 1. No value can pass the limit; without one, the rise seen counts as what is left.
    The mean never falls. ``random`` draws cuts and wobbles.
    """
    now = posterior.values(np.ones(1))
    paths = posterior.values(horizon)
    left: FloatArray = np.ones_like(paths)
    if limit is not None:
        now = np.minimum(now, limit)
        paths = now + _below(paths - now, np.maximum(limit - now, _LEAST_ROOM))
        left = np.maximum(limit - paths, 0.0)
    # What is left is divided by all cuts so far, and multiplied by a wobble: a lognormal of mean 1,
    # the variance of whose logarithm grows with that of progress.
    far = np.log(np.maximum(horizon, 1.0))
    kept = np.exp(-departure.cut * _cuts(len(paths), departure.rate * far, random))
    width = departure.wobble * np.sqrt(far)
    wobble = np.exp(width * normal_quantiles(len(paths), random)[:, None] - 0.5 * width**2)
    return paths + left * (1.0 - kept * wobble), (paths + left * (1.0 - kept)).mean(axis=0)


def normal_quantiles(samples: int, random: np.random.Generator) -> FloatArray:
    """Return evenly spread quantiles of the standard normal distribution, shuffled, (s,).

    They move a mean or an interval less from seed to seed than independent draws.
    """
    return np.asarray(ndtri((random.permutation(samples) + 0.5) / samples))


def _below(rise: FloatArray, room: FloatArray) -> FloatArray:
    """Bend a rise so that it nears the room there is and never passes it.

    Small rises hardly change: room x / (1 + x^4)^(1/4) with x = rise / room.
    """
    # At most 1e6, so that its fourth power stays finite.
    share = np.minimum(np.maximum(rise, 0.0) / room, 1e6)
    return np.asarray(room * share / (1.0 + share**4) ** 0.25)


def _cuts(samples: int, expected: FloatArray, random: np.random.Generator) -> FloatArray:
    """Draw the sum of the sizes of all cuts so far, in units of their mean, (s, a).

    ``expected``: how many cuts are expected by each step. A path has its cuts once: at a later step
    there are those of before and perhaps more.
    """
    # A Poisson process in units of expected cuts: exponential gaps, a cut has happened once as
    # many are expected as its arrival says.
    arrival = np.cumsum(random.standard_exponential((samples, _MOST_CUTS)), axis=1)
    size = random.standard_exponential((samples, _MOST_CUTS))
    happened = arrival[:, :, None] <= expected
    return np.asarray((size[:, :, None] * happened).sum(axis=1))
