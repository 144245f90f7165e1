"""Uniform draws that are the same on every machine, and arrivals made of them.

Numbers come from the raw 64-bit output of PCG64, whose stream numpy guarantees, seeded with
(seed, number of the stream), so that two attributes of a job never share draws. Only sums,
products and roundings follow: no logarithm, whose last bit may differ between machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.random import PCG64, SeedSequence

from warren.model.units import seconds_to_ns

FloatArray = npt.NDArray[np.float64]
_BITS: Final = 53
_TICK_NS: Final = 1_000_000


def uniform(seed: int, stream: int, count: int) -> FloatArray:
    """``count`` numbers in [0, 1), multiples of 2**-53."""
    raw = np.asarray(PCG64(SeedSequence((seed, stream))).random_raw(count), dtype=np.uint64)
    return (raw >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS


def integers(seed: int, stream: int, count: int, below: int) -> list[int]:
    """``count`` whole numbers in [0, ``below``), ``below`` at most 2**31."""
    return [int(value) for value in uniform(seed, stream, count) * below]


def shuffled(seed: int, stream: int, count: int) -> list[int]:
    """The numbers 0 to ``count`` - 1 in a drawn order."""
    order: list[int] = np.argsort(uniform(seed, stream, count), kind="stable").tolist()
    return order


def arrivals_ns(seed: int, stream: int, count: int, window_s: float) -> list[int]:
    """Arrivals of a Poisson process, given that ``count`` fall into the window; sorted, whole ms.

    Given their number, arrivals of a Poisson process are independent and uniform over the window.
    """
    ticks = np.sort(uniform(seed, stream, count)) * window_s * (1e9 / _TICK_NS)
    return [int(tick) * _TICK_NS for tick in ticks]


def whole_cluster_s(comp_s: Mapping[str, float], devices: Mapping[str, int]) -> float:
    """Seconds a task that all devices need together, each at its own speed.

    Parameters
    ----------
    comp_s
        T^c by device type; a type that is absent cannot run it.
    devices
        Number of devices by type.

    Raises
    ------
    ValueError
        If no device can run it.
    """
    speed = math.fsum(count / comp_s[kind] for kind, count in devices.items() if kind in comp_s)
    if speed == 0:
        raise ValueError("no device of the cluster can run it")
    return 1.0 / speed


def window_s(work_s: Sequence[float], load: float | None) -> float:
    """Length of the window in which jobs arrive: offered work / (capacity x load); None: 0.

    ``work_s`` is for each job what the whole cluster would need for it, so that capacity is 1. On
    unequal devices a good schedule does more than that, since each takes what it is best at.

    Raises
    ------
    ValueError
        If it is outside the range of times.
    """
    length_s = 0.0 if load is None else math.fsum(work_s) / load
    seconds_to_ns(length_s)
    return length_s
