"""``jobs.csv`` becomes the same values that a YAML list of jobs gives."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.workload.text import decoded, shown
from warren.workload.yaml_document import Document, Place

COLUMNS: Final[Mapping[str, str]] = {
    "job": "name",
    "arrival_s": "arrival",
    **{name: name for name in ("model", "batch", "scale", "rounds", "weight", "sync", "user")},
    **{name: name for name in ("group", "app", "seed")},
}
"""Column of the file: field of a job."""
_STATUS: Final = "status"
_FINISHED: Final = "finished"
RESULTS: Final = (
    "start_s", "finish_s", "jct_s", _STATUS, "params_sha256", "final_loss", "numerics",
    "app_sha256",
)  # fmt: skip
"""Columns that only the table of a run has: what became of its jobs."""
_COLUMN_OF: Final = {field: column for column, field in COLUMNS.items()}
_WHOLE: Final = frozenset({"batch", "scale", "rounds", "seed"})
_INT: Final = re.compile(r"[+-]?[0-9]{1,400}")
_FLOAT: Final = re.compile(r"[+-]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][+-]?[0-9]+)?")


def parse_jobs_csv(file: str, content: bytes, ended: bool = False) -> Document:
    """The rows as a document of job mappings; empty cells are left out (defaults hold).

    ``ended``: the table may be the one that a run writes; of such a one the jobs that finished.

    Raises
    ------
    SpecError
        If the text is no CSV, the header is wrong, or a row is too short or too long.
    """
    rows = _rows(file, decoded(file, content))
    header = next(rows, None)
    if header is None:
        raise SpecError(Problem(file=file, message="is empty; the first line names the columns"))
    problems = list(_header_problems(file, *header, ended))
    if problems:
        raise SpecError(problems)
    columns = header[1]
    outcome = columns.index(_STATUS) if _STATUS in columns else None
    others = Counter[str]()
    jobs: list[dict[str, Any]] = []
    places: list[Place] = []
    for line, cells in rows:
        if len(cells) != len(columns):
            message = f"has {len(cells)} cells, the header {len(columns)}"
            problems.append(Problem(file=file, line=line, message=message))
            continue
        if outcome is not None and cells[outcome] != _FINISHED:
            others[cells[outcome] or "without a status"] += 1
            continue
        job = _job(columns, cells)
        jobs.append(job)
        cells_at: dict[str, Place] = dict.fromkeys(job, line)
        places.append((line, cells_at))
    if problems:
        raise SpecError(problems)
    told = ", ".join(f"{count} {status}" for status, count in sorted(others.items()))
    notes = (f"{file}: jobs left out: {told}",) if told else ()
    return Document(file=file, data=jobs, place=(1, places), columns=_COLUMN_OF, notes=notes)


def _rows(file: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Non-empty rows with the line each ends at."""
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
    for index, name in enumerate(columns):
        if name not in COLUMNS and not (ended and name in RESULTS):
            near = get_close_matches(name[:100], list(COLUMNS), n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            message = f"unknown column {shown(name)}; {hint}allowed: {', '.join(COLUMNS)}"
            yield Problem(file=file, line=line, message=message)
        elif name in columns[:index]:
            yield Problem(file=file, line=line, field=name, message="the column stands twice")
    if "job" not in columns:
        message = f"the column job is missing; columns: {', '.join(COLUMNS)}"
        yield Problem(file=file, line=line, message=message)


def _job(columns: list[str], cells: list[str]) -> dict[str, Any]:
    return {
        COLUMNS[column]: _value(column, cell)
        for column, cell in zip(columns, cells, strict=True)
        if cell and column in COLUMNS
    }


def _value(column: str, cell: str) -> Any:
    """A number where the column holds numbers and the cell is one; else the text, to be refused."""
    if column in _WHOLE and _INT.fullmatch(cell):
        return int(cell)
    if column == "weight" and len(cell) <= 400 and _FLOAT.fullmatch(cell):
        return float(cell)
    return cell
