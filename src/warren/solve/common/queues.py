"""Several waiting lines, each a binary heap by (rank, who); ranks are unique."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.compile import kernel


class Queues(NamedTuple):
    """Line t has ``count_T[t]`` entries, the one of the lowest rank first."""

    rank_TN: Any
    job_TN: Any
    count_T: Any


def new_queues(lines: int, most: int) -> Queues:
    """Nobody waits; each line has room for ``most``."""
    return Queues(
        rank_TN=np.zeros((lines, most), np.int64),
        job_TN=np.zeros((lines, most), np.int64),
        count_T=np.zeros(lines, np.int64),
    )


@kernel
def enqueue(queues: Queues, line: int, rank: int, job: int) -> None:
    """Add a job to a line."""
    ranks, jobs = queues.rank_TN, queues.job_TN
    cell = queues.count_T[line]
    queues.count_T[line] += 1
    while cell > 0 and ranks[line, (cell - 1) // 2] > rank:
        ranks[line, cell] = ranks[line, (cell - 1) // 2]
        jobs[line, cell] = jobs[line, (cell - 1) // 2]
        cell = (cell - 1) // 2
    ranks[line, cell] = rank
    jobs[line, cell] = job


@kernel
def leave(queues: Queues, line: int) -> None:
    """The first of a line leaves it."""
    ranks, jobs = queues.rank_TN, queues.job_TN
    queues.count_T[line] -= 1
    stop = queues.count_T[line]
    rank, job = ranks[line, stop], jobs[line, stop]
    cell, child = 0, 1
    while child < stop:
        if child + 1 < stop and ranks[line, child + 1] < ranks[line, child]:
            child += 1
        if ranks[line, child] >= rank:
            break
        ranks[line, cell] = ranks[line, child]
        jobs[line, cell] = jobs[line, child]
        cell, child = child, 2 * child + 1
    ranks[line, cell] = rank
    jobs[line, cell] = job
