"""The free time of each device, as a list of gaps that is searched from the earliest on."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import IntArray
from warren.solve.common.compile import inlined

FOREVER: Final = 1 << 61
"""End of the last gap of a device (ns); twice as much still fits int64."""


class FreeIntervals(NamedTuple):
    """The gaps G of all devices, linked in order of time, behind a sentinel for each device."""

    start_ns_G: IntArray
    end_ns_G: IntArray
    next_G: IntArray
    head_D: IntArray  # the sentinel
    before_D: IntArray  # the gap before the first one long enough for the present job
    at_D: IntArray  # the gap before the one found last
    tail_D: IntArray  # the gap that never ends
    count: Any  # IntArray; a tuple's method has this name


def new_gaps(devices: int, taken: int) -> FreeIntervals:
    """Make the gaps of devices that are free from 0 on; room for ``taken`` calls of ``take``."""
    # Device d has its sentinel at 2 d and one endless gap at 2 d + 1. A call of ``take`` splits one
    # gap at most.
    start_ns_G = np.zeros(2 * devices + taken, np.int64)
    end_ns_G, next_G = np.zeros_like(start_ns_G), np.full_like(start_ns_G, -1)
    end_ns_G[1 : 2 * devices : 2] = FOREVER
    next_G[: 2 * devices : 2] = np.arange(1, 2 * devices, 2)
    return FreeIntervals(
        start_ns_G=start_ns_G,
        end_ns_G=end_ns_G,
        next_G=next_G,
        head_D=np.arange(0, 2 * devices, 2),
        before_D=np.zeros(devices, np.int64),
        at_D=np.zeros(devices, np.int64),
        tail_D=np.arange(1, 2 * devices, 2),
        count=np.array([2 * devices], np.int64),
    )


@inlined
def rewind(gaps: FreeIntervals) -> None:
    """Search from each device's first gap again, for another job."""
    for device in range(len(gaps.head_D)):
        gaps.before_D[device] = gaps.head_D[device]


@inlined
def fit(gaps: FreeIntervals, device: int, ready_ns: int, hold_ns: int, new: bool) -> int:
    """Return when, from ``ready_ns`` on, the device is first free for ``hold_ns``.

    A job's stretches start later and later and none is longer than the first, so gaps that one
    could not use are forgotten (``new``); else the search goes on from the gap found last, and
    times must not fall from call to call.
    """
    before = gaps.before_D[device] if new else gaps.at_D[device]
    gap = gaps.next_G[before]
    while max(ready_ns, gaps.start_ns_G[gap]) + hold_ns > gaps.end_ns_G[gap]:
        before, gap = gap, gaps.next_G[gap]
    gaps.at_D[device] = before
    if new:
        gaps.before_D[device] = before
    return int(max(ready_ns, gaps.start_ns_G[gap]))


@inlined
def take(gaps: FreeIntervals, device: int, start_ns: int, end_ns: int) -> None:
    """Take a time out of the gap of the device that was found last, in which it must lie."""
    before = gaps.at_D[device]
    gap = gaps.next_G[before]
    # The rest of the gap: a part before and maybe one behind, one behind, or nothing.
    if gaps.start_ns_G[gap] < start_ns:
        if end_ns < gaps.end_ns_G[gap]:
            rest = gaps.count[0]
            gaps.count[0] += 1
            gaps.start_ns_G[rest], gaps.end_ns_G[rest] = end_ns, gaps.end_ns_G[gap]
            gaps.next_G[rest], gaps.next_G[gap] = gaps.next_G[gap], rest
            # The part behind an endless gap's cut is the endless one now.
            if gaps.tail_D[device] == gap:
                gaps.tail_D[device] = rest
        gaps.end_ns_G[gap] = start_ns
    elif end_ns < gaps.end_ns_G[gap]:
        gaps.start_ns_G[gap] = end_ns
    else:
        gaps.next_G[before] = gaps.next_G[gap]
