"""Make a ``Run`` of a run file and all files that it names; one reading reports every problem.

Nothing is opened here: ``read`` gives the content of a path. A path inside a file is relative
to the file that names it. Cluster and job files alone are read here, too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Workload
from warren.model.run import Run
from warren.workload.job_sources import HISTORY, WORKLOAD, JobsAndHistory, Recorded, apart, ended
from warren.workload.jobs_file import JOB_KEYS, RUN_KEYS, cluster_of, documents, is_run, jobs_of
from warren.workload.named_files import NamedFiles
from warren.workload.recorded_metrics import MetricsByJob, recorded_metrics
from warren.workload.specs.cluster import ClusterSpec
from warren.workload.specs.cluster_build import FilesBeside, build_cluster
from warren.workload.specs.job import JobContext, sort_jobs
from warren.workload.specs.run import (
    Profiles,
    RunSpec,
    build_profiles,
    build_scheduler,
    build_truth,
    parse_grain,
    wrong_absences,
    wrong_after,
)
from warren.workload.text import HostsHere, Reader, dotted, fetch_text, plain, shown
from warren.workload.traces.rows import Trace
from warren.workload.validation import GIVEN, check
from warren.workload.yaml_document import Document, Path, parse_document, parse_value

_ELSEWHERE: Final = ("cluster", "profiles")
"""Fields of a run file whose content may be in a separate file."""

_INDEX: Final = re.compile(r"\[(\d+)\]")
"""A position in a list, as some write it."""

Key = tuple[str, ...]
Overrides = dict[Key, Any]


def split_keys(values: Mapping[str, Any]) -> Overrides:
    """Return overrides by their path, in the order given; ``[0]`` in a key means ``.0``."""
    return {tuple(_INDEX.sub(r".\1", key).split(".")): value for key, value in values.items()}


def apply(document: Document, values: Mapping[Key, Any], problems: list[Problem]) -> None:
    """Put overrides into the document; add a problem for a place that does not exist."""
    # The schema refuses this document as a whole.
    if not isinstance(document.data, dict):
        return
    for path, value in values.items():
        try:
            document.overridden.append(_put(document.data, path, value))
        except ValueError as error:
            message = f"{error}{GIVEN}"
            problems.append(Problem(file=document.file, field=dotted(path), message=message))


def _put(data: dict[str, Any], path: Key, value: Any) -> Path:
    """Put a value at a path, making mappings on the way; return the path with positions as numbers.

    Raises ValueError if a value on the way is neither a mapping nor a long enough list.
    """
    if "" in path:
        raise ValueError("is no dotted key such as cluster.network.model")
    inside: Any = data
    real: list[str | int] = []
    for at, name in enumerate(path):
        key = _position(inside, name) if isinstance(inside, list) else name
        real.append(key)
        if at == len(path) - 1:
            inside[key] = value
            break
        # A field that is absent or null may be filled.
        if isinstance(key, str) and inside.get(key) is None:
            inside[key] = {}
        inside = inside[key]
        if not isinstance(inside, dict | list):
            raise ValueError(f"cannot be set: {dotted(tuple(real))} is {shown(inside)}")
    return tuple(real)


def _position(values: Sequence[Any], name: str) -> int:
    """Return the position in a list that a part of a key names."""
    if not name.isdecimal() or int(name) >= len(values):
        there = f"0 to {len(values) - 1}" if values else "none, it is empty"
        raise ValueError(f"{shown(name)} is no position in the list; allowed: {there}")
    return int(name)


def divide(data: Any, values: Mapping[Key, Any]) -> tuple[Overrides, dict[str, Overrides]]:
    """Divide overrides into those of the run file itself and those of the files it names.

    ``cluster.network.model`` belongs to the cluster's file where ``cluster`` is a path.
    """
    # Whole fields first: an override of ``cluster`` decides whether that is a path.
    own: Overrides = {path: value for path, value in values.items() if len(path) == 1}
    inner: dict[str, Overrides] = {name: {} for name in _ELSEWHERE}
    for path, value in values.items():
        if len(path) == 1:
            continue
        head = path[0]
        stands = own.get((head,), data.get(head) if isinstance(data, dict) else None)
        if head in _ELSEWHERE and isinstance(stands, str):
            inner[head][path[1:]] = value
        else:
            own[path] = value
    return own, inner


class RunFile:
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
        here: HostsHere | None = None,
    ) -> None:
        self.document = document
        self.folder = folder
        self.read = read
        self.named = named or document.file
        self.rows = rows
        self.recorded = recorded
        self.here = here
        # Batches that the caller states go before those of its rows.
        self.batches = {**{name: row.batch for name, row in rows.items()}, **batches}
        self.files = NamedFiles(document, folder, read)
        self.problems = self.files.problems
        own, self.inner = divide(document.data, overrides)
        apply(document, own, self.problems)
        # The content of the file by its keys, unchecked.
        self.stated = document.data if isinstance(document.data, dict) else {}

    def run(self) -> Run:
        """Return the resolved run.

        Raises SpecError with the problems of all files.
        """
        other = _other_than_run(self.document)
        if other is not None:
            raise SpecError(other)
        # Each step goes on where an earlier one failed, so that all files' problems are found.
        spec = check(RunSpec, self.document, self.problems)
        cluster = self._cluster(spec)
        profiles = self._profiles(spec)
        jobs = self._jobs(WORKLOAD, spec, cluster, profiles)
        past = self._past(spec, cluster, profiles)
        metrics = self._metrics(spec, jobs)
        if spec is not None and cluster is not None:
            found = [*wrong_absences(spec, cluster)]
            if jobs is not None:
                found += wrong_after(spec, (job.name for job in jobs.jobs))
            self.problems += [self.document.problem(at, message) for at, message in found]
        if self.problems or spec is None or cluster is None or jobs is None:
            raise SpecError(self.problems)
        profiles = (*profiles, *jobs.profiles)
        # Costs of the history must not take the place of the run's own costs of the same name.
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
            truth=build_truth(spec, metrics),
            seed=spec.seed,
            verify=spec.verify,
            base=self.folder if spec.base is None else spec.base,
        )

    def _stem(self) -> str:
        """Return a run's name where it states none."""
        folder, file = posixpath.split(self.named)
        stem = posixpath.splitext(file)[0]
        # The usual name of a run file says less than its folder's.
        if stem == "run":
            # A result folder holds ``run.yaml``.
            stem = posixpath.basename(folder) or stem
        return stem

    def _cluster(self, spec: RunSpec | None) -> Cluster | None:
        """Return the cluster that the run file states or names; None and problems if wrong."""
        named = self.stated.get("cluster")
        if isinstance(named, str):
            document = self.files.follow(("cluster",), named, parse_document)
            if document is None:
                return None
            # Overrides reach into the file before it is checked.
            apply(document, self.inner["cluster"], self.problems)
            nearby = self._nearby(posixpath.dirname(named))
            return cluster_of(document, (), self.problems, nearby)
        if spec is None or not isinstance(spec.cluster, ClusterSpec):
            return None
        at: Path = ("cluster",)
        return build_cluster(spec.cluster, self.document, at, self.problems, self._nearby())

    def _nearby(self, folder: str = "") -> FilesBeside:
        return FilesBeside(read=self.read, base=self.folder, folder=folder, here=self.here)

    def _profiles(self, spec: RunSpec | None) -> tuple[ProfileRow, ...]:
        """Return the rows of costs that the run file states or names; none if it does not."""
        named = self.stated.get("profiles")
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
        given = JobsAndHistory(
            key=key,
            stated=self.stated.get(key),
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
        """Return the jobs that have ended; None where the run file states none, or none has yet."""
        if self.stated.get(HISTORY) is None:
            return None
        found = self._jobs(HISTORY, spec, cluster, profiles)
        if found is None or not found.jobs:
            return None
        return ended(found, self.document.file, self.problems)

    def _metrics(self, spec: RunSpec | None, jobs: Trace | None) -> MetricsByJob | None:
        """Return the metrics of jobs in an earlier run; None if the run file names none."""
        if spec is None or jobs is None or spec.truth.metrics is None:
            return None
        return recorded_metrics(spec.truth.metrics, jobs.jobs, self.files)

    def _without_format(self, document: Document) -> Document:
        """Take ``format`` out of a file of profiles, whose other keys are all models."""
        version = document.data.pop("format", 1) if isinstance(document.data, dict) else 1
        # True equals 1 in Python, but is no version.
        if version != 1 or isinstance(version, bool):
            message = f"allowed: 1, got {shown(version)}"
            self.problems.append(document.problem(("format",), message))
        return document


def _other_than_run(document: Document) -> Problem | None:
    """Return a problem if a jobs or cluster file was given for a run file, else None."""
    data = document.data
    keys = data.keys() if isinstance(data, dict) else frozenset[str]()
    if RUN_KEYS & keys:
        return None
    if isinstance(data, list) or "jobs" in keys or JOB_KEYS & keys:
        message = "this is a jobs file; give a run file that names it under `workload:`"
    elif "hosts" in keys:
        message = "this is a cluster file; give a run file that names it under `cluster:`"
    else:
        return None
    return Problem(file=document.file, message=message)


def _sorted(found: Trace) -> Workload:
    return sort_jobs(found.jobs, found.notes)


__all__ = ["Reader", "describes_run", "load_cluster", "load_jobs", "load_run", "run_from_dict"]

_NONE: Final[Mapping[str, Any]] = {}


def load_run(
    path: str,
    read: Reader,
    overrides: Mapping[str, str] = _NONE,
    batches: Mapping[str, int] = _NONE,
    named: str = "",
    rows: Mapping[str, ProfileRow] = _NONE,
    recorded: Recorded | None = None,
    here: HostsHere | None = None,
) -> Run:
    """Load the run that a run file describes, with all the files it names.

    Parameters
    ----------
    path
        The run file.
    read
        Returns the content of a file; raises ``OSError`` if it cannot.
    overrides
        Dotted keys and values as text, like ``{"scheduler.place": "srtf"}``; a value is read as
        it would be in the file. ``cluster.*`` and ``profiles.*`` also reach into the files named.
    batches
        Batch of a job that states none, by model: the reference batch of its profile row.
    named
        The path that gives a run without ``name`` its name, if it says more than ``path``.
    rows
        Costs by model beside those of the run: generators draw from them. They also give
        ``batches``.
    recorded
        Returns the jobs of a history database.
    here
        Returns the hosts that this machine is, for ``hosts: local``.

    Raises
    ------
    SpecError
        With all problems of all files.
    """
    document = parse_document(path, fetch_text(path, read))
    values = {
        key: parse_value(path, dotted(key), text) for key, text in split_keys(overrides).items()
    }
    folder = posixpath.dirname(path)
    return RunFile(document, folder, read, batches, values, named, rows, recorded, here).run()


def run_from_dict(
    data: Mapping[str, Any],
    base: str,
    read: Reader,
    *,
    name: str = "run",
    overrides: Mapping[str, Any] = _NONE,
    batches: Mapping[str, int] = _NONE,
    rows: Mapping[str, ProfileRow] = _NONE,
    recorded: Recorded | None = None,
    here: HostsHere | None = None,
) -> Run:
    """Load the run that a Python object describes: the same keys as a run file.

    ``base`` is the folder that its paths refer to; ``name`` stands in messages for the file. Values
    of ``overrides`` are Python values. Raises SpecError with all problems.
    """
    try:
        document = Document(file=name, data=plain(data))
        values = {key: plain(value) for key, value in overrides.items()}
    except ValueError as error:
        raise SpecError(Problem(file=name, message=str(error))) from None
    known = split_keys(values)
    return RunFile(
        document, base, read, batches, known, rows=rows, recorded=recorded, here=here
    ).run()


def load_cluster(path: str, read: Reader, here: HostsHere | None = None) -> Cluster:
    """Load the cluster that a cluster file describes; ``here`` as for ``load_run``.

    Raises SpecError with all problems of the file.
    """
    problems: list[Problem] = []
    document = parse_document(path, fetch_text(path, read))
    nearby = FilesBeside(read=read, base=posixpath.dirname(path), here=here)
    cluster = cluster_of(document, (), problems, nearby)
    if cluster is None or problems:
        raise SpecError(problems)
    return cluster


def describes_run(path: str, read: Reader) -> bool:
    """Tell whether a file is a run file, not one of jobs.

    Raises SpecError if it cannot be read, or is no YAML.
    """
    return is_run(documents(path, fetch_text(path, read)).data)


def load_jobs(
    path: str,
    read: Reader,
    run_seed: int = 0,
    batches: Mapping[str, int] = _NONE,
) -> Workload:
    """Load the jobs of a file: one job, a list, ``{format: 1, jobs: [...]}``, or ``.csv``.

    Paths of apps stay relative to the file. Raises SpecError with all problems of the file.
    """
    problems: list[Problem] = []
    document = documents(path, fetch_text(path, read))
    jobs = jobs_of(document, JobContext(run_seed=run_seed, batches=batches), problems)
    if jobs is None or problems:
        raise SpecError(problems)
    return sort_jobs(jobs)
