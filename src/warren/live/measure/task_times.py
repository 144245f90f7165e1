"""The cost of a task on this machine, for jobs that have no row in the profile table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from warren.live.control.local_engine import LivePort
from warren.live.process.scratch import ScratchFolder
from warren.live.process.specs import TrainerRole
from warren.model.cluster import PROCESSOR, Cluster, DeviceType
from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import JobFailed, RoundsDone, TasksDone
from warren.model.job import Checkpoint, Evaluate, Job, Workload
from warren.model.run import Run
from warren.model.units import ns_to_seconds

_WARM: Final = 1
"""First rounds that are not counted: they begin slowly."""
_LAST: Final = 2
"""Last rounds that are not counted.

The last one is assigned after a look at the job's memory, and so late.
"""
_NEVER: Final = Checkpoint(every=10**12)
"""A checkpoint that no measured job reaches."""


@dataclass(frozen=True, slots=True)
class MeasuredTasks:
    """Medians of a job alone, in real seconds on this machine; bytes of its parameters.

    ``memory_bytes``: memory that its trainer does not share with other processes; 0: unknown.
    """

    comp_s: float
    sync_s: float
    model_bytes: int
    memory_bytes: int = 0


def measure(
    run: Run, jobs: Sequence[int], tasks: int = 3
) -> tuple[Mapping[int, MeasuredTasks], Mapping[int, str]]:
    """Measure the median seconds of COMP and of synchronization of each job.

    Every job trains alone, one task a round, on one device of the real engine. The time between the
    end of a task's COMP and the start of the next round's is its synchronization: update out,
    barrier, next state in. Memory is the trainer's after the last task but one: freed memory stays
    with it.

    Parameters
    ----------
    run
        The run whose jobs are measured; its devices and their emulation do not matter.
    jobs
        Indices of jobs.
    tasks
        Number of tasks of each job that count.

    Returns
    -------
    taken
        Job index to its measurement.
    reasons
        Job index to the error in one line, for jobs that failed.
    """
    rounds = _WARM + tasks + _LAST
    copies = []
    for at, job in enumerate(jobs):
        copies.append(alone(run.workload.jobs[job], index=at, scale=1, rounds=rounds))
    cluster = by_one_device(run.cluster)
    by_itself = replace(run, cluster=cluster, workload=Workload(jobs=tuple(copies)), verify=0.0)
    with ScratchFolder("warren-measure-") as scratch:
        folder = str(scratch)
        rows, failed, memory = _train(by_itself, folder)
        taken, reasons = {}, {}
        for at, (job, copy) in enumerate(zip(jobs, copies, strict=True)):
            if len(rows[at]) == rounds:
                taken[job] = replace(
                    _taken(rows[at], model_bytes(folder, copy)),
                    memory_bytes=memory.get(at, 0),
                )
            else:
                reasons[job] = failed.get(at, "it did not end")
        return taken, reasons


def by_one_device(cluster: Cluster) -> Cluster:
    """Return the cluster with its first device alone, as this machine has it.

    If devices are emulated, that device is a processor, whatever GPUs are here.
    """
    device, types = cluster.devices[0], cluster.types
    if cluster.emulate is not None:
        device, types = replace(device, type=PROCESSOR), (DeviceType(name=PROCESSOR),)
    return replace(cluster, devices=(device,), types=types, emulate=None)


def nothing_costs(run: Run) -> CostTable:
    """Return a table of zeros for a run: the costs of its tasks are still unknown."""
    none = np.zeros((len(run.workload.jobs), len(run.cluster.types)), dtype=np.int64)
    return CostTable(comp_ns_JT=none, sync_ns_JT=none.copy(), fits_JT=none == 0)


def alone(job: Job, *, index: int, scale: int, rounds: int) -> Job:
    """Return a job for measurement: from the beginning, without occasional work.

    A job that evaluates does so at its end: an app with ``finished`` needs that. A ring is measured
    as a job with a server: its tasks are the same.
    """
    return replace(
        job,
        index=index,
        sync="ps",
        scale=scale,
        rounds=rounds,
        arrival_ns=0,
        evaluate=None if job.evaluate is None else Evaluate(every=rounds),
        stop=None,
        checkpoint=_NEVER,
    )


def _train(run: Run, folder: str) -> tuple[list[list[TasksDone]], dict[int, str], dict[int, int]]:
    """Train the jobs of a run; return tasks, reasons of failures and bytes of trainers, by job."""
    rows: list[list[TasksDone]] = [[] for _ in run.workload.jobs]
    failed: dict[int, str] = {}
    memory: dict[int, int] = {}
    todo = list(run.workload.jobs)
    with LivePort(run, nothing_costs(run), folder) as port:
        # One after the other, each until all rounds except the last are done: its trainer still
        # exists when its memory is looked at, however busy this process is.
        _submit(port, todo.pop(0), last=False)
        while events := port.next_events():
            for event in events:
                if isinstance(event, TasksDone):
                    rows[event.job].append(event)
                    # The last round but one is done: the trainer is idle, and ends with the last.
                    if event.round + 2 == run.workload.jobs[event.job].rounds:
                        memory[event.job] = _memory_bytes(port, event.job)
                        _submit(port, run.workload.jobs[event.job], last=True)
                elif isinstance(event, JobFailed):
                    failed[event.job] = event.reason
                over = isinstance(event, JobFailed) or (
                    isinstance(event, RoundsDone) and event.finished
                )
                if over and todo:
                    _submit(port, todo.pop(0), last=False)
    return rows, failed, memory


def _submit(port: LivePort, job: Job, *, last: bool) -> None:
    """Assign the last round of a job to the one device, or all rounds but that."""
    rounds = job.rounds or 0
    numbers = range(rounds - 1, rounds) if last else range(rounds - 1)
    port.submit(tuple(Assignment(0, job.index, number, 1, (0,)) for number in numbers))


def _memory_bytes(port: LivePort, job: int) -> int:
    """Return the bytes that the job's trainer wrote to and shares with no other process."""
    for pid, role in port.processes().items():
        if isinstance(role, TrainerRole) and role.job.index == job:
            return _private_bytes(pid)
    return 0


def _private_bytes(pid: int) -> int:
    """Return the bytes that a process wrote to and shares with no other; 0: unknown."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # gone, or not to be looked at
        return 0
    lines = (line.split() for line in text.splitlines())
    return sum(1024 * int(line[1]) for line in lines if line[0] == "Private_Dirty:")


def model_bytes(folder: str, job: Job) -> int:
    """Return the bytes of the parameters that a finished job left in a run's folder."""
    # A safetensors file: 8 bytes that give the size of the header, the header, the tensors.
    file = Path(folder) / "params" / f"{job.name}.safetensors"
    with file.open("rb") as content:
        header_bytes = int.from_bytes(content.read(8), "little")
    return file.stat().st_size - 8 - header_bytes


def _taken(rows: Sequence[TasksDone], size_bytes: int) -> MeasuredTasks:
    """Return the medians of a job's tasks, one a round."""
    counted = rows[_WARM:-_LAST]
    comp = [row.busy_ns for row in counted]
    # From the end of one COMP to the start of the next: the last counted one has a successor too.
    gaps = [
        after.start_ns - before.comp_end_ns
        for before, after in zip(counted, rows[_WARM + 1 :], strict=False)
    ]
    comp_s, sync_s = ns_to_seconds(int(median(comp))), ns_to_seconds(int(median(gaps)))
    return MeasuredTasks(comp_s, sync_s, size_bytes)
