"""What a task costs on this machine, for jobs that have no row in the profile table."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from warren.live.controller import LivePort
from warren.model.costs import CostTable
from warren.model.events import JobFailed, TasksDone
from warren.model.job import Checkpoint, Job, Workload
from warren.model.plan import Assignment
from warren.model.run import Run
from warren.model.units import ns_to_seconds

_WARM: Final = 1
_NEVER: Final = Checkpoint(every=10**12)


@dataclass(frozen=True, slots=True)
class Taken:
    """Medians of a job alone, in real seconds on this machine; bytes of its parameters."""

    comp_s: float
    sync_s: float
    model_bytes: int


def measure(
    run: Run, jobs: Sequence[int], *, tasks: int = 3, scale_max: int = 1
) -> tuple[Mapping[int, Taken], Mapping[int, str]]:
    """What a task and a synchronisation of each job take, after one warm round.

    Every job trains alone on one device of the real engine, ``tasks`` tasks or a few more, in
    rounds of its own scale but at most ``scale_max``. What lies between the end of a round's last
    COMP and the start of the next round's first is its synchronisation: update out, barrier, next
    state in.

    Returns
    -------
    taken
        Job index to what was measured.
    reasons
        Of the jobs that failed: job index to what was wrong, in one line.
    """
    copies = tuple(
        _copy(run.workload.jobs[job], at, tasks, scale_max) for at, job in enumerate(jobs)
    )
    cluster = replace(run.cluster, devices=run.cluster.devices[:1], emulate=None)
    alone = replace(run, cluster=cluster, workload=Workload(jobs=copies))
    with tempfile.TemporaryDirectory(prefix="warren-measure-") as folder:
        rows, failed = _train(alone, folder)
        taken, reasons = {}, {}
        for at, (job, copy) in enumerate(zip(jobs, copies, strict=True)):
            if len(rows[at]) == copy.scale * (copy.rounds or 0):
                file = Path(folder) / "params" / f"{copy.name}.safetensors"
                taken[job] = _taken(rows[at], copy.scale, _tensor_bytes(file))
            else:
                reasons[job] = failed.get(at, "it did not end")
        return taken, reasons


def nothing_costs(run: Run) -> CostTable:
    """A table of zeros: what tasks cost is yet to be found out."""
    none = np.zeros((len(run.workload.jobs), len(run.cluster.types)), dtype=np.int64)
    return CostTable(comp_ns_JT=none, sync_ns_JT=none.copy(), fits_JT=none == 0)


def _copy(job: Job, index: int, tasks: int, scale_max: int) -> Job:
    scale = min(job.scale, scale_max)
    return replace(
        job,
        index=index,
        scale=scale,
        rounds=_WARM + -(-tasks // scale) + 1,
        arrival_ns=0,
        evaluate=None,
        stop=None,
        checkpoint=_NEVER,
    )


def _train(run: Run, folder: str) -> tuple[list[list[TasksDone]], dict[int, str]]:
    rows: list[list[TasksDone]] = [[] for _ in run.workload.jobs]
    failed: dict[int, str] = {}
    with LivePort(run, nothing_costs(run), folder) as port:
        port.submit(
            tuple(
                Assignment(0, job.index, round_no, 1, (shard,))
                for job in run.workload.jobs
                for round_no in range(job.rounds or 0)
                for shard in range(job.scale)
            )
        )
        while events := port.next_events():
            for event in events:
                if isinstance(event, TasksDone):
                    rows[event.job].append(event)
                elif isinstance(event, JobFailed):
                    failed[event.job] = event.reason
    return rows, failed


def _taken(rows: Sequence[TasksDone], scale: int, model_bytes: int) -> Taken:
    ordered = sorted(rows, key=lambda row: row.start_ns)
    warm = _WARM * scale
    comp = [row.busy_ns for row in ordered[warm:-scale]]
    gaps = [
        ordered[at].start_ns - ordered[at - 1].comp_end_ns
        for at in range(warm + scale, len(ordered), scale)
    ]
    comp_s, sync_s = ns_to_seconds(int(median(comp))), ns_to_seconds(int(median(gaps)))
    return Taken(comp_s, sync_s, model_bytes)


def _tensor_bytes(file: Path) -> int:
    """Bytes of the tensors in a safetensors file: all but its header."""
    with file.open("rb") as content:
        header_bytes = int.from_bytes(content.read(8), "little")
    return file.stat().st_size - 8 - header_bytes
