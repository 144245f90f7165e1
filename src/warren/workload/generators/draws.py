"""Draw numbers that are the same on every machine, and arrivals made of them.

Numbers come from the raw 64-bit output of PCG64, whose stream numpy guarantees, seeded with
(seed, number of the stream), so that two attributes of a job never share draws. Only sums,
products and roundings follow: no logarithm, whose last bit may differ between machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.random import PCG64, SeedSequence

from warren.model.costs import FloatArray
from warren.model.units import seconds_to_ns

# A double holds 53 bits, so draws are multiples of 2**-53 without rounding.
_BITS: Final = 53
# Arrivals are whole ms; a normal draw is the sum of 12 even ones, whose variances add up to 1.
_TICK_NS: Final = 1_000_000
_EVEN: Final = 12
BELOW: Final = 2**31
"""The largest ``below`` of ``integers``."""


def uniform(seed: int, stream: int, count: int) -> FloatArray:
    """Draw ``count`` numbers in [0, 1), multiples of 2**-53."""
    raw = np.asarray(PCG64(SeedSequence((seed, stream))).random_raw(count), dtype=np.uint64)
    return (raw >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS


def integers(seed: int, stream: int, count: int, below: int) -> list[int]:
    """Draw ``count`` whole numbers in [0, ``below``), ``below`` at most 2**31."""
    return [int(value) for value in uniform(seed, stream, count) * below]


def shuffled(seed: int, stream: int, count: int) -> list[int]:
    """Draw an order of the numbers 0 to ``count`` - 1."""
    order: list[int] = np.argsort(uniform(seed, stream, count), kind="stable").tolist()
    return order


def arrivals_ns(seed: int, stream: int, count: int, window_s: float) -> list[int]:
    """Draw arrivals of a Poisson process of which ``count`` fall into the window, in ns, sorted.

    Given their number, arrivals of a Poisson process are independent and uniform over the window.
    They are whole milliseconds.
    """
    ticks = np.sort(uniform(seed, stream, count)) * window_s * (1e9 / _TICK_NS)
    return [int(tick) * _TICK_NS for tick in ticks]


def bursts_ns(
    seed: int, streams: tuple[int, int], count: int, window_s: float, together: float
) -> list[int]:
    """Draw arrivals of ``together`` jobs at an instant in the mean; instants are a Poisson process.

    A job belongs to any of the ``count / together`` instants (rounded up) with the same chance, so
    that bursts differ in size, and some may be empty.
    """
    instants = max(1, math.ceil(count / together))
    times = arrivals_ns(seed, streams[0], instants, window_s)
    return sorted(times[which] for which in integers(seed, streams[1], count, instants))


def lognormal(seed: int, stream: int, count: int, sigma: float) -> list[float]:
    """Draw ``count`` numbers e ** (sigma * z), z a normal draw; their median is 1.

    The normal draw is the sum of twelve even ones, less six, and the power of e a series: whole
    numbers, sums, products and quotients.
    """
    draws = integers(seed, stream, count * _EVEN, BELOW)
    # z = (u_1 + ... + u_12) - 6 has mean 0 and variance 1; the sum is of integers, hence exact.
    sums = [sum(draws[at : at + _EVEN]) for at in range(0, len(draws), _EVEN)]
    return [_exp(sigma * (one / BELOW - _EVEN / 2)) for one in sums]


def lognormal_mean(sigma: float) -> float:
    """Return the mean of ``lognormal``: that of e ** (sigma * even draw), to the twelfth power."""
    mean = 1.0
    if sigma:
        for _ in range(_EVEN):
            # E[e ** (sigma (u - 1/2))] = (e ** (sigma/2) - e ** (-sigma/2)) / sigma.
            mean *= (_exp(sigma / 2) - _exp(-sigma / 2)) / sigma
    return mean


def _exp(power: float) -> float:
    """Return e to a power, the same to the last bit on every machine."""
    # The series of e ** |x|: sum of |x|**k / k!, until a term no longer changes the sum.
    total = term = 1.0
    number = 0
    while total + term != total:
        number += 1
        term *= abs(power) / number
        total += term
    return total if power >= 0 else 1.0 / total


def whole_cluster_s(comp_s: Mapping[str, float], devices: Mapping[str, int]) -> float:
    """Return the seconds a task that all devices need together, each at its own speed.

    ``comp_s`` is T^c by device type; a type that is absent cannot run it. Raises ValueError if no
    device can.
    """
    # Tasks a second of the whole cluster: the sum over types of devices / T^c.
    speed = math.fsum(count / comp_s[kind] for kind, count in devices.items() if kind in comp_s)
    if speed == 0:
        raise ValueError("no device of the cluster can run it")
    return 1.0 / speed


def window_s(work_s: Sequence[float], load: float | None) -> float:
    """Return the window in which jobs arrive, in seconds: offered work / (capacity x load).

    ``work_s`` is for each job the time that the whole cluster would need for it, so that capacity
    is 1. On unequal devices a good schedule does more than that, since each takes the jobs it is
    best at.
    Without a ``load`` the window is 0: all jobs arrive at once. Raises ValueError if it is outside
    the range of times.
    """
    length_s = 0.0 if load is None else math.fsum(work_s) / load
    # Only its check is wanted: the length must be within the range of times.
    seconds_to_ns(length_s)
    return length_s
