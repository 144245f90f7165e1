"""What a task costs on this machine, for jobs that have no row in the profile table."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final, TypeAlias

import numpy as np

from warren.live.controller import LivePort
from warren.model.costs import CostTable
from warren.model.events import JobFailed, TasksDone
from warren.model.job import Workload
from warren.model.plan import Assignment
from warren.model.run import Run
from warren.model.units import ns_to_seconds

_WARM: Final = 1
_TASKS: Final = 3


Times: TypeAlias = dict[int, tuple[float, float]]


def measure(run: Run, jobs: Sequence[int]) -> tuple[Times, dict[int, str]]:
    """Median seconds of COMP and of synchronisation, after one warm task, of each job.

    Every job trains alone, one task a round, on one device of the real engine; what lies between
    the end of a task's COMP and the start of the next round's is its synchronisation: update out,
    barrier, next state in.

    Returns
    -------
    times
        Job index to (comp_s, sync_s), in real seconds on this machine.
    reasons
        Of the jobs that failed: job index to what was wrong, in one line.
    """
    rounds = _WARM + _TASKS + 1
    copies = tuple(
        replace(
            run.workload.jobs[job],
            index=at,
            scale=1,
            rounds=rounds,
            arrival_ns=0,
            evaluate=None,
            stop=None,
            checkpoint=None,
        )
        for at, job in enumerate(jobs)
    )
    cluster = replace(run.cluster, devices=run.cluster.devices[:1], emulate=None)
    alone = replace(run, cluster=cluster, workload=Workload(jobs=copies))
    rows, failed = _train(alone, rounds)
    whole = {at: job for at, job in enumerate(jobs) if len(rows[at]) == rounds}
    return (
        {job: _medians(rows[at]) for at, job in whole.items()},
        {job: failed.get(at, "it did not end") for at, job in enumerate(jobs) if at not in whole},
    )


def _train(run: Run, rounds: int) -> tuple[list[list[TasksDone]], dict[int, str]]:
    count = len(run.workload.jobs)
    shape = (count, len(run.cluster.types))
    none = np.zeros(shape, dtype=np.int64)
    costs = CostTable(
        comp_ns_JT=none, sync_ns_JT=none.copy(), fits_JT=np.ones(shape, dtype=np.bool_)
    )
    rows: list[list[TasksDone]] = [[] for _ in range(count)]
    failed: dict[int, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="warren-measure-") as folder,
        LivePort(run, costs, folder) as port,
    ):
        port.submit(
            tuple(Assignment(0, job, r, 1, (0,)) for job in range(count) for r in range(rounds))
        )
        while events := port.next_events():
            for event in events:
                if isinstance(event, TasksDone):
                    rows[event.job].append(event)
                elif isinstance(event, JobFailed):
                    failed[event.job] = event.reason
    return rows, failed


def _medians(rows: Sequence[TasksDone]) -> tuple[float, float]:
    comp = [row.busy_ns for row in rows[_WARM : _WARM + _TASKS]]
    gaps = [
        after.start_ns - before.comp_end_ns
        for before, after in zip(rows[_WARM:], rows[_WARM + 1 :], strict=False)
    ]
    return ns_to_seconds(int(median(comp))), ns_to_seconds(int(median(gaps)))
