"""A file beside an app's, with a generator of its own."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(5)


def noise() -> float:
    return float(RNG.normal())
