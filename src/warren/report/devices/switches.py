"""How often devices went from one job to another, and what that took.

A simulation states the time that it charged. In a live run with real times it is measured: how much
longer the COMP of a task takes after a task of another job than after a task of its own job, in the
median, on devices of that type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from warren.model.costs import BoolArray, FloatArray, IntArray
from warren.model.timeline import Timeline
from warren.model.units import NS_PER_S, ns_to_seconds
from warren.report.record import Record


def switch_values(record: Record) -> dict[str, Any]:
    """Return the keys of ``summary.json`` about switching; none where times are padded or free.

    ``switches`` is how often a device went from one job to another; ``switching_s`` the device
    time, in cluster seconds, that this took; ``switch_s``, where measured, the median by job.
    """
    type_D = np.array(record.run.cluster.type_of_device, dtype=np.int64)
    line = record.history.timeline
    if record.costs.switch_ns_JT is not None:
        return counted(line, type_D, record.costs.switch_ns_JT)
    cluster = record.run.cluster
    if not record.live or cluster.emulate is not None or not cluster.is_scheduled:
        return {}
    return measured(line, type_D, [job.name for job in record.run.workload.jobs])


def counted(line: Timeline, type_D: IntArray, switch_ns_JT: IntArray) -> dict[str, float]:
    """Return ``switch_values`` of a timeline on devices of these types, where they are charged."""
    order, _, comes = _by_device(line)
    to_R = order[comes]
    # The time of a switch depends on the next job and on the device's type alone.
    time_ns = switch_ns_JT[line.job_R[to_R], type_D[line.device_R[to_R]]].sum()
    return {"switches": len(to_R), "switching_s": ns_to_seconds(int(time_ns))}


def measured(line: Timeline, type_D: IntArray, names: Sequence[str]) -> dict[str, Any]:
    """Return ``switch_values`` of a live timeline.

    A job none of whose tasks follows its own is left out. Tasks vary, so that a switch may come out
    below zero.
    """
    order, follows, comes = _by_device(line)
    mean_s = line.busy_ns_R[order] / np.maximum(line.tasks_R[order], 1) / NS_PER_S
    job, kind = line.job_R[order], type_D[line.device_R[order]]
    switch_s: dict[str, float] = {}
    all_s: list[float] = []
    for at, name in enumerate(names):
        longer_s = np.concatenate(
            [
                _longer_s(mean_s, line.tasks_R[order], (job == at) & (kind == one), follows, comes)
                for one in np.unique(type_D)
            ]
        )
        if len(longer_s):
            switch_s[name] = float(np.median(longer_s))
            all_s += longer_s.tolist()
    # Rounded once: it does not depend on the order of jobs and types.
    total_s = math.fsum(all_s)
    return {"switches": int(comes.sum()), "switching_s": total_s, "switch_s": switch_s}


def _longer_s(
    mean_s: FloatArray, tasks: IntArray, mine: BoolArray, follows: BoolArray, comes: BoolArray
) -> FloatArray:
    """Return how much longer assignments took that follow another job's; none without a median."""
    own_s = mean_s[mine & follows & ~comes]
    if not len(own_s):
        return own_s
    return (mean_s[mine & comes] - np.median(own_s)) * tasks[mine & comes]


def _by_device(line: Timeline) -> tuple[IntArray, BoolArray, BoolArray]:
    """Return the rows by device and then time, which follow one there, and one of another job.

    The first row of a device follows none.
    """
    order = np.lexsort((line.comp_end_ns_R, line.start_ns_R, line.device_R))
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = np.diff(line.device_R[order]) == 0
    comes = follows.copy()
    comes[1:] &= np.diff(line.job_R[order]) != 0
    return order, follows, comes
