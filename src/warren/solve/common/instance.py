"""One instance of the planning problem, as the solvers take it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray


class Instance(NamedTuple):
    """Jobs J, device types T and devices D of one planning problem.

    int64 arrays, times in ns; ``weight_J`` float64, >= 0. ``comp_ns_JT`` and ``sync_ns_JT`` are
    T^c and T^s of one task. A job with ``rounds_J`` < 1, or that fits no device, is left out.
    ``stretch_rounds_J`` is the most rounds of one stretch, at least 1.
    """

    arrival_ns_J: IntArray
    weight_J: FloatArray
    scale_J: IntArray
    rounds_J: IntArray
    comp_ns_JT: IntArray
    sync_ns_JT: IntArray
    fits_JT: BoolArray
    type_D: IntArray
    stretch_rounds_J: IntArray


# Columns that are not int64.
_TYPES: Final = {"weight_J": np.float64, "fits_JT": np.bool_}


def prepared(instance: Instance) -> Instance:
    """Copy the columns into contiguous arrays of the right types, T^c at least 1 ns."""
    # A kernel is compiled for one type and one memory layout of each array: another layout would be
    # compiled separately.
    own: dict[str, Any] = {
        name: np.array(column, dtype=_TYPES.get(name, np.int64), order="C")
        for name, column in instance._asdict().items()
    }
    own["comp_ns_JT"] = np.maximum(own["comp_ns_JT"], 1)
    return Instance(**own)
