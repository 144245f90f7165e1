"""The exported tables: ``jobs.csv``, ``devices.csv``, ``profile.csv`` as text, and back.

``timeline.parquet`` is written and read in ``parquet`` and named here beside the others.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from warren.model.costs import CostTable
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.model.units import NEVER_NS, ns_to_seconds, seconds_to_ns
from warren.report.metrics import job_rows
from warren.report.parquet import read_timeline_parquet, timeline_parquet
from warren.report.record import Record

__all__ = [
    "devices_csv",
    "jobs_csv",
    "profile_csv",
    "read_devices_csv",
    "read_jobs_csv",
    "read_profile_csv",
    "read_profile_rows",
    "read_timeline_parquet",
    "timeline_parquet",
]

JOBS: Final = "jobs.csv"
DEVICES: Final = "devices.csv"
PROFILE: Final = "profile.csv"

JOB_COLUMNS: Final = (
    "job",
    "arrival_s",
    "start_s",
    "finish_s",
    "jct_s",
    "weight",
    "rounds",
    "scale",
    "status",
    "model",
    "batch",
    "sync",
    "user",
    "group",
    "seed",
)
LIVE_COLUMNS: Final = ("params_sha256", "final_loss", "numerics", "app_sha256")
DEVICE_COLUMNS: Final = ("device", "type", "host")
PROFILE_COLUMNS: Final = ("job", "type", "comp_s", "sync_s")
SWITCH_COLUMN: Final = "switch_s"
"""The last of ``profile.csv`` where switching between jobs is charged."""

_FLOATS: Final = frozenset(
    {
        "arrival_s",
        "start_s",
        "finish_s",
        "jct_s",
        "weight",
        "final_loss",
        "comp_s",
        "sync_s",
        SWITCH_COLUMN,
    }
)
_INTS: Final = frozenset({"rounds", "scale", "batch", "seed"})
_MAY_BE_EMPTY: Final = frozenset(
    {"start_s", "finish_s", "jct_s", "rounds", "model", "user", "group", *LIVE_COLUMNS}
)

_MAY_DIVERGE: Final = frozenset({"final_loss"})
"""What is infinite, or no number, where a job's training was."""


def jobs_csv(record: Record) -> str:
    """``jobs.csv``: one line a job; an unknown value is an empty field; seconds are ns / 1e9."""
    columns = JOB_COLUMNS + LIVE_COLUMNS if record.live else JOB_COLUMNS
    return _text(columns, ([row[name] for name in columns] for row in job_rows(record)))


def devices_csv(record: Record) -> str:
    """``devices.csv``: one line a device, in cluster order."""
    return _text(DEVICE_COLUMNS, ([d.name, d.type, d.host] for d in record.run.cluster.devices))


def profile_csv(record: Record) -> str:
    """``profile.csv``: T^c and T^s in seconds of each job on each type it fits, as used.

    Where switching between jobs is charged, ``switch_s`` says what a switch to the job takes.
    """
    charged = record.costs.switch_ns_JT is not None
    return _text([*PROFILE_COLUMNS, *[SWITCH_COLUMN] * charged], _profile_rows(record))


def _profile_rows(record: Record) -> Iterable[list[Any]]:
    costs = record.costs
    for job in record.run.workload.jobs:
        for column, type_name in enumerate(record.run.cluster.type_names):
            if costs.fits_JT[job.index, column]:
                comp_ns = int(costs.comp_ns_JT[job.index, column])
                sync_ns = int(costs.sync_ns_JT[job.index, column])
                row = [job.name, type_name, ns_to_seconds(comp_ns), ns_to_seconds(sync_ns)]
                if costs.switch_ns_JT is not None:
                    row.append(ns_to_seconds(int(costs.switch_ns_JT[job.index, column])))
                yield row


def _text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def read_jobs_csv(data: bytes, file: str = JOBS) -> list[dict[str, Any]]:
    """Rows of ``jobs.csv`` with typed values; an empty field is None.

    Raises
    ------
    SpecError
        If a column is missing or a value is not of its kind; all problems at once.
    """
    return _read(data, JOB_COLUMNS, file)


def read_devices_csv(data: bytes, file: str = DEVICES) -> list[dict[str, Any]]:
    """Rows of ``devices.csv``; raises SpecError as ``read_jobs_csv`` does."""
    return _read(data, DEVICE_COLUMNS, file)


def read_profile_rows(data: bytes, file: str = PROFILE) -> list[dict[str, Any]]:
    """Rows of ``profile.csv``; raises SpecError as ``read_jobs_csv`` does."""
    return _read(data, PROFILE_COLUMNS, file)


def read_profile_csv(data: bytes, run: Run, file: str = PROFILE) -> CostTable:
    """The cost table that ``profile.csv`` was written from; what has no row does not fit.

    Raises
    ------
    SpecError
        If the table is malformed or names a job or a type that ``run`` does not have.
    """
    place_J = {job.name: job.index for job in run.workload.jobs}
    place_T = {name: index for index, name in enumerate(run.cluster.type_names)}
    comp_ns_JT = np.full((len(place_J), len(place_T)), NEVER_NS, dtype=np.int64)
    sync_ns_JT = comp_ns_JT.copy()
    switch_ns_JT = np.zeros_like(comp_ns_JT)
    problems = []
    rows = read_profile_rows(data, file)
    for line, row in enumerate(rows, start=2):
        if row["job"] not in place_J or row["type"] not in place_T:
            message = f"no job {row['job']} or no device type {row['type']} in this run"
            problems.append(Problem(file=file, line=line, message=message))
            continue
        place = place_J[row["job"]], place_T[row["type"]]
        comp_ns_JT[place] = seconds_to_ns(row["comp_s"])
        sync_ns_JT[place] = seconds_to_ns(row["sync_s"])
        switch_ns_JT[place] = seconds_to_ns(row.get(SWITCH_COLUMN, 0.0))
    if problems:
        raise SpecError(problems)
    return CostTable(
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=sync_ns_JT,
        fits_JT=comp_ns_JT < NEVER_NS,
        switch_ns_JT=switch_ns_JT if any(SWITCH_COLUMN in row for row in rows) else None,
    )


def _read(data: bytes, columns: Sequence[str], file: str) -> list[dict[str, Any]]:
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SpecError(Problem(file=file, message=f"not a CSV file: {error}")) from error
    header = lines[0] if lines else []
    if tuple(header[: len(columns)]) != tuple(columns):
        message = f"the columns must be {','.join(columns)}; found {','.join(header)}"
        raise SpecError(Problem(file=file, line=1, message=message))
    problems: list[Problem] = []
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            message = f"{len(line)} fields where the header has {len(header)}"
            problems.append(Problem(file=file, line=number, message=message))
            continue
        row = {name: _value(name, text) for name, text in zip(header, line, strict=True)}
        problems += [
            Problem(file=file, line=number, field=name, message=value.message)
            for name, value in row.items()
            if isinstance(value, _Wrong)
        ]
        rows.append(row)
    if problems:
        raise SpecError(problems)
    return rows


class _Wrong:
    """A field that is not of its column's kind."""

    def __init__(self, message: str) -> None:
        self.message = message


def _value(name: str, text: str) -> Any:
    number = name in _FLOATS or name in _INTS
    if text == "" and name in _MAY_BE_EMPTY:
        return "" if name in ("user", "group") else None
    if not number:
        return text
    try:
        value = int(text) if name in _INTS else float(text)
    except ValueError:
        return _Wrong(f"{text!r} is not {'a whole' if name in _INTS else 'a'} number")
    if math.isfinite(value) or name in _MAY_DIVERGE:
        return value
    return _Wrong(f"{text!r} is not finite")
