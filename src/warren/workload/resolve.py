"""Following a run file into the files it names."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.workload.build_cluster import build_cluster
from warren.workload.build_jobs import JobContext, build_jobs, sort_jobs
from warren.workload.build_overheads import Nearby
from warren.workload.build_run import build_profiles, build_scheduler, build_truth
from warren.workload.checking import check
from warren.workload.document import Document, Path, parse_document
from warren.workload.generators.ground import Ground
from warren.workload.grain import parse_grain
from warren.workload.overrides import Key, apply, divide
from warren.workload.parts import cluster_of, documents, jobs_of, other_than_run
from warren.workload.schema_cluster import ClusterSpec
from warren.workload.schema_job import JobSpec
from warren.workload.schema_run import Profiles, RunSpec
from warren.workload.schema_types import is_path
from warren.workload.schema_workload import WorkloadSpec
from warren.workload.sources import Sources
from warren.workload.text import Reader, fetch, shown
from warren.workload.traces.request import Trace

T = TypeVar("T")
Jobs = tuple[tuple[Job, ...], tuple[str, ...], tuple[ProfileRow, ...]]
"""Jobs in file order, remarks, and the costs that came with them."""


class Resolver:
    """One run file, the files it names, and the problems of all of them."""

    def __init__(
        self,
        document: Document,
        folder: str,
        read: Reader,
        batches: Mapping[str, int],
        overrides: Mapping[Key, Any],
        named: str = "",
        rows: Mapping[str, ProfileRow] = MappingProxyType({}),
    ) -> None:
        self.document, self.folder, self.read = document, folder, read
        self.named, self.rows = named or document.file, rows
        self.batches = {**{name: row.batch for name, row in rows.items()}, **batches}
        self.problems: list[Problem] = []
        own, self.inner = divide(document.data, overrides)
        apply(document, own, self.problems)

    def run(self) -> Run:
        """The resolved run.

        Raises
        ------
        SpecError
            With the problems of all files.
        """
        other = other_than_run(self.document)
        if other is not None:
            raise SpecError(other)
        spec = check(RunSpec, self.document, self.problems)
        cluster = self._cluster(spec)
        profiles = self._profiles(spec)
        jobs = self._workload(spec, cluster, profiles)
        if self.problems or spec is None or cluster is None or jobs is None:
            raise SpecError(self.problems)
        found, notes, trace_rows = jobs
        folder, file = posixpath.split(self.named)
        stem = posixpath.splitext(file)[0]
        if stem == "run":  # The usual name of a run file says less than its folder's.
            stem = posixpath.basename(folder) or stem
        return Run(
            name=spec.name or stem or "run",
            cluster=cluster,
            workload=sort_jobs(found, notes),
            scheduler=build_scheduler(spec),
            profiles=(*profiles, *trace_rows),
            grain=parse_grain(spec.grain),
            truth=build_truth(spec),
            seed=spec.seed,
            base=self.folder if spec.base is None else spec.base,
        )

    def _cluster(self, spec: RunSpec | None) -> Cluster | None:
        named = self._raw("cluster")
        if isinstance(named, str):
            document = self._follow(("cluster",), named, parse_document)
            if document is None:
                return None
            apply(document, self.inner["cluster"], self.problems)
            nearby = self._nearby(posixpath.dirname(named))
            return cluster_of(document, (), self.problems, nearby)
        if spec is None or not isinstance(spec.cluster, ClusterSpec):
            return None
        at: Path = ("cluster",)
        return build_cluster(spec.cluster, self.document, at, self.problems, self._nearby())

    def _nearby(self, folder: str = "") -> Nearby:
        return Nearby(read=self.read, base=self.folder, folder=folder)

    def _profiles(self, spec: RunSpec | None) -> tuple[ProfileRow, ...]:
        named = self._raw("profiles")
        if isinstance(named, str):
            document = self._follow(("profiles",), named, parse_document)
            if document is None:
                return ()
            apply(document, self.inner["profiles"], self.problems)
            rows = check(Profiles, self._without_format(document), self.problems)
            return () if rows is None else build_profiles(rows)
        if spec is None or not isinstance(spec.profiles, dict):
            return ()
        return build_profiles(spec.profiles)

    def _workload(
        self, spec: RunSpec | None, cluster: Cluster | None, profiles: tuple[ProfileRow, ...]
    ) -> Jobs | None:
        context = self._context(spec, profiles)
        named, path = self._jobs_file()
        if named is not None:
            return self._jobs_from(path, named, context, spec)
        if spec is None:
            return None
        workload = spec.workload
        if isinstance(workload, list):
            return self._inline(workload, ("workload",), context)
        if isinstance(workload, WorkloadSpec) and isinstance(workload.jobs, list):
            found = self._inline(workload.jobs, ("workload", "jobs"), context)
            return None if found is None else (found[0], tuple(workload.notes), ())
        if cluster is None:
            return None
        made = self._made(workload, cluster, profiles, spec.seed)
        return None if made is None else (made.jobs, made.notes, made.profiles)

    def _made(
        self,
        workload: object,
        cluster: Cluster,
        profiles: tuple[ProfileRow, ...],
        seed: int,
    ) -> Trace | None:
        """The jobs of a trace or of a generator."""
        named = self.document.file
        rows = {**self.rows, **{row.model: row for row in profiles}}
        ground = Ground(cluster=cluster, rows=rows, run_seed=seed, file=named)
        sources = Sources(ground=ground, folder=self.folder, content=self._content)
        return self._try(lambda: sources.of(workload))

    def _jobs_file(self) -> tuple[str | None, Path]:
        """The path of the jobs file, and where it is named."""
        workload = self._raw("workload")
        if isinstance(workload, str):
            return workload, ("workload",)
        if isinstance(workload, dict) and "generate" not in workload:
            named = workload.get("jobs")
            return (named, ("workload", "jobs")) if isinstance(named, str) else (None, ())
        return None, ()

    def _jobs_from(
        self, path: Path, named: str, context: JobContext, spec: RunSpec | None
    ) -> Jobs | None:
        document = self._follow(path, named, documents)
        if document is None:
            return None
        jobs = jobs_of(document, context, self.problems)
        notes = spec.workload.notes if spec and isinstance(spec.workload, WorkloadSpec) else []
        return None if jobs is None else (jobs, tuple(notes), ())

    def _inline(self, specs: list[JobSpec], at: Path, context: JobContext) -> Jobs | None:
        if not specs:
            self.problems.append(self.document.problem(at, "holds no job"))
            return None
        jobs = build_jobs(specs, self.document, at, context, self.problems)
        return jobs, (), ()

    def _context(self, spec: RunSpec | None, profiles: tuple[ProfileRow, ...]) -> JobContext:
        named, _ = self._jobs_file()
        return JobContext(
            run_seed=spec.seed if spec is not None else 0,
            batches={**self.batches, **{row.model: row.batch for row in profiles}},
            app_folder=posixpath.dirname(named or ""),
        )

    def _without_format(self, document: Document) -> Document:
        version = document.data.pop("format", 1) if isinstance(document.data, dict) else 1
        if version != 1 or isinstance(version, bool):
            message = f"allowed: 1, got {shown(version)}"
            self.problems.append(document.problem(("format",), message))
        return document

    def _raw(self, key: str) -> Any:
        data = self.document.data
        return data.get(key) if isinstance(data, dict) else None

    def _joined(self, named: str) -> str:
        return posixpath.join(self.folder, named)

    def _follow(
        self, at: Path, named: str, parse: Callable[[str, bytes], Document]
    ) -> Document | None:
        content = self._content(at, named)
        if content is None:
            return None
        return self._try(lambda: parse(self._joined(named), content))

    def _content(self, at: Path, named: str) -> bytes | None:
        if not is_path(named):
            return None  # the schema has refused it
        line = self.document.line(at)
        by = self.document.file if line is None else f"{self.document.file}:{line}"
        return self._try(lambda: fetch(self._joined(named), self.read, by))

    def _try(self, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except SpecError as error:
            self.problems += error.problems
            return None
