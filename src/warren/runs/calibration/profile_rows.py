"""Profile rows of a run's jobs, measured on this machine for a file that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from statistics import fmean, median, pstdev
from typing import Final

from warren.live.measure.task_times import alone, by_one_device, model_bytes
from warren.live.process.scratch import ScratchFolder
from warren.model.costs import ProfileRow
from warren.model.errors import SpecError
from warren.model.events import TasksDone
from warren.model.job import Job, Workload
from warren.model.run import Run
from warren.model.units import NS_PER_S
from warren.profile.cost_table import measured_key
from warren.runs.calibration.phases import CalibrationPhase, PhaseFailed, Sample, run_phases
from warren.runs.profiles.measured_rows import failed_while_measured

PASSES_MIN: Final = 3
PASSES_MAX: Final = 9
TASKS_A_PASS: Final = 15
"""Tasks of a pass: few, so that a machine whose speed drifts has one speed in all of a pass."""
TOGETHER: Final = 3
"""Rounds that a job's turn has: one task after another job's, and some after its own."""
SCALE_MAX: Final = 4
"""Tasks that a round has at most while it is measured."""


def fresh_rows(run: Run, jobs: Sequence[Job], tasks: int, machine: str) -> tuple[ProfileRow, ...]:
    """Measure a row for each of these jobs, over ``tasks`` tasks or a few more.

    Every job trains alone on one device of the real engine, under the core and with a journal, in
    rounds of its own scale but at most ``SCALE_MAX``. There are some passes over all jobs. A pass
    gives means, since a job's time is the sum of its tasks'; the median of the passes leaves out a
    disturbed pass. In each pass all jobs also take turns. The extra time of the first task of a
    turn is the time of a switch: one for all, since single tasks vary by more. The processor time
    of a job's trainer before the first pass, in which it builds the app and rehearses a task, is
    the time to build the app. ``machine`` goes into the rows. Times are the run's: with emulation
    real seconds become cluster seconds. Raises SpecError if a job fails while it is measured.
    """
    # In a pass job ``at`` runs ``rounds[at]`` rounds alone and ``turns`` rounds in turn with the
    # others. It also runs one round before the first pass and one after the last.
    scales = [min(job.scale, SCALE_MAX) for job in jobs]
    passes = min(max(tasks // TASKS_A_PASS, PASSES_MIN), PASSES_MAX)
    turns = TOGETHER * max(1, tasks // (PASSES_MAX * TOGETHER))
    rounds = [-(-tasks // (passes * scale)) + 1 for scale in scales]
    copies = [
        alone(
            job,
            index=at,
            scale=scales[at],
            rounds=passes * (rounds[at] + turns) + 2,
        )
        for at, job in enumerate(jobs)
    ]
    cluster = by_one_device(run.cluster)
    by_itself = replace(run, cluster=cluster, workload=Workload(jobs=tuple(copies)))
    once = [_phase(at, 1) for at in range(len(jobs))]
    every = tuple(range(len(jobs)))
    in_turn = CalibrationPhase(
        name="in turn", jobs=every, devices=1, rounds=turns, together=TOGETHER
    )
    a_pass = [*(_phase(at, rounds[at]) for at in every), in_turn]
    with ScratchFolder("warren-measure-") as above:
        try:
            phases = [*once, *passes * a_pass, *once]
            samples, _, built_ns = run_phases(
                by_itself, phases, lambda _: None, f"{above}/run", warm=True
            )
        except PhaseFailed as error:
            raise SpecError(failed_while_measured(run, jobs[error.job], error.reason)) from None
        sizes = [model_bytes(f"{above}/run", copy) for copy in copies]
    # Without the single rounds at both ends.
    kept = samples[len(jobs) : -len(jobs)]
    how = f"alone on one device, {tasks} tasks or a few more; {machine}"
    switch_ns = switch_time_ns([one.tasks for one in kept if one.phase == in_turn])
    rows = (
        _row(run, job, scales[at], sizes[at], kept[at :: len(a_pass)], how)
        for at, job in enumerate(jobs)
    )
    built = (with_build(run, row, built_ns.get(at)) for at, row in enumerate(rows))
    return tuple(_with_switch(run, row, switch_ns) for row in built)


def _phase(job: int, rounds: int) -> CalibrationPhase:
    """Make a phase of one job alone on one device."""
    return CalibrationPhase(name=str(job), jobs=(job,), devices=1, rounds=rounds)


def _row(
    run: Run, job: Job, scale: int, size_bytes: int, samples: Sequence[Sample], how: str
) -> ProfileRow:
    """Return the row of a job: medians, over passes, of means over the tasks of a pass."""
    unit_ns = _second_ns(run)
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
        source={"all": f"median of {len(samples)} means, {how}; tasks vary by {varied:.0%}"},
    )


def with_build(run: Run, row: ProfileRow, build_ns: float | None) -> ProfileRow:
    """Return the row with the measured time to build the job's app.

    None: for lack of memory there was no trainer to look at; the row stays unchanged.
    """
    if build_ns is None:
        return row
    return replace(row, build_s=dict.fromkeys(row.comp_s, build_ns / _second_ns(run)))


def _with_switch(run: Run, row: ProfileRow, switch_ns: float | None) -> ProfileRow:
    """Return the row with the measured time of a switch; None: none was measured."""
    if switch_ns is None:
        return row
    return replace(row, switch_s=dict.fromkeys(row.comp_s, switch_ns / _second_ns(run)))


def _second_ns(run: Run) -> float:
    """Return the real nanoseconds of a second of the cluster."""
    emulate = run.cluster.emulate
    return NS_PER_S * (emulate.time_scale if emulate is not None else 1.0)


def switch_time_ns(samples: Sequence[Sequence[TasksDone]]) -> float | None:
    """Return the extra time of a task after another job's task on one device; None: no such task.

    This is the first task's time less the mean of the others': over all turns the mean of the
    middle half, at least 0. Both times are of one second, so a machine that becomes slower
    meanwhile does not count.
    """
    longer = []
    for tasks in samples:
        ordered = sorted(tasks, key=lambda task: task.start_ns)
        turns = [list(turn) for _, turn in groupby(ordered, key=lambda task: task.job)]
        # The very first turn has no task of another job before it.
        for first, *others in turns[1:]:
            if others:
                longer.append(first.busy_ns - fmean(task.busy_ns for task in others))
    # The middle half leaves out turns in which the machine was disturbed.
    quarter = len(longer) // 4
    middle = sorted(longer)[quarter : len(longer) - quarter]
    return max(0.0, fmean(middle)) if middle else None


def _variation(values: Sequence[int]) -> float:
    """Return the coefficient of variation: standard deviation by mean."""
    return pstdev(values) / fmean(values)


def barriers_ns(tasks: Sequence[TasksDone], scale: int) -> list[int]:
    """Return the times from each round's last COMP end to the next one's start, on one device."""
    ordered = sorted(tasks, key=lambda task: task.start_ns)
    pairs = list(pairwise(ordered))
    # A round has ``scale`` tasks, so every ``scale``-th pair of neighbors spans a barrier.
    return [after.start_ns - before.comp_end_ns for before, after in pairs[scale - 1 :: scale]]
