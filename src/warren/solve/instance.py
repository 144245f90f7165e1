"""One instance of the planning problem, as the schedulers of this room take it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np


class Instance(NamedTuple):
    """Jobs J, types T, devices D. int64 arrays, times in ns; ``weight_J`` float64, >= 0.

    A job with ``rounds_J`` < 1, or that fits no device, is left out. ``stretch_rounds_J`` is the
    most rounds of one stretch, at least 1.
    """

    arrival_ns_J: Any
    weight_J: Any
    scale_J: Any
    rounds_J: Any
    comp_ns_JT: Any
    sync_ns_JT: Any
    fits_JT: Any
    type_D: Any
    stretch_rounds_J: Any


_TYPES: Final = {"weight_J": np.float64, "fits_JT": np.bool_}


def prepared(instance: Instance) -> Instance:
    """Own contiguous arrays of the right types, T^c at least 1 ns."""
    columns: dict[str, Any] = {
        name: np.array(column, dtype=_TYPES.get(name, np.int64), order="C")
        for name, column in instance._asdict().items()
    }
    return Instance(**columns)._replace(comp_ns_JT=np.maximum(columns["comp_ns_JT"], 1))
