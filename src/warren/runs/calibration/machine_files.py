"""Texts of files that a calibration of this machine gives: overheads, and rows of profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warren.live.extras import need
from warren.live.measure.machine import processor
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.profile.cost_table import unpriced
from warren.profile.overheads import overheads_yaml
from warren.runs.calibration.busy_machine import told_busy_share
from warren.runs.calibration.engine_overheads import calibrate
from warren.runs.calibration.profile_rows import fresh_rows
from warren.runs.check_apps import check_apps
from warren.runs.inputs import named_after, run_of
from warren.runs.notices import say
from warren.workload.specs.write import dump_profiles


def overheads_text(*, pin: bool = False) -> str:
    """Measure the live engine of this machine; return the file that ``overheads:`` names.

    ``pin``: devices are pinned to cores, as ``local: {pin: true}`` of a cluster does. Raises
    SpecError if PyTorch is not installed, and EngineError if a process of Warren's own does not
    come up.
    """
    need("live")
    # Before the calibration, since its own processes keep the cores busy.
    share = told_busy_share()
    say("calibrating the live engine of this machine; other work on it spoils the figures")
    found = calibrate(pin=pin, progress=lambda at, of: say(f"repeat {at} of {of}"))
    facts = {**found.facts, "busy_before": round(share, 2)}
    return overheads_yaml(found.found, found.cores, facts)


def profile_rows_text(
    path: str, tasks: int, overrides: Sequence[str] = (), *, pin: bool = False
) -> str:
    """Measure the jobs of a run file on this machine; return the text of a ``profiles:`` file.

    ``tasks`` tasks of each job are measured, or a few more. ``overrides``: ``KEY=VALUE`` each, as
    for ``--set``. ``pin``: devices are pinned to cores, whatever the run's cluster says. Raises
    SpecError if the run is wrong, has no job to measure, or one of them fails.
    """
    run = run_of(path, None, overrides)
    if pin:
        cluster = replace(run.cluster, local=replace(run.cluster.local, pin=True))
        run = replace(run, cluster=cluster)
    with named_after(path, run):
        chosen = _unpriced(run)
        need("live")
        busy = f"{100 * told_busy_share():.0f} % busy with other work before"
        pinned = ", pinned" if run.cluster.local.pin else ""
        say(f"measuring {tasks} tasks of {', '.join(job.name for job in chosen)}")
        rows = fresh_rows(run, chosen, tasks, f"{processor()}{pinned}, {busy}")
    return dump_profiles(rows, "Made by `warren calibrate --local --jobs`, in cluster seconds.")


def _unpriced(run: Run) -> list[Job]:
    """Return the jobs that a measurement can price: with an app, and no model or cost."""
    jobs = [job for job in run.workload.jobs if unpriced(job)]
    if not jobs:
        message = "nothing to measure: no job has an app without model and cost"
        raise SpecError(Problem(file=run.name, field="workload.jobs", message=message))
    # Only these must be trainable: the run may have others that can only be simulated.
    check_apps(replace(run, workload=replace(run.workload, jobs=tuple(jobs))))
    return jobs
