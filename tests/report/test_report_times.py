"""What tasks of a live run took is told by task, and synchronization by barrier."""

from __future__ import annotations

import numpy as np
import pytest
from report_world import MS, S, cluster_of

from warren.core.journal import Header
from warren.core.journal_reader import History
from warren.model.costs import CostTable
from warren.model.events import RoundsDone, TasksDone
from warren.model.job import Job, Workload
from warren.model.run import Run
from warren.model.timeline import Timeline
from warren.report.record import Record
from warren.report.task_times import TaskTimes, task_times


def record(done: list[TasksDone], rounds: list[RoundsDone]) -> Record:
    """Two jobs on a V100 (device 0) and a T4 (device 1)."""
    cluster = cluster_of((1, 1))
    jobs = tuple(Job(index=k, name=f"j{k}", scale=2, rounds=3) for k in range(2))
    names = tuple(device.name for device in cluster.devices)
    header = Header(run="r", world="live", place="", grain="1", seed=0, jobs=("j0", "j1"),
                    devices=names)  # fmt: skip
    history = History(
        header=header,
        timeline=Timeline.from_events(done),
        finish_ns_J=np.full(2, -1, dtype=np.int64),
        rounds=rounds,
    )
    none = np.ones((2, 2), dtype=np.int64)
    costs = CostTable(comp_ns_JT=none, sync_ns_JT=none.copy(), fits_JT=none == 1)
    run = Run(name="r", cluster=cluster, workload=Workload(jobs=jobs))
    return Record(run=run, history=history, costs=costs)


def task(
    job: int, round_no: int, shard: int, device: int, start_ms: int, comp_ms: int
) -> TasksDone:
    start_ns, comp_ns = start_ms * MS, comp_ms * MS
    end_ns = start_ns + comp_ns
    return TasksDone(end_ns + 1, job, round_no, 1, (shard,), device, start_ns, end_ns, comp_ns)


def test_a_barrier_learns_of_the_task_that_ended_last_before_it() -> None:
    done = [
        task(0, 0, 0, 0, 0, 90), task(0, 0, 1, 1, 0, 95),  # a first round: not looked at
        task(0, 1, 0, 0, 100, 10), task(0, 1, 1, 1, 100, 30),
        task(0, 2, 0, 0, 140, 50), task(0, 2, 1, 1, 140, 20),
    ]  # fmt: skip
    rounds = [
        RoundsDone(98 * MS, 0, 0, 1, False),
        RoundsDone(135 * MS, 0, 1, 1, False),
        RoundsDone(300 * MS, 0, 2, 1, True, passed_ns=197 * MS),
    ]
    assert task_times(record(done, rounds)) == (
        TaskTimes(0, 0, 110 * MS + 1, 1, 0.010, None),
        TaskTimes(0, 1, 130 * MS + 1, 1, 0.030, 0.005),
        TaskTimes(0, 1, 160 * MS + 1, 1, 0.020, None),
        TaskTimes(0, 0, 190 * MS + 1, 1, 0.050, 0.007),
    )


def test_a_barrier_that_evaluates_or_has_not_passed_tells_nothing_of_synchronization() -> None:
    done = [task(1, 1, 0, 0, 0, 10), task(1, 2, 0, 0, 50, 10)]
    rounds = [RoundsDone(40 * MS, 1, 1, 1, False, metrics=(("accuracy", 0.5),))]
    assert [one.sync_s for one in task_times(record(done, rounds))] == [None, None]


def test_tasks_that_were_assigned_together_share_their_mean() -> None:
    busy_ns = 2 * S
    stretch = TasksDone(9 * S, 0, 4, 10, (0, 1), 0, 0, 8 * S, busy_ns)
    (one,) = task_times(record([stretch], [RoundsDone(8 * S + MS, 0, 13, 1, True)]))
    assert (one.tasks, one.comp_s) == (20, 0.1)
    assert one.sync_s == pytest.approx(0.001)


def test_a_run_that_has_done_nothing_tells_nothing() -> None:
    assert task_times(record([], [])) == ()
