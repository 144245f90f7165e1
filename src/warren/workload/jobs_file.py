"""Documents become clusters and jobs; what is wrong is added to a list of problems."""

from __future__ import annotations

from typing import Any, Final

from warren.model.cluster import Cluster
from warren.model.errors import Problem
from warren.model.job import Job
from warren.workload.jobs_csv import parse_jobs_csv
from warren.workload.specs.cluster import ClusterSpec
from warren.workload.specs.cluster_build import build_cluster
from warren.workload.specs.job import JobSpec, JobsSpec
from warren.workload.specs.job_build import JobContext, build_jobs
from warren.workload.specs.overheads_build import Nearby
from warren.workload.text import shown
from warren.workload.validation import check
from warren.workload.yaml_document import Document, Path, parse_document

_RUN_KEYS: Final = frozenset({"cluster", "workload"})
_JOB_KEYS: Final = frozenset({"app", "model"})


def documents(path: str, content: bytes, ended: bool = False) -> Document:
    """A jobs file as a document: CSV by its name, else YAML. ``ended``: of jobs that have ended.

    Raises
    ------
    SpecError
        If it cannot be read as such.
    """
    if path.endswith(".csv"):
        return parse_jobs_csv(path, content, ended)
    return parse_document(path, content)


def cluster_of(
    document: Document, at: Path, problems: list[Problem], nearby: Nearby
) -> Cluster | None:
    """The cluster that stands at ``at``, or None and problems."""
    spec = check(ClusterSpec, document, problems, at)
    return None if spec is None else build_cluster(spec, document, at, problems, nearby)


def jobs_of(
    document: Document, context: JobContext, problems: list[Problem]
) -> tuple[Job, ...] | None:
    """The jobs of a jobs file, in file order: one job, a list, or a mapping with ``jobs``."""
    data = document.data
    if isinstance(data, dict) and "jobs" in data:
        spec = check(JobsSpec, document, problems)
        return spec and build_jobs(spec.jobs, document, ("jobs",), context, problems)
    if is_run(data):
        problems.append(Problem(file=document.file, message=_give_jobs(data.get("workload"))))
        return None
    if isinstance(data, list):
        return jobs_at(document, (), context, problems)
    job = check(JobSpec, document, problems)
    return job and build_jobs([job], document, (), context, problems)


def is_run(data: Any) -> bool:
    """Tell whether these are the values of a run file, and not of jobs."""
    keys = data.keys() if isinstance(data, dict) else frozenset[str]()
    return bool(_RUN_KEYS & keys) and not (_JOB_KEYS | {"jobs"}) & keys


def other_than_run(document: Document) -> Problem | None:
    """What to say of a jobs or cluster file that was given for a run file; None of all others."""
    data = document.data
    keys = data.keys() if isinstance(data, dict) else frozenset[str]()
    if _RUN_KEYS & keys:
        return None
    if isinstance(data, list) or "jobs" in keys or _JOB_KEYS & keys:
        message = "this is a jobs file; give a run file that names it under `workload:`"
    elif "hosts" in keys:
        message = "this is a cluster file; give a run file that names it under `cluster:`"
    else:
        return None
    return Problem(file=document.file, message=message)


def _give_jobs(workload: Any) -> str:
    inside = workload.get("jobs") if isinstance(workload, dict) else workload
    if isinstance(inside, list):
        return "this is a run file; give a file of its jobs alone, as `workload:` lists them"
    named = f", {shown(inside)}" if isinstance(inside, str) else ""
    return f"this is a run file; give its jobs file{named}"


def jobs_at(
    document: Document, at: Path, context: JobContext, problems: list[Problem]
) -> tuple[Job, ...] | None:
    """The jobs of a list that stands at ``at``."""
    specs = check(list[JobSpec], document, problems, at)
    if specs is not None and not specs:
        problems.append(document.problem(at, "holds no job"))
        return None
    return specs and build_jobs(specs, document, at, context, problems)
