"""Preemptive WSPT on one machine of speed 1, with release dates: the mean busy times."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def mean_busy_times(release_J: Any, weight_J: Any, volume_J: Any) -> Any:
    """M_j of the schedule that always serves the released job of largest weight / volume.

    This minimises sum w_j M_j over all preemptive, fractional schedules (Goemans 1996). A job of
    no volume has M_j = release. Floats, in the unit of ``release_J``.
    """
    jobs = len(release_J)
    mean_J = release_J.copy()
    order = np.argsort(release_J)
    left_J = volume_J.copy()
    moment_J = np.zeros(jobs)
    waiting = [(0.0, 0)]
    waiting.pop()
    time, place = 0.0, 0
    while place < jobs or len(waiting) > 0:
        if len(waiting) == 0:
            time = max(time, release_J[order[place]])
        while place < jobs and release_J[order[place]] <= time:
            job = order[place]
            if volume_J[job] > 0:
                key = volume_J[job] / weight_J[job] if weight_J[job] > 0 else np.inf
                heappush(waiting, (key, job))
            place += 1
        if len(waiting) == 0:
            continue
        job = waiting[0][1]
        until = time + left_J[job]
        if place < jobs and release_J[order[place]] < until:
            until = release_J[order[place]]
            left_J[job] -= until - time
        else:
            left_J[job] = 0.0
            heappop(waiting)
        moment_J[job] += (until - time) * (until + time) / 2
        time = until
        if left_J[job] == 0.0:
            mean_J[job] = moment_J[job] / volume_J[job]
    return mean_J
