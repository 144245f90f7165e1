"""The times that tasks of a live run took, where nothing was padded: for averages of the history.

COMP is the time on the device, from handing the task to its trainer until the executor has the
answer. Synchronization is seen once a round, on the device of the task that ended last: from the
end of its COMP until the barrier has passed, so update out, sum and step, but not the next state
in, nor waiting for another task. Left out: a first round alone, as measuring leaves out its warm
task, and barriers that evaluate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warren.model.costs import IntArray
from warren.model.units import NS_PER_S
from warren.report.record import Record


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """The tasks that one assignment ran of a job on a device type (position on the type axis).

    ``end_ns`` is the cluster time when their last synchronization ended. ``comp_s`` is their mean
    COMP; ``sync_s`` the synchronization of the barrier that they were the last before, else None.
    Both are cluster seconds.
    """

    job: int
    type: int
    end_ns: int
    tasks: int
    comp_s: float
    sync_s: float | None


def task_times(record: Record) -> tuple[TaskTimes, ...]:
    """Return the times of all tasks that count, in the order in which they ended."""
    timeline, history = record.history.timeline, record.history
    type_D = record.run.cluster.type_of_device
    # A stretch has one barrier event, of its last round. A barrier that evaluates takes longer for
    # a reason that is no synchronization.
    barrier_ns = {
        (event.job, event.round + event.rounds - 1): event.barrier_ns
        for event in history.rounds
        if not event.metrics
    }
    last_R = timeline.round_R + timeline.rounds_R - 1
    # Ties in time are decided by device, job and shard, so that every reading of a journal gives
    # the same averages.
    place = (timeline.shard_R, timeline.job_R, timeline.device_R)
    order = np.lexsort((*place, timeline.comp_end_ns_R))
    final = _last_before_barrier(timeline.job_R, last_R, order)
    found = []
    for row in np.lexsort((*place, timeline.end_ns_R)).tolist():
        job, last = int(timeline.job_R[row]), int(last_R[row])
        tasks, comp_end_ns = int(timeline.tasks_R[row]), int(timeline.comp_end_ns_R[row])
        # The first round alone: its task warms up, like the task that measuring leaves out.
        if last == 0:
            continue
        at_ns = barrier_ns.get((job, last)) if final[job, last] == row else None
        found.append(
            TaskTimes(
                job=job,
                type=type_D[int(timeline.device_R[row])],
                end_ns=int(timeline.end_ns_R[row]),
                tasks=tasks,
                comp_s=int(timeline.busy_ns_R[row]) / tasks / NS_PER_S,
                sync_s=None if at_ns is None else max(0, at_ns - comp_end_ns) / NS_PER_S,
            )
        )
    return tuple(found)


def _last_before_barrier(
    job_R: IntArray, last_R: IntArray, order: IntArray
) -> dict[tuple[int, int], int]:
    """Return by job and round the row whose COMP ended last; ``order`` is by that end."""
    # Of rows with one key the last in order stays in the dict.
    jobs, lasts = job_R[order].tolist(), last_R[order].tolist()
    return dict(zip(zip(jobs, lasts, strict=True), order.tolist(), strict=True))
