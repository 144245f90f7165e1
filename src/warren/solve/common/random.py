"""Compiled twin of the factors of the simulated truth: a hash of counters, in integers only."""

from __future__ import annotations

import numpy as np

from warren.solve.common.compile import kernel

# The increment and the two multipliers of splitmix64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
# The lowest 16 bits of a hash.
_FIELD = np.uint64(65535)
_PPM = 1_000_000
# No task takes less than a twentieth of its expected time.
_FLOOR_PPM = 50_000
# Twelve numbers, each uniform between 0 and 65535.
_MEAN = 12 * 65535 // 2


@kernel
def mix(value: np.uint64) -> np.uint64:
    """Hash a 64-bit number by one step of splitmix64 (Steele, Lea and Flood 2014)."""
    value = value + _GOLDEN
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@kernel
def factor_ppm(key: np.uint64, first: int, second: int, cv_ppm: int) -> int:
    """Return a task's factor in parts per million: 1 + cv z, z nearly standard normal.

    z is the sum of twelve uniform 16-bit numbers (Irwin-Hall), less its mean 6 x 65535, over its
    standard deviation, which is 65536 to within 1e-9. The factor is at least 5 %.

    Parameters
    ----------
    key
        Start of the stream.
    first, second
        The two counters that name the task in it, such as round and shard.
    cv_ppm
        Coefficient of variation in parts per million.
    """
    key = mix(mix(key + np.uint64(first)) + np.uint64(second))
    # Three hashes have four fields of 16 bits each: twelve numbers.
    total = np.int64(0)
    for counter in range(1, 4):
        bits = mix(key + np.uint64(counter))
        for shift in range(0, 64, 16):
            total = total + np.int64((bits >> np.uint64(shift)) & _FIELD)
    # Shifting by 16 bits divides by the standard deviation.
    return max(_FLOOR_PPM, _PPM + int((cv_ppm * (total - _MEAN)) >> 16))


@kernel
def scaled(time_ns: int, ppm: int) -> int:
    """Return ``time_ns * ppm // 10**6``, exact: the time is split, so nothing overflows int64.

    Holds while the result itself fits and ``ppm`` is below 9e12.
    """
    whole = time_ns // _PPM
    return whole * ppm + (time_ns - whole * _PPM) * ppm // _PPM
