"""Profile rows of a run's jobs, measured on this machine for a file that is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import Final

from warren.cli.measuring import failed_while_measured
from warren.cli.phases import Phase, PhaseFailed, Sample, run_phases
from warren.live.measure import alone, model_bytes
from warren.model.costs import ProfileRow
from warren.model.errors import SpecError
from warren.model.events import TasksDone
from warren.model.job import Job, Workload
from warren.model.run import Run
from warren.model.units import NS_PER_S
from warren.profile.costs import measured_key

PASSES: Final = 3
SCALE_MAX: Final = 4


def fresh_rows(run: Run, jobs: Sequence[Job], tasks: int, machine: str) -> tuple[ProfileRow, ...]:
    """A row for each of these jobs, measured over ``tasks`` tasks or a few more.

    Every job trains alone on one device of the real engine, under the core and with a journal, in
    rounds of its own scale but at most ``SCALE_MAX``. There are some passes over all jobs: a pass
    gives means, since a job's time is the sum of its tasks', and the median of the passes leaves
    out one that was disturbed. ``machine`` goes into the rows. Times are the run's: with emulation
    real seconds become cluster seconds.

    Raises
    ------
    SpecError
        If a job fails while it is measured.
    """
    scales = [min(job.scale, SCALE_MAX) for job in jobs]
    rounds = [-(-tasks // (PASSES * scale)) + 1 for scale in scales]
    copies = [
        alone(job, index=at, scale=scales[at], rounds=PASSES * rounds[at] + 2)
        for at, job in enumerate(jobs)
    ]
    cluster = replace(run.cluster, devices=run.cluster.devices[:1], emulate=None)
    by_itself = replace(run, cluster=cluster, workload=Workload(jobs=tuple(copies)))
    once = [_phase(at, 1) for at in range(len(jobs))]
    measured = [_phase(at, rounds[at]) for at in range(len(jobs))]
    with tempfile.TemporaryDirectory(prefix="warren-measure-") as above:
        try:
            phases = [*once, *PASSES * measured, *once]
            samples, _ = run_phases(by_itself, phases, lambda _: None, f"{above}/run")
        except PhaseFailed as error:
            raise SpecError(failed_while_measured(run, jobs[error.job], error.reason)) from None
        sizes = [model_bytes(f"{above}/run", copy) for copy in copies]
    kept = samples[len(jobs) : -len(jobs)]
    how = f"alone on one device, {tasks} tasks or a few more; {machine}"
    return tuple(
        _row(run, job, scales[at], sizes[at], kept[at :: len(jobs)], how)
        for at, job in enumerate(jobs)
    )


def _phase(job: int, rounds: int) -> Phase:
    return Phase(name=str(job), jobs=(job,), devices=1, rounds=rounds)


def _row(
    run: Run, job: Job, scale: int, size_bytes: int, samples: Sequence[Sample], how: str
) -> ProfileRow:
    emulate = run.cluster.emulate
    unit_ns = NS_PER_S * (emulate.time_scale if emulate is not None else 1.0)
    comp_ns = median(fmean(task.busy_ns for task in one.tasks) for one in samples)
    sync_ns = median(fmean(barriers_ns(one.tasks, scale)) for one in samples)
    own_ns = median(one.own_ns / len(one.tasks) for one in samples)
    varied = median(_variation([task.busy_ns for task in one.tasks]) for one in samples)
    types = run.cluster.type_names
    return ProfileRow(
        model=measured_key(job),
        batch=job.batch,
        model_bytes=size_bytes,
        memory_bytes=0,
        comp_s=dict.fromkeys(types, comp_ns / unit_ns),
        sync_s=dict.fromkeys(types, sync_ns / unit_ns),
        overhead_s=dict.fromkeys(types, own_ns / unit_ns),
        source={"all": f"median of {PASSES} means, {how}; tasks vary by {100 * varied:.0f} %"},
    )


def _variation(values: Sequence[int]) -> float:
    """The coefficient of variation."""
    return pstdev(values) / fmean(values)


def barriers_ns(tasks: Sequence[TasksDone], scale: int) -> list[int]:
    """From each round's last COMP end to the next one's first start, on one device."""
    ordered = sorted(tasks, key=lambda task: task.start_ns)
    pairs = list(pairwise(ordered))
    return [after.start_ns - before.comp_end_ns for before, after in pairs[scale - 1 :: scale]]
