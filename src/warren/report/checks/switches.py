"""Rules on switching, where it is charged: a device spends time when it goes to another job.

A live run's measured switches must follow from its timeline.

The time is spent from when the task could start otherwise: its device is free, its job has arrived
and the barrier of the round before has passed (decision 0016).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warren.model.costs import IntArray
from warren.report.checks.devices import visits_of
from warren.report.checks.fault import Fault, listed
from warren.report.checks.run_folder import SUMMARY, FolderTables
from warren.report.checks.tasks import groups_of
from warren.report.devices.switches import counted, measured


def check_switches(run: FolderTables) -> list[Fault]:
    """Return all faults of switches; none where nothing is charged or measured."""
    if run.switch_ns_JT is None:
        names = [job["job"] for job in run.jobs]
        told = "switch_s" in run.summary
        return _differing(run, measured(run.timeline, run.type_D, names)) if told else []
    visits = visits_of(run, by_end=False)
    job_V = run.timeline.job_R[visits.row_V]
    # A switch is a stay after one of another job on the same device; the first of a device is free.
    comes_V = np.zeros(len(job_V), dtype=bool)
    comes_V[1:] = (np.diff(job_V) != 0) & (np.diff(visits.device_V) == 0)
    # Start >= max(device free, barrier, arrival) + switch.
    before_ns_V = _ready_ns_R(run)[visits.row_V]
    before_ns_V[1:] = np.maximum(before_ns_V[1:], visits.comp_end_ns_V[:-1])
    least_ns_V = before_ns_V + run.switch_ns_JT[job_V, run.type_D[visits.device_V]]
    late = listed(
        comes_V & (visits.start_ns_V < least_ns_V - run.rules.slack_ns),
        lambda v: Fault(
            place=run.row(int(visits.row_V[v])),
            what=f"COMP starts at {visits.start_ns_V[v] / 1e9} s, too soon after another job's",
            expected=f"a start at or after {least_ns_V[v] / 1e9} s, with the switch of profile.csv",
        ),
    )
    return late + _differing(run, counted(run.timeline, run.type_D, run.switch_ns_JT))


def _ready_ns_R(run: FolderTables) -> IntArray:
    """Return when each row's first round may start at the earliest: arrival or barrier before."""
    groups = groups_of(run)
    ready_ns_G = run.arrival_ns_J[groups.job_G]
    # A barrier is never before the arrival, so for a job's later rounds it alone counts.
    ready_ns_G[1:] = np.where(groups.next_G[1:], groups.end_ns_G[:-1], ready_ns_G[1:])
    ready_ns_R = np.zeros(len(groups.row_R), dtype=np.int64)
    rows_G = np.diff(np.append(groups.first_G, len(groups.row_R)))
    ready_ns_R[groups.row_R] = np.repeat(ready_ns_G, rows_G)
    return ready_ns_R


def _differing(run: FolderTables, want: Mapping[str, Any]) -> list[Fault]:
    """Return the keys of ``summary.json`` that differ from the switches of the timeline."""
    return [
        Fault(place=f"{SUMMARY} {key}", what=f"is {run.summary.get(key)}", expected=f"{value}")
        for key, value in want.items()
        if run.summary.get(key) != value
    ]
