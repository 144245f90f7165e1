"""Preemptive WSPT on one machine of speed 1, with release dates: the mean busy times."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def mean_busy_delays(release_ns_J: Any, weight_J: Any, volume_s_J: Any) -> Any:
    """M_j - r_j (s) of the schedule that always serves the released job of largest w / volume.

    This minimises sum w_j M_j over all preemptive, fractional schedules (Goemans 1996). A job of
    no volume has a delay of 0. ``release_ns_J`` are int64; time is counted from the start of each
    busy period, so that a late release costs no precision: a delay is off by some rounding
    errors of its busy period's length, never of its date.
    """
    jobs = len(release_ns_J)
    delay_J = np.zeros(jobs)
    order = np.argsort(release_ns_J, kind="mergesort")
    left_J = volume_s_J.copy()
    moment_J = np.zeros(jobs)  # of the volume served, about the job's release
    waiting = [(0.0, 0)]
    waiting.pop()
    origin_ns, time, place = np.int64(0), 0.0, 0
    while place < jobs or len(waiting) > 0:
        if len(waiting) == 0:
            origin_ns, time = release_ns_J[order[place]], 0.0
        while place < jobs and (release_ns_J[order[place]] - origin_ns) / 1e9 <= time:
            job = order[place]
            if volume_s_J[job] > 0:
                key = volume_s_J[job] / weight_J[job] if weight_J[job] > 0 else np.inf
                heappush(waiting, (key, job))
            place += 1
        if len(waiting) == 0:
            continue
        job = waiting[0][1]
        served, is_done = left_J[job], True
        until = time + served
        if place < jobs:
            following = (release_ns_J[order[place]] - origin_ns) / 1e9
            if following < until:
                served, until, is_done = following - time, following, False
        left_J[job] -= served
        waited = time - (release_ns_J[job] - origin_ns) / 1e9
        moment_J[job] += served * (waited + served / 2)
        time = until
        if is_done:
            heappop(waiting)
            delay_J[job] = moment_J[job] / volume_s_J[job]
    return delay_J
