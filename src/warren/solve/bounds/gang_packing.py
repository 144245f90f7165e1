"""A lower bound on the makespan from gangs that find no room beside each other.

A gang of n devices needs them all at once, whatever else runs and however often it is put off. Let
f with f(0) = 0 and f(1) = 1 be such that widths x that add up to at most 1 have sum f(x) <= 1 (a
dual feasible function). At every time the gangs at work have widths n_j / D that add up to at most
1. So in C seconds sum_j P_j f(n_j / D) <= C, where P_j is the least time of gang j's rounds. The
gangs released from r on give r + that sum. Gangs that each need more than half of the devices come
one after the other; two thirds and thirds do not go together; and so on.

For a width w of half of the devices at most, the gangs of more than D - w devices come one after
the other, and not beside any one gang of w devices or more: the longest of these is added.

Gangs that fit some types only have these types' devices for D.

*Source.* The functions u and U of Fekete and Schepers, "New classes of fast lower bounds for bin
packing problems" (2001), and U, then u. For C instead of a number of bins: that every instant is a
bin is ours, but nothing new.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.bounds.columns import BoundJobs
from warren.solve.common.arrays import FloatArray, IntArray

ROUNDINGS: Final = 24
"""Most parts of the functions u that are tried, from 1 part on."""
CUTS: Final = 24
"""Widths that U cuts at, at most."""
FITS: Final = 16
"""Most sets of types that are tried: those of most gangs."""


def gang_bound(jobs: BoundJobs) -> float:
    """Compute the bound on the makespan in s from the first arrival; 0 without gangs."""
    most, gangs = 0.0, jobs.gang_J
    if not gangs.any():
        return most
    size_J, usable_JT = jobs.scale_J[gangs], jobs.usable_JT[gangs]
    arrival_s_J, path_s_J = jobs.arrival_s_J[gangs], jobs.path_s_J[gangs]
    sets_ST, count_S = np.unique(usable_JT, axis=0, return_counts=True)
    # For a set of types, those gangs count that may run on no other types, and these devices.
    for fits_T in sets_ST[np.argsort(-count_S, kind="stable")][:FITS]:
        within_J = ~(usable_JT & ~fits_T).any(axis=1)
        latest_first = np.flatnonzero(within_J)
        latest_first = latest_first[np.argsort(-arrival_s_J[latest_first], kind="stable")]
        size, path_s = size_J[latest_first], path_s_J[latest_first]
        arrival_s, devices = arrival_s_J[latest_first], int(jobs.devices_T[fits_T].sum())
        # r + sum of P_j f(n_j / D) over the gangs released from r on, for every r at once.
        for volume in _volumes(size, devices):
            most = max(most, float((arrival_s + np.cumsum(path_s * volume)).max()))
        # Those of more than D - w, one after the other, and the longest of w to D - w, which runs
        # beside none of them.
        for width in _cuts(size, devices):
            alone, beside = size > devices - width, (size >= width) & (size <= devices - width)
            longest_s = np.maximum.accumulate(path_s * beside)
            most = max(most, float((arrival_s + np.cumsum(path_s * alone) + longest_s).max()))
    return most


def _cuts(size_N: IntArray, devices: int) -> list[int]:
    """Return the widths to cut at, half of the devices at most.

    Only at these does it change which gangs are at least that wide, or leave less than that.
    """
    half = np.unique(np.minimum(size_N, devices - size_N + 1))
    cuts = half[(half > 0) & (2 * half <= devices)]
    if len(cuts) > CUTS:
        cuts = cuts[np.linspace(0, len(cuts) - 1, CUTS).astype(np.int64)]
    found: list[int] = cuts.tolist()
    return found


def _volumes(size_N: IntArray, devices: int) -> list[FloatArray]:
    """Return f(n / D) of each gang, for every f that is tried.

    Whole numbers until the last step, so that rounding makes no f too large.
    """
    found = []
    # U with a cut e: 1 above 1 - e, 0 below e, x between; a cut of 0 changes nothing.
    for cut in [0, *_cuts(size_N, devices)]:
        cut_N = np.where(size_N > devices - cut, devices, np.where(size_N < cut, 0, size_N))
        found.append(cut_N / devices)
        for parts in range(1, ROUNDINGS + 1):
            # u with k parts: x where (k + 1) x is a whole number, else floor((k + 1) x) / k.
            scaled_N = (parts + 1) * cut_N
            rounded_N = (scaled_N // devices) / parts
            found.append(np.where(scaled_N % devices == 0, cut_N / devices, rounded_N))
    return found
