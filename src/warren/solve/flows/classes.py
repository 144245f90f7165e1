"""Classes of flows: which are served before which, and which share by weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import FloatArray, IntArray


class FlowClasses(NamedTuple):
    """Classes K in ranks R.

    Links serve the ranks one after the other (strict priority): flows of a rank share the rest of
    all lower ones. Flows of one rank share by weight: where two are limited by the same link, the
    rate of each is its class's ``weight_K`` times the level of the link.
    """

    rank_K: IntArray
    weight_K: FloatArray

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return int(self.rank_K.max()) + 1


def strict_classes(classes: int) -> FlowClasses:
    """Make ``classes`` classes with strict priority: 0 (control) before 1 before 2, and so on."""
    return FlowClasses(np.arange(classes, dtype=np.int64), np.ones(classes))


def weighted_classes(weight_K: npt.ArrayLike) -> FlowClasses:
    """Make classes that share by weight, but for class 0 (control), which comes before all.

    Parameters
    ----------
    weight_K
        The weight of each class from 0 on; all above 0. The weight of class 0 has no effect.

    Raises
    ------
    ValueError
        If a weight is not finite and above 0.
    """
    weight = np.array(weight_K, dtype=np.float64)
    if not (len(weight) and np.all(weight > 0) and np.all(np.isfinite(weight))):
        raise ValueError("a class of flows has no finite weight above 0")
    rank_K = np.ones(len(weight), dtype=np.int64)
    rank_K[0] = 0
    weight[0] = 1.0
    return FlowClasses(rank_K, weight)
