"""Find the jobs of a run file: listed there, of a trace or generator, or of its history."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.workload.generators.gavel_mix import gavel_mix
from warren.workload.generators.hare_mix import hare_mix
from warren.workload.generators.inputs import GeneratorInputs
from warren.workload.generators.sjf_bco import sjf_bco
from warren.workload.jobs_file import documents, jobs_of
from warren.workload.named_files import NamedFiles
from warren.workload.specs.job import JobContext, JobSpec, build_jobs, job_seed
from warren.workload.specs.workload import (
    GavelMixSpec,
    HareMixSpec,
    SjfBcoSpec,
    TraceSpec,
    WorkloadSpec,
)
from warren.workload.traces.formats.any_table import SEPARATORS
from warren.workload.traces.read_trace import read_trace
from warren.workload.traces.registry import detected
from warren.workload.traces.rows import Resample, Trace, TraceRequest
from warren.workload.yaml_document import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSources:
    """Traces and generators that a run file may name as sources of jobs, read by its ``files``."""

    ground: GeneratorInputs
    files: NamedFiles

    def of(self, workload: object) -> Trace | None:
        """Return the jobs of a checked ``workload``; None if a file it names cannot be read.

        Raises SpecError if a file is damaged, or no jobs can be made of it.
        """
        if isinstance(workload, HareMixSpec):
            return hare_mix(workload, self.ground)
        if isinstance(workload, SjfBcoSpec):
            return sjf_bco(workload, self.ground)
        if isinstance(workload, GavelMixSpec):
            content = self.files.content((self.ground.field, "throughputs"), workload.throughputs)
            if content is None:
                return None
            return gavel_mix(
                workload, self.ground, self.files.joined(workload.throughputs), content
            )
        assert isinstance(workload, WorkloadSpec)
        return None if workload.trace is None else self._trace(workload.trace)

    def _trace(self, spec: TraceSpec) -> Trace | None:
        """Read a trace; None where it, or the throughputs that it names, cannot be read."""
        at: Path = (self.ground.field, "trace")
        content = self.files.content((*at, "path"), spec.path)
        table: bytes | None = None
        if spec.throughputs is not None:
            table = self.files.content((*at, "throughputs"), spec.throughputs)
        # Both files are requested before this, so that one reading reports problems of both.
        if content is None or (table is None and spec.throughputs is not None):
            return None
        file = self.files.joined(spec.path)
        request = TraceRequest(
            file=file,
            content=content,
            types=self.ground.cluster.type_names,
            run_seed=self.ground.run_seed,
            round_s=spec.round_s,
            limit=spec.limit,
            gpus_max=spec.gpus_max,
            leave_out=tuple(spec.leave_out),
            throughputs_file=self.files.joined(spec.throughputs or ""),
            throughputs=table,
            throughputs_field=f"{self.ground.field}.trace.throughputs",
            gang=spec.gang,
            models=self._models(spec.models),
            columns=spec.columns,
            units=spec.units,
            delimiter=SEPARATORS[spec.separator],
            resample=self._resample(spec),
        )
        name = detected(file, content) if spec.format == "auto" else spec.format
        return read_trace(name, request)

    def _resample(self, spec: TraceSpec) -> Resample | None:
        if spec.resample is None:
            return None
        field = f"{self.ground.field}.trace"
        file = self.ground.file
        return Resample(what=spec.resample, window_s=spec.window, file=file, field=field)

    def _models(self, names: Sequence[str]) -> tuple[ProfileRow, ...]:
        """Return the profile rows of the models that a trace's jobs are to train."""
        rows = self.ground.rows
        if unknown := [name for name in names if name not in rows]:
            message = f"no profile row {unknown[0]!r}; there are {', '.join(rows)}"
            problem = Problem(
                file=self.ground.file, field=f"{self.ground.field}.trace.models", message=message
            )
            raise SpecError(problem)
        return tuple(rows[name] for name in names)


# Keys of a run file.
WORKLOAD, HISTORY = "workload", "history"
DEFAULT: Final = "default"
"""The text by which a run file names the user's own history database."""
Recorded: TypeAlias = Callable[[str, Sequence[str]], Trace]
"""Gives the jobs of a history database that ran on one of these device types, and their costs.

An empty path names the user's own database, which may hold none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAndHistory:
    """Finds the jobs under a ``key`` of a run file; problems go to ``files``.

    ``stated``: the value in the file, unchecked; None: none. ``rows`` are costs by model,
    ``batches`` by model those of jobs that state none. If ``cluster`` is None it is wrong, so no
    jobs can be made for it; if ``recorded`` is None no database can be read.
    """

    key: str
    stated: object
    files: NamedFiles
    cluster: Cluster | None
    rows: Mapping[str, ProfileRow]
    batches: Mapping[str, int]
    run_seed: int
    recorded: Recorded | None = None

    def jobs(self, spec: object) -> Trace | None:
        """Return the jobs in their order; ``spec`` is the key's checked value, None a wrong one."""
        # A jobs file is read even if the run file is wrong, so that one reading reports all
        # problems.
        named, path = self._file()
        if named is not None:
            return self._from_file(path, named, spec)
        if isinstance(spec, list):
            return self._inline(spec, (self.key,))
        if isinstance(spec, WorkloadSpec) and isinstance(spec.jobs, list):
            found = self._inline(spec.jobs, (self.key, "jobs"))
            # Remarks that the run file states go with its jobs.
            return found and replace(found, notes=tuple(spec.notes))
        if isinstance(spec, WorkloadSpec) and spec.database is not None:
            return self._recorded(spec.database)
        return self._made(spec)

    def _recorded(self, named: str) -> Trace | None:
        """Return the jobs of a database that a device type of the cluster can run."""
        read = self.recorded
        # Recorded jobs have ended: they are a past, and never a workload.
        if self.key != HISTORY or read is None:
            message = "holds jobs that have ended: only a history may name it"
            at = (self.key, "database")
            self.files.problems.append(self.files.document.problem(at, message))
            return None
        if self.cluster is None:
            return None
        path = "" if named == DEFAULT else self.files.joined(named)
        types = self.cluster.type_names
        return self.files.attempt(lambda: read(path, types))

    def _made(self, spec: object) -> Trace | None:
        """Return the jobs of a trace or generator; those of a history in the order they came in."""
        if spec is None or self.cluster is None:
            return None
        ground = GeneratorInputs(
            cluster=self.cluster,
            rows=self.rows,
            run_seed=self._seed(),
            file=self.files.document.file,
            field=self.key,
        )
        sources = JobSources(ground=ground, files=self.files)
        found = self.files.attempt(lambda: sources.of(spec))
        if found is None or self.key != HISTORY:
            return found
        in_order = sorted(found.jobs, key=lambda job: job.arrival_ns)
        jobs = (replace(job, index=index) for index, job in enumerate(in_order))
        return replace(found, jobs=tuple(jobs))

    def _seed(self) -> int:
        """Return the seed of draws and of jobs that state none; a history has its own."""
        return job_seed(self.run_seed, self.key) if self.key == HISTORY else self.run_seed

    def _file(self) -> tuple[str | None, Path]:
        """Return the path of the jobs file, and where it is named; None without one."""
        value = self.stated
        if isinstance(value, str):
            return value, (self.key,)
        if isinstance(value, dict) and "generate" not in value:
            named = value.get("jobs")
            return (named, (self.key, "jobs")) if isinstance(named, str) else (None, ())
        return None, ()

    def _from_file(self, path: Path, named: str, spec: object) -> Trace | None:
        parse = partial(documents, ended=self.key == HISTORY)
        document = self.files.follow(path, named, parse)
        if document is None:
            return None
        jobs = jobs_of(document, self._context(posixpath.dirname(named)), self.files.problems)
        notes = spec.notes if isinstance(spec, WorkloadSpec) else []
        return (
            None if jobs is None else Trace(jobs=jobs, profiles=(), notes=(*notes, *document.notes))
        )

    def _inline(self, specs: list[JobSpec], at: Path) -> Trace | None:
        document, problems = self.files.document, self.files.problems
        if not specs:
            problems.append(document.problem(at, "holds no job"))
            return None
        jobs = build_jobs(specs, document, at, self._context(), problems)
        return Trace(jobs=jobs, profiles=())

    def _context(self, folder: str = "") -> JobContext:
        return JobContext(
            run_seed=self._seed(),
            batches=self.batches,
            app_folder=folder,
            same_names=self.key == HISTORY,
        )


def ended(found: Trace, file: str, problems: list[Problem]) -> Trace:
    """Return jobs as a past: in their order, at time 0; a problem where rounds are not stated."""
    silent = [job for job in found.jobs if job.rounds is None]
    if silent:
        others = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        field = f"job of the history {silent[0].name}{others}"
        message = "rounds is required: how many it ran"
        problems.append(Problem(file=silent[0].source or file, field=field, message=message))
    return replace(found, jobs=tuple(replace(job, arrival_ns=0) for job in found.jobs))


def apart(found: Trace, taken: Sequence[ProfileRow]) -> Trace:
    """Return the jobs with costs renamed where ``taken`` has other costs under their names."""
    have = {row.model: row for row in taken}
    # Equal costs under one name are one row; only other costs need a name of their own.
    names = {row.model: row.model for row in found.profiles}
    for row in found.profiles:
        if have.get(row.model, row) != row:
            names[row.model] = f"{HISTORY}: {row.model}"
    rows = [replace(row, model=names[row.model]) for row in found.profiles]
    return replace(
        found,
        jobs=tuple(_renamed(found.jobs, names)),
        profiles=tuple(row for row in rows if row.model not in have),
    )


def _renamed(jobs: Sequence[Job], names: Mapping[str, str]) -> Iterator[Job]:
    """Yield the jobs with the new names of their cost rows."""
    for job in jobs:
        yield job if job.cost is None else replace(job, cost=names.get(job.cost, job.cost))
