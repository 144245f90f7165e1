"""The rows of a schedule as all list schedulers make them, which is a valid order of a plan.

Rows are int64 (5, R): job, first round, rounds, shard, device, in order of start.
"""

from __future__ import annotations

import numpy as np

from warren.solve.common.arrays import IntArray
from warren.solve.common.compile import inlined


@inlined
def write_row(
    rows: IntArray, count: IntArray, job: int, round_: int, rounds: int, shard: int, device: int
) -> None:
    """Append a row to a schedule that has ``count[0]`` rows; there must be room for it."""
    row = count[0]
    rows[0, row] = job
    rows[1, row] = round_
    rows[2, row] = rounds
    rows[3, row] = shard
    rows[4, row] = device
    count[0] = row + 1


def rows_of_tasks(job_I: IntArray, device_I: IntArray, scale_J: IntArray) -> IntArray:
    """Return the rows (5, I) of single tasks, whose rounds and shards follow from their order."""
    rows = np.ones((5, len(job_I)), np.int64)
    rows[0], rows[4] = job_I, device_I
    for job in np.unique(job_I):
        # Tasks of a round are alike: the k-th of a job is shard k mod n of round k / n.
        at_I = (job_I == job).nonzero()[0]
        rows[1, at_I], rows[3, at_I] = np.divmod(np.arange(len(at_I)), scale_J[job])
    return rows
