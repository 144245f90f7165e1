"""Jobs in order of (key, index), in an array of fixed size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.compile import kernel


class Ready(NamedTuple):
    """The first ``count[0]`` entries of ``job_N`` are in use."""

    job_N: Any
    count: Any


def new_ready(jobs: int) -> Ready:
    """Nobody is ready."""
    return Ready(job_N=np.zeros(jobs, np.int64), count=np.zeros(1, np.int64))


@kernel
def add(ready: Ready, key_J: Any, job: int) -> None:
    """Insert a job that is not among them."""
    job_N = ready.job_N
    low, high = 0, ready.count[0]
    while low < high:
        middle = (low + high) // 2
        other = job_N[middle]
        if key_J[other] < key_J[job] or (key_J[other] == key_J[job] and other < job):
            low = middle + 1
        else:
            high = middle
    for place in range(ready.count[0], low, -1):
        job_N[place] = job_N[place - 1]
    job_N[low] = job
    ready.count[0] += 1


@kernel
def remove(ready: Ready, place: int) -> None:
    """Take out the job at ``place``."""
    ready.count[0] -= 1
    for later in range(place, ready.count[0]):
        ready.job_N[later] = ready.job_N[later + 1]
