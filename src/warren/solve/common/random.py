"""Compiled twin of the hidden truth's factors: a hash of counters, integers only."""

from __future__ import annotations

import numpy as np

from warren.solve.common.compile import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_FIELD = np.uint64(65535)
_PPM = 1_000_000
_FLOOR_PPM = 50_000
_MEAN = 12 * 65535 // 2


@kernel
def mix(value: np.uint64) -> np.uint64:
    """One step of splitmix64 (Steele, Lea and Flood 2014)."""
    value = value + _GOLDEN
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@kernel
def factor_ppm(key: np.uint64, first: int, second: int, cv_ppm: int) -> int:
    """Factor in parts per million: 1 + cv z, z the sum of twelve uniform 16-bit numbers.

    Irwin-Hall: mean 6 x 65535, standard deviation 65536 to within 1e-9; at least 5 %.
    """
    key = mix(mix(key + np.uint64(first)) + np.uint64(second))
    total = np.int64(0)
    for counter in range(1, 4):
        bits = mix(key + np.uint64(counter))
        for shift in range(0, 64, 16):
            total = total + np.int64((bits >> np.uint64(shift)) & _FIELD)
    return max(_FLOOR_PPM, _PPM + int((cv_ppm * (total - _MEAN)) >> 16))


@kernel
def scaled(time_ns: int, ppm: int) -> int:
    """``time_ns * ppm // 10**6``, exact: the time is split so that nothing overflows int64.

    Holds while the result itself fits and ``ppm`` is below 9e12.
    """
    whole = time_ns // _PPM
    return whole * ppm + (time_ns - whole * _PPM) * ppm // _PPM
