"""Checked job files become a sorted ``Workload``."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from warren.model.errors import Problem
from warren.model.job import Checkpoint, Evaluate, Job, Stop, Workload
from warren.workload.specs.job import JobSpec
from warren.workload.yaml_document import Document, Path

_SEED_MASK: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a job's defaults depend on.

    ``batches`` gives the batch of a model's profile row; ``app_folder`` is put before the paths
    of apps, which are relative to the file that names them. ``same_names``: jobs may have
    equal names, as those of a history that recur.
    """

    run_seed: int = 0
    batches: Mapping[str, int] = field(default_factory=dict)
    app_folder: str = ""
    same_names: bool = False


def job_seed(run_seed: int, name: str) -> int:
    """A job's default seed: 63 bits of SHA-256 of run seed and job name."""
    digest = hashlib.sha256(f"{run_seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") & _SEED_MASK


def build_jobs(
    specs: Sequence[JobSpec],
    document: Document,
    at: Path,
    context: JobContext,
    problems: list[Problem],
) -> tuple[Job, ...]:
    """Jobs in file order, not yet sorted; problems where names are equal or a batch is missing.

    ``at`` is where the list of jobs stands in the document.
    """
    if not context.same_names:
        problems += _same_names(specs, document, at)
    jobs = []
    for index, spec in enumerate(specs):
        batch = _batch(spec, context)
        if batch is None:
            message = f"is required: the cost of model {spec.model} follows from it"
            problems.append(document.problem((*at, index, "batch"), message))
        else:
            line = document.line((*at, index, "name"))
            source = "" if line is None else f"{document.file}:{line}"
            jobs.append(_job(spec, index, batch, context, source))
    return tuple(jobs)


def sort_jobs(jobs: Iterable[Job], notes: Iterable[str] = ()) -> Workload:
    """Jobs by (arrival, order in the file), numbered in that order."""
    ordered = sorted(jobs, key=lambda job: (job.arrival_ns, job.index))
    numbered = tuple(replace(job, index=index) for index, job in enumerate(ordered))
    return Workload(jobs=numbered, notes=tuple(notes))


def _same_names(specs: Sequence[JobSpec], document: Document, at: Path) -> Iterable[Problem]:
    first: dict[str, int] = {}
    for index, spec in enumerate(specs):
        before = first.setdefault(spec.name, index)
        if before != index:
            line = document.line((*at, before, "name"))
            where = f"job {before + 1}" if line is None else f"line {line}"
            message = f"{spec.name} is also the name of {where}; names must differ"
            yield document.problem((*at, index, "name"), message)


def _batch(spec: JobSpec, context: JobContext) -> int | None:
    if spec.batch is not None:
        return spec.batch
    if spec.cost is not None or spec.model is None or spec.app is not None:
        return 1  # what an app computes must not depend on a profile
    known = context.batches.get(spec.model)
    return None if known is None else max(1, known)


def _app(spec: JobSpec, folder: str) -> str | None:
    if spec.app is None or ":" not in spec.app or not folder:
        return spec.app
    return posixpath.join(folder, spec.app)


def _job(spec: JobSpec, index: int, batch: int, context: JobContext, source: str) -> Job:
    seed = job_seed(context.run_seed, spec.name) if spec.seed is None else spec.seed
    stop = spec.stop
    return Job(
        index=index,
        name=spec.name,
        scale=spec.scale,
        rounds=spec.rounds,
        batch=batch,
        app=_app(spec, context.app_folder),
        model=spec.model,
        sync=spec.sync,  # type: ignore[arg-type]
        weight=spec.weight,
        arrival_ns=spec.arrival,
        user=spec.user,
        group=spec.group,
        seed=seed,
        numerics=spec.numerics,  # type: ignore[arg-type]
        evaluate=Evaluate(every=spec.evaluate.every) if spec.evaluate else None,
        stop=Stop(metric=stop.metric, reaches=stop.reaches, falls_to=stop.falls_to)
        if stop
        else None,
        checkpoint=Checkpoint(every=spec.checkpoint.every) if spec.checkpoint else None,
        task_limit_ns=spec.task_limit,
        nan_loss=spec.nan_loss,  # type: ignore[arg-type]
        params=spec.params,
        cost=spec.cost,
        source=source,
    )
