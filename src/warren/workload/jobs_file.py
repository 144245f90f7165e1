"""Make clusters and jobs of documents and ``jobs.csv``; problems are added to a list."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from warren.model.cluster import Cluster
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.workload.specs.cluster import ClusterSpec
from warren.workload.specs.cluster_build import FilesBeside, build_cluster
from warren.workload.specs.job import JobContext, JobSpec, JobsSpec, build_jobs
from warren.workload.text import FLOAT, INT, hint, shown
from warren.workload.validation import check
from warren.workload.yaml_document import Document, Path, Place, parse_document

COLUMNS: Final[Mapping[str, str]] = {
    "job": "name",
    "arrival_s": "arrival",
    **{name: name for name in ("model", "batch", "scale", "rounds", "weight", "sync", "user")},
    **{name: name for name in ("group", "app", "seed")},
}
"""Fields of a job by column of the file."""
_STATUS: Final = "status"
_FINISHED: Final = "finished"
RESULTS: Final = (
    "start_s",
    "finish_s",
    "jct_s",
    _STATUS,
    "params_sha256",
    "final_loss",
    "numerics",
    "app_sha256",
)
"""Columns that only the table of a run's results has: the outcome of its jobs."""
_COLUMN_OF: Final = {field: column for column, field in COLUMNS.items()}
_WHOLE: Final = frozenset({"batch", "scale", "rounds", "seed"})


def parse_jobs_csv(file: str, text: str, ended: bool = False) -> Document:
    """Parse rows into a document of job mappings; empty cells are left out (defaults hold).

    ``ended``: the table may be a run's result; then only jobs that finished are taken.
    Raises SpecError if the text is no CSV, the header is wrong, or a row is too short or too long.
    """
    rows = _rows(file, text)
    header = next(rows, None)
    if header is None:
        raise SpecError(Problem(file=file, message="is empty; the first line names the columns"))
    # Rows are not read under a wrong header: each would add the same problem again.
    problems = list(_header_problems(file, *header, ended))
    if problems:
        raise SpecError(problems)
    columns = header[1]
    outcome = columns.index(_STATUS) if _STATUS in columns else None
    others = Counter[str]()
    jobs: list[dict[str, Any]] = []
    places: list[Place] = []
    for line, cells in rows:
        # The row is skipped and reading goes on, so that one reading reports all wrong rows.
        if len(cells) != len(columns):
            message = f"has {len(cells)} cells, the header {len(columns)}"
            problems.append(Problem(file=file, line=line, message=message))
            continue
        if outcome is not None and cells[outcome] != _FINISHED:
            others[cells[outcome] or "without a status"] += 1
            continue
        job = _job(columns, cells)
        jobs.append(job)
        # A row has one line, so every field of its job stands there.
        cells_at: dict[str, Place] = dict.fromkeys(job, line)
        places.append((line, cells_at))
    if problems:
        raise SpecError(problems)
    # Jobs that are left out are counted by status in a note.
    left_out = ", ".join(f"{count} {status}" for status, count in sorted(others.items()))
    notes = (f"{file}: jobs left out: {left_out}",) if left_out else ()
    return Document(file=file, data=jobs, place=(1, places), columns=_COLUMN_OF, notes=notes)


def _rows(file: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty rows, each with the line it ends at."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        raise SpecError(
            Problem(file=file, line=reader.line_num, message=f"is not CSV: {error}")
        ) from None


def _header_problems(file: str, line: int, columns: list[str], ended: bool) -> Iterator[Problem]:
    allowed = ", ".join(COLUMNS)
    other = next((one for one in ";\t|" if len(columns) == 1 and one in columns[0]), "")
    if other:
        message = f"has {other!r} between its cells; write commas"
        yield Problem(file=file, line=line, message=message)
        return
    for index, name in enumerate(columns):
        if name not in COLUMNS and not (ended and name in RESULTS):
            message = f"unknown column {shown(name)}; {hint(name, COLUMNS)}allowed: {allowed}"
            yield Problem(file=file, line=line, message=message)
        elif name in columns[:index]:
            yield Problem(file=file, line=line, field=name, message="the column stands twice")
    if "job" not in columns:
        message = f"the column job is missing; columns: {allowed}"
        yield Problem(file=file, line=line, message=message)


def _job(columns: list[str], cells: list[str]) -> dict[str, Any]:
    """Return one row as the mapping of a job, by field; the columns of results are left out."""
    return {
        COLUMNS[column]: _value(column, cell)
        for column, cell in zip(columns, cells, strict=True)
        if cell and column in COLUMNS
    }


def _value(column: str, cell: str) -> Any:
    """Return a number where the column holds numbers and the cell is one; else the cell's text."""
    # Text in a column of numbers is refused by the schema, which names the field.
    if column in _WHOLE and INT.fullmatch(cell):
        return int(cell)
    if column == "weight" and len(cell) <= 400 and FLOAT.fullmatch(cell):
        return float(cell)
    return cell


# Keys that distinguish a run file from a job.
RUN_KEYS: Final = frozenset({"cluster", "workload"})
JOB_KEYS: Final = frozenset({"app", "model"})


def documents(path: str, text: str, ended: bool = False) -> Document:
    """Parse a jobs file: CSV by its name, else YAML. ``ended``: its jobs have ended.

    Raises SpecError if it cannot be read as that kind.
    """
    if path.endswith(".csv"):
        return parse_jobs_csv(path, text, ended)
    return parse_document(path, text)


def cluster_of(
    document: Document, at: Path, problems: list[Problem], nearby: FilesBeside
) -> Cluster | None:
    """Return the cluster that stands at ``at``, or None and problems."""
    spec = check(ClusterSpec, document, problems, at)
    return None if spec is None else build_cluster(spec, document, at, problems, nearby)


def jobs_of(
    document: Document, context: JobContext, problems: list[Problem]
) -> tuple[Job, ...] | None:
    """Return the jobs of a jobs file in file order: one job, a list, or a mapping with ``jobs``."""
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
    return bool(RUN_KEYS & keys) and not (JOB_KEYS | {"jobs"}) & keys


def _give_jobs(workload: Any) -> str:
    """Return the advice for a run file that was given as a jobs file."""
    inside = workload.get("jobs") if isinstance(workload, dict) else workload
    if isinstance(inside, list):
        return "this is a run file; give a file of its jobs alone, as `workload:` lists them"
    named = f", {shown(inside)}" if isinstance(inside, str) else ""
    return f"this is a run file; give its jobs file{named}"


def jobs_at(
    document: Document, at: Path, context: JobContext, problems: list[Problem]
) -> tuple[Job, ...] | None:
    """Return the jobs of a list that stands at ``at``; None and problems where it is wrong."""
    specs = check(list[JobSpec], document, problems, at)
    if specs is not None and not specs:
        problems.append(document.problem(at, "holds no job"))
        return None
    return specs and build_jobs(specs, document, at, context, problems)
