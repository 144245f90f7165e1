"""Documents become clusters and jobs; what is wrong is added to a list of problems."""

from __future__ import annotations

from warren.model.cluster import Cluster
from warren.model.errors import Problem
from warren.model.job import Job
from warren.workload.build_cluster import build_cluster
from warren.workload.build_jobs import JobContext, build_jobs
from warren.workload.checking import check
from warren.workload.document import Document, Path, parse_document
from warren.workload.jobs_csv import parse_jobs_csv
from warren.workload.schema_cluster import ClusterSpec
from warren.workload.schema_job import JobSpec, JobsSpec


def documents(path: str, content: bytes) -> Document:
    """A jobs file as a document: CSV by its name, else YAML.

    Raises
    ------
    SpecError
        If it cannot be read as such.
    """
    if path.endswith(".csv"):
        return parse_jobs_csv(path, content)
    return parse_document(path, content)


def cluster_of(document: Document, at: Path, problems: list[Problem]) -> Cluster | None:
    """The cluster that stands at ``at``, or None and problems."""
    spec = check(ClusterSpec, document, problems, at)
    return None if spec is None else build_cluster(spec, document, at, problems)


def jobs_of(
    document: Document, context: JobContext, problems: list[Problem]
) -> tuple[Job, ...] | None:
    """The jobs of a jobs file, in file order: one job, a list, or a mapping with ``jobs``."""
    data = document.data
    if isinstance(data, dict) and "jobs" in data:
        spec = check(JobsSpec, document, problems)
        return spec and build_jobs(spec.jobs, document, ("jobs",), context, problems)
    if isinstance(data, list):
        return jobs_at(document, (), context, problems)
    job = check(JobSpec, document, problems)
    return job and build_jobs([job], document, (), context, problems)


def jobs_at(
    document: Document, at: Path, context: JobContext, problems: list[Problem]
) -> tuple[Job, ...] | None:
    """The jobs of a list that stands at ``at``."""
    specs = check(list[JobSpec], document, problems, at)
    if specs is not None and not specs:
        problems.append(document.problem(at, "holds no job"))
        return None
    return specs and build_jobs(specs, document, at, context, problems)
