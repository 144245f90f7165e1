"""Read the metrics of jobs in an earlier run: ``truth: {metrics: ...}`` of a run file.

It is the folder ``metrics`` of a result folder, with a table for each job, or its content: by the
job's name a list of pairs, the rounds done and the value of the metric of its stop rule.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from warren.model.errors import Problem, SpecError
from warren.model.job import Job, metric_column
from warren.workload.named_files import NamedFiles
from warren.workload.text import FLOAT, INT, decoded, shown

MetricsByJob: TypeAlias = Mapping[str, tuple[tuple[int, float], ...]]
AT: Final = ("truth", "metrics")


def recorded_metrics(
    stated: str | Mapping[str, Sequence[Sequence[float]]], jobs: Sequence[Job], files: NamedFiles
) -> MetricsByJob:
    """Return the values by job, of the jobs that have a stop rule; problems go to ``files``."""
    by_name = {job.name: job for job in jobs if job.stop is not None}
    found: dict[str, tuple[tuple[int, float], ...]] = {}
    if isinstance(stated, str):
        for name, job in by_name.items():
            points = files.attempt(partial(_table, f"{stated.rstrip('/')}/{name}.csv", job, files))
            found[name] = points or ()
    else:
        for name, pairs in stated.items():
            if name not in by_name:
                _refuse(files, name, "no job of this name has a stop rule")
            whole = [(int(rounds), float(value)) for rounds, value in pairs]
            if any(given != rounds for (given, _), (rounds, _) in zip(pairs, whole, strict=True)):
                _refuse(files, name, "a pair is a whole number of rounds and a value")
            found[name] = tuple(whole)
    for name, points in found.items():
        if name in by_name and (message := _wrong(points, by_name[name])):
            _refuse(files, name, message)
    return found


def _refuse(files: NamedFiles, name: str, message: str) -> None:
    files.problems.append(files.document.problem((*AT, name), message))


def _wrong(points: Sequence[tuple[int, float]], job: Job) -> str:
    """Describe the fault of a job's values; empty if there is none."""
    rounds = [done for done, _ in points]
    if rounds != sorted(set(rounds)) or (rounds and rounds[0] < 1):
        return "the rounds done must grow from pair to pair, from 1 on"
    if not all(math.isfinite(value) for _, value in points):
        return "a value must be finite"
    assert job.stop is not None
    for done, value in points:
        # A simulated job ends by its rounds alone.
        if job.stop.holds({job.stop.metric: value}) and (job.rounds is None or done < job.rounds):
            return f"its target is met after {done} rounds: the job must state rounds: {done}"
    return ""


def _table(named: str, job: Job, files: NamedFiles) -> tuple[tuple[int, float], ...]:
    """Return the values in a table of the folder; none, with a problem, if it cannot be read."""
    content = files.content(AT, named)
    if content is None:
        return ()
    return _column(files.joined(named), decoded(files.joined(named), content), job)


def _column(file: str, text: str, job: Job) -> tuple[tuple[int, float], ...]:
    """Return the values of a job's metric in the table that a run wrote.

    A round that was computed again after a roll-back stands there again: its last row counts.
    Raises SpecError where the table is none.
    """
    assert job.stop is not None
    column = metric_column(job.stop.metric)
    found: dict[int, float] = {}
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        for needed in ("round", column):
            if needed not in (rows.fieldnames or ()):
                raise SpecError(Problem(file=file, message=f"has no column {needed}"))
        for row in rows:
            number, value = row["round"], row[column]
            # A run writes nan where a metric was none: no target is met there.
            if not value or value == "nan":
                continue
            if INT.fullmatch(number) is None or FLOAT.fullmatch(value) is None:
                message = f"{shown(number)}, {shown(value)} are not a round and a value"
                raise SpecError(Problem(file=file, line=rows.line_num, message=message))
            found[int(number) + 1] = float(value)
    except csv.Error as error:
        raise SpecError(Problem(file=file, message=f"is not CSV: {error}")) from None
    return tuple(sorted(found.items()))
