"""Run, cluster and job files become ``warren.model`` values; every problem is told at once.

Nothing is opened here: ``read`` gives the content of a path. A path inside a file is relative
to the file that names it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from warren.model.cluster import Cluster
from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Workload
from warren.model.run import Run
from warren.workload.job_sources import Recorded
from warren.workload.jobs_file import cluster_of, documents, is_run, jobs_of
from warren.workload.overrides import split_keys
from warren.workload.run_file import Resolver
from warren.workload.specs.cluster_build import Nearby
from warren.workload.specs.job import JobContext, sort_jobs
from warren.workload.text import Reader, dotted, fetch, plain
from warren.workload.yaml_document import Document, parse_document, parse_value

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
) -> Run:
    """The run that a run file describes, with all the files it names.

    Parameters
    ----------
    path
        The run file.
    read
        Gives the content of a file; raises ``OSError`` where it cannot.
    overrides
        Dotted keys and values as text, like ``{"scheduler.place": "srtf"}``; a value is read as
        it would be in the file. ``cluster.*`` and ``profiles.*`` also reach into the files named.
    batches
        Batch of a job that states none, by model: the reference batch of its profile row.
    named
        The path that gives a run without ``name`` its name, where ``path`` says less of it.
    rows
        Costs by model beside those of the run: generators draw from them. They also give
        ``batches``.
    recorded
        Gives the jobs of a history database.

    Raises
    ------
    SpecError
        With all problems of all files.
    """
    document = parse_document(path, fetch(path, read))
    values = {
        key: parse_value(path, dotted(key), text) for key, text in split_keys(overrides).items()
    }
    folder = posixpath.dirname(path)
    return Resolver(document, folder, read, batches, values, named, rows, recorded).run()


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
) -> Run:
    """The run that a Python object describes: the same keys as a run file.

    ``base`` is the folder that its paths refer to; ``name`` stands in messages for the file.
    Values of ``overrides`` are Python values.

    Raises
    ------
    SpecError
        With all problems.
    """
    try:
        document = Document(file=name, data=plain(data))
        values = {key: plain(value) for key, value in overrides.items()}
    except ValueError as error:
        raise SpecError(Problem(file=name, message=str(error))) from None
    known = split_keys(values)
    return Resolver(document, base, read, batches, known, rows=rows, recorded=recorded).run()


def load_cluster(path: str, read: Reader) -> Cluster:
    """The cluster that a cluster file describes.

    Raises
    ------
    SpecError
        With all problems of the file.
    """
    problems: list[Problem] = []
    document = parse_document(path, fetch(path, read))
    nearby = Nearby(read=read, base=posixpath.dirname(path))
    cluster = cluster_of(document, (), problems, nearby)
    if cluster is None or problems:
        raise SpecError(problems)
    return cluster


def describes_run(path: str, read: Reader) -> bool:
    """Tell whether a file is a run file, not one of jobs.

    Raises
    ------
    SpecError
        If it cannot be read, or is no YAML.
    """
    return is_run(documents(path, fetch(path, read)).data)


def load_jobs(
    path: str,
    read: Reader,
    run_seed: int = 0,
    batches: Mapping[str, int] = _NONE,
) -> Workload:
    """The jobs of a file: one job, a list, ``{format: 1, jobs: [...]}``, or ``.csv``.

    Paths of apps stay relative to the file.

    Raises
    ------
    SpecError
        With all problems of the file.
    """
    problems: list[Problem] = []
    document = documents(path, fetch(path, read))
    jobs = jobs_of(document, JobContext(run_seed=run_seed, batches=batches), problems)
    if jobs is None or problems:
        raise SpecError(problems)
    return sort_jobs(jobs)
