"""Units: the forms that a user may write, and the two numbers Warren computes with.

Files and formulas use float seconds, bytes and bits per second. Inside ``core``, ``sim`` and
``solve`` time is an int64 count of nanoseconds, so that ties are true ties and sums do not
depend on their order. ``seconds_to_ns`` is the only rounding function in the project.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
NEVER_NS: Final = 2**62
"""Later than any time (about 146 years): the completion of a task that can never run."""

_TIME_S: Final[Mapping[str, float]] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_BYTES: Final[Mapping[str, float]] = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
# Rates in bits and, by the last line, in bytes a second.
_BITS_PER_S: Final[Mapping[str, float]] = {
    "bps": 1.0,
    "bit/s": 1.0,
    "kbps": 1e3,
    "kbit/s": 1e3,
    "Mbps": 1e6,
    "Mbit": 1e6,
    "Mbit/s": 1e6,
    "Gbps": 1e9,
    "Gbit": 1e9,
    "Gbit/s": 1e9,
    "Tbps": 1e12,
    **{f"{unit}/s": 8.0 * size for unit, size in _BYTES.items()},
}
# A number, signed and with an exponent if need be, then a unit, which may be missing.
_QUANTITY: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ/]*)\s*")


def seconds_to_ns(seconds: float) -> int:
    """Round ``seconds`` to the nearest nanosecond, ties to even.

    Raises
    ------
    ValueError
        If the value is not finite or is at least ``NEVER_NS``.
    """
    if not math.isfinite(seconds) or abs(seconds) * NS_PER_S >= NEVER_NS:
        raise ValueError(f"{seconds!r} s is outside the range of times")
    # Python's ``round`` takes ties to the even neighbor.
    return round(seconds * NS_PER_S)


def ns_to_seconds(time_ns: int) -> float:
    """Return float seconds of an integer nanosecond time, for files and formulas only."""
    return time_ns / NS_PER_S


def parse_time_s(value: object) -> float:
    """Parse ``"10 s"``, ``"152 ms"``, ``"1.5 h"`` or a bare number of seconds; float seconds.

    Raises
    ------
    ValueError
        If it is none of these; the text says what is allowed.
    """
    return _parse(value, _TIME_S, "time", "s", 'like "10 s", "152 ms", "2 h"')


def parse_bytes(value: object) -> int:
    """Parse ``"16 GB"`` (10**9), ``"16 GiB"`` (2**30) or a bare number of bytes; whole bytes.

    Raises
    ------
    ValueError
        If it is none of these; the text says what is allowed.
    """
    return round(_parse(value, _BYTES, "size", "B", 'like "16 GB", "98 MB"'))


def parse_rate_bps(value: object) -> float:
    """Parse ``"25 Gbps"``, ``"1 GB/s"`` or a bare number of bits per second; float bits/s.

    Raises
    ------
    ValueError
        If it is none of these; the text says what is allowed.
    """
    return _parse(value, _BITS_PER_S, "rate", "bps", 'like "25 Gbps", "200 Mbit", "1 GB/s"')


def _parse(value: object, units: Mapping[str, float], kind: str, default: str, hint: str) -> float:
    """Return a quantity in the base unit; ``default`` is the unit of a bare number."""
    # To Python ``True`` is the number 1, but no user means a quantity by it.
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected a {kind} {hint}")
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        if match is None:
            raise ValueError(f"{value!r} is not a {kind} {hint}")
        number, unit = float(match[1]), match[2] or default
        if unit not in units:
            raise ValueError(f"unknown unit {unit!r} in {value!r}; allowed: {', '.join(units)}")
        number *= units[unit]
    else:
        number = float(value)
    # The last bound is far beyond any time, size or rate that can be meant.
    if not math.isfinite(number) or number < 0 or number * NS_PER_S >= 1e30:
        raise ValueError(f"{value!r} is not a {kind} {hint}")
    return number
