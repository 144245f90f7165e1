"""Following a run file into the files it names."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.errors import SpecError
from warren.model.job import Workload
from warren.model.run import Run
from warren.workload.grain import parse_grain
from warren.workload.job_sources import HISTORY, WORKLOAD, Given, Recorded, apart, ended
from warren.workload.jobs_file import cluster_of, other_than_run
from warren.workload.named_files import Files
from warren.workload.overrides import Key, apply, divide
from warren.workload.specs.cluster import ClusterSpec
from warren.workload.specs.cluster_build import Nearby, build_cluster
from warren.workload.specs.job import sort_jobs
from warren.workload.specs.run import (
    Profiles,
    RunSpec,
    build_profiles,
    build_scheduler,
    build_truth,
)
from warren.workload.text import Reader, shown
from warren.workload.traces.rows import Trace
from warren.workload.validation import check
from warren.workload.yaml_document import Document, Path, parse_document


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
        recorded: Recorded | None = None,
    ) -> None:
        self.document, self.folder, self.read = document, folder, read
        self.named, self.rows, self.recorded = named or document.file, rows, recorded
        self.batches = {**{name: row.batch for name, row in rows.items()}, **batches}
        self.files = Files(document, folder, read)
        self.problems = self.files.problems
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
        jobs = self._jobs(WORKLOAD, spec, cluster, profiles)
        past = self._past(spec, cluster, profiles)
        if self.problems or spec is None or cluster is None or jobs is None:
            raise SpecError(self.problems)
        profiles = (*profiles, *jobs.profiles)
        if past is not None:
            past = apart(past, profiles)
            profiles = (*profiles, *past.profiles)
        return Run(
            name=spec.name or self._stem() or "run",
            cluster=cluster,
            workload=_sorted(jobs),
            history=None if past is None else _sorted(past),
            scheduler=build_scheduler(spec),
            profiles=profiles,
            grain=parse_grain(spec.grain),
            truth=build_truth(spec),
            seed=spec.seed,
            verify=spec.verify,
            base=self.folder if spec.base is None else spec.base,
        )

    def _stem(self) -> str:
        """A run's name where it states none."""
        folder, file = posixpath.split(self.named)
        stem = posixpath.splitext(file)[0]
        if stem == "run":  # The usual name of a run file says less than its folder's.
            stem = posixpath.basename(folder) or stem
        return stem

    def _cluster(self, spec: RunSpec | None) -> Cluster | None:
        named = self.files.raw("cluster")
        if isinstance(named, str):
            document = self.files.follow(("cluster",), named, parse_document)
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
        named = self.files.raw("profiles")
        if isinstance(named, str):
            document = self.files.follow(("profiles",), named, parse_document)
            if document is None:
                return ()
            apply(document, self.inner["profiles"], self.problems)
            rows = check(Profiles, self._without_format(document), self.problems)
            return () if rows is None else build_profiles(rows)
        if spec is None or not isinstance(spec.profiles, dict):
            return ()
        return build_profiles(spec.profiles)

    def _jobs(
        self,
        key: str,
        spec: RunSpec | None,
        cluster: Cluster | None,
        profiles: tuple[ProfileRow, ...],
    ) -> Trace | None:
        given = Given(
            key=key,
            files=self.files,
            cluster=cluster,
            rows={**self.rows, **{row.model: row for row in profiles}},
            batches={**self.batches, **{row.model: row.batch for row in profiles}},
            run_seed=0 if spec is None else spec.seed,
            recorded=self.recorded,
        )
        return given.jobs(getattr(spec, key, None))

    def _past(
        self, spec: RunSpec | None, cluster: Cluster | None, profiles: tuple[ProfileRow, ...]
    ) -> Trace | None:
        """The jobs that have ended; None where the run file tells of none, or none has yet."""
        if self.files.raw(HISTORY) is None:
            return None
        found = self._jobs(HISTORY, spec, cluster, profiles)
        if found is None or not found.jobs:
            return None
        return ended(found, self.document.file, self.problems)

    def _without_format(self, document: Document) -> Document:
        version = document.data.pop("format", 1) if isinstance(document.data, dict) else 1
        if version != 1 or isinstance(version, bool):
            message = f"allowed: 1, got {shown(version)}"
            self.problems.append(document.problem(("format",), message))
        return document


def _sorted(found: Trace) -> Workload:
    return sort_jobs(found.jobs, found.notes)
