"""Costs of jobs without a profile row: three tasks on this machine, remembered between runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from warren.cli.apps import app_path
from warren.cli.commands.inputs import say
from warren.cli.files import read, write_atomic
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.profile.cache import Measured, cache_key, decode_cache, encode_cache, measured_row
from warren.profile.costs import measured_key, missing

CACHE: Final = "costs.json"
_NOTHING_S: Final = 1e-9
_ADVICE: Final = "`warren check JOB.yaml` tries it alone"


def cache_file() -> Path:
    """Where measured costs are kept: ``$XDG_CACHE_HOME/warren/costs.json``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "warren" / CACHE


def measured_rows(run: Run) -> Mapping[str, ProfileRow]:
    """A row for each job that needs one, measured now or found in the cache.

    Every device of this engine runs on this machine's processor, so one measurement holds for
    all device types; with emulation its real seconds become cluster seconds.

    Raises
    ------
    SpecError
        If an app's file cannot be read, or a job fails while it is measured.
    """
    jobs = [run.workload.jobs[index] for index in missing(run)]
    path = cache_file()
    known = _load(path)
    keys = {job.index: _key(run, job) for job in jobs}
    new = [job for job in jobs if keys[job.index] not in known]
    if new:
        known.update({keys[index]: cost for index, cost in _measure(run, new).items()})
        _store(path, known)
    scale = run.cluster.emulate.time_scale if run.cluster.emulate else 1.0
    rows = {}
    for job in jobs:
        cost = _unscaled(known[keys[job.index]], scale)
        rows[measured_key(job)] = measured_row(job, dict.fromkeys(run.cluster.type_names, cost))
    return rows


def placeholder_rows(run: Run) -> Mapping[str, ProfileRow]:
    """A row without meaning for each such job: ``engine: plain`` decides nothing from costs."""
    cost = Measured(comp_s=_NOTHING_S, model_bytes=0, sync_s=0.0)
    by_type = dict.fromkeys(run.cluster.type_names, cost)
    jobs = [run.workload.jobs[index] for index in missing(run)]
    source = {f"comp.{kind}": "placeholder, not measured" for kind in by_type}
    return {measured_key(job): replace(measured_row(job, by_type), source=source) for job in jobs}


def _key(run: Run, job: Job) -> str:
    from warren.live.training.numerics import numerics_class

    assert job.app is not None
    path = app_path(job.app, run.base)
    try:
        source = read(path)
    except OSError as error:
        message = f"{job.app}: cannot be read: {path}: {error}"
        raise SpecError(_problem(run, job, message, "app")) from None
    return cache_key(source, job, "this machine", numerics_class())


def _measure(run: Run, jobs: Sequence[Job]) -> dict[int, Measured]:
    from warren.live.measure import measure

    names = ", ".join(job.name for job in jobs)
    say(f"measuring three tasks of {names} (no profile row)")
    found, reasons = measure(run, [job.index for job in jobs])
    if reasons:
        raise SpecError(
            failed_while_measured(run, job, reasons[job.index])
            for job in jobs
            if job.index in reasons
        )
    return {
        index: Measured(comp_s=one.comp_s, model_bytes=one.model_bytes, sync_s=one.sync_s)
        for index, one in found.items()
    }


def failed_while_measured(run: Run, job: Job, reason: str) -> Problem:
    """A job's app failed before anything was scheduled."""
    return _problem(run, job, f"failed while its cost was measured: {reason}; {_ADVICE}")


def _problem(run: Run, job: Job, message: str, field: str = "") -> Problem:
    name = ": ".join(part for part in (f"job {job.name}", field) if part)
    return Problem(file=job.source or run.name, field=name, message=message)


def _unscaled(cost: Measured, time_scale: float) -> Measured:
    sync_s = None if cost.sync_s is None else cost.sync_s / time_scale
    return Measured(
        comp_s=cost.comp_s / time_scale,
        model_bytes=cost.model_bytes,
        memory_bytes=cost.memory_bytes,
        sync_s=sync_s,
    )


def _load(path: Path) -> dict[str, Measured]:
    """The cache; a damaged one counts as empty, since everything in it can be measured again."""
    try:
        return dict(decode_cache(path.read_bytes(), str(path)))
    except (OSError, SpecError):
        return {}


def _store(path: Path, known: Mapping[str, Measured]) -> None:
    """Keep what was measured; a cache that cannot be written only costs time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, encode_cache(known))
    except OSError as error:
        say(f"measured costs were not kept: {error}")
