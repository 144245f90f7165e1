"""Read any table of jobs: its user says which column means what, and in which unit.

*Source.* None: ``workload.trace.columns`` and ``units`` in ``docs/files.md``.

*Differs.* A job with a run time alone is rounds of ``round_s``, as for Philly; with ``rounds`` too,
each round takes run time / rounds, all of it T^c; with ``rounds`` alone its ``model`` prices them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from math import ceil
from typing import Final

from warren.model.units import NEVER_NS, NS_PER_S
from warren.workload.traces.csv_cells import CsvCells, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.rows import NO_DURATION, BadRow, NoJob, TraceRequest, TraceRow

FIELDS: Final = (
    "name",
    "submitted",
    "run",
    "started",
    "ended",
    "gpus",
    "rounds",
    "model",
    "batch",
    "weight",
    "user",
    "group",
    "pool",
)
TIMES: Final = ("submitted", "run", "started", "ended")
UNITS: Final[Mapping[str, int]] = {
    "us": 1000,
    "ms": 10**6,
    "s": NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86_400 * NS_PER_S,
}
"""Nanoseconds of each unit that a number can have."""
DATE: Final = "date"
"""An instant as ``2020-04-01 12:30:00``, with or without a T, parts of a second and a time zone."""
CLOCK: Final = "clock"
"""A run time as ``12:30:00``, ``3-12:30:00`` or ``30:00``."""
_SUCH_AS: Final = {DATE: ", such as 2020-04-01 12:30:00", CLOCK: ", such as 12:30:00"}
SEPARATORS: Final[Mapping[str, str]] = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
USUAL: Final = "comma"
_NUMBER: Final = re.compile(r"\d{1,20}(\.\d{0,20})?([eE][+-]?\d{1,2})?")
_CLOCK: Final = re.compile(r"(?:(?:(\d{1,5})-)?(\d{1,5}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)")


def mapping_problem(columns: Mapping[str, str], units: Mapping[str, str]) -> str:
    """Return what is wrong with a choice of columns and units, in one line; empty if nothing."""
    lacks = [name for name in ("submitted",) if name not in columns]
    # Lengths of jobs: a run time, both its ends, or rounds of a model that has a price.
    runs = "run" in columns or {"started", "ended"} <= {*columns}
    if not runs and not {"rounds", "model"} <= {*columns}:
        lacks.append("run (or started and ended, or rounds and model)")
    if lacks:
        return f"columns needs {' and '.join(lacks)}; allowed: {', '.join(FIELDS)}"
    if "run" in columns and {"started", "ended"} & {*columns}:
        return "columns needs run, or started and ended, and not both"
    for field, unit in units.items():
        allowed = (*UNITS, CLOCK if field == "run" else DATE)
        if field not in columns:
            return f"units names {field}, which columns does not"
        if unit not in allowed:
            return f"units: {field}: {unit!r}; allowed: {', '.join(allowed)}"
    return ""


def time_cell_ns(value: str, unit: str) -> int | None:
    """Return a time in nanoseconds; None if the text is no time in this unit.

    An instant is counted from 1970; without a time zone it is taken as it stands.
    """
    if unit == DATE:
        return _date_ns(value)
    if unit == CLOCK:
        match = _CLOCK.fullmatch(value)
        if match is None:
            return None
        # Decimal: exact to the nanosecond, whatever parts of a second there are.
        days, hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
        return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * NS_PER_S)
    if not _NUMBER.fullmatch(value):
        return None
    time_ns = Decimal(value) * UNITS[unit]
    return int(time_ns) if time_ns < NEVER_NS else None


def _date_ns(value: str) -> int | None:
    """Return an instant in nanoseconds since 1970; None if the text is none in range."""
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    # Only differences of instants count, so any one zone will do.
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    # In whole numbers: a float of seconds since 1970 does not hold nanoseconds.
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    time_ns = (since.days * 86_400 + since.seconds) * NS_PER_S + since.microseconds * 1000
    return time_ns if 0 <= time_ns < NEVER_NS else None


def _read(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    return rows_of(request, tuple(request.columns.values()), partial(_row, request))


def _row(request: TraceRequest, cells: CsvCells) -> TraceRow:
    columns = request.columns

    def text(field: str) -> str:
        return cells.text(columns[field]) if field in columns else ""

    def count(field: str, least: int = 1) -> int | None:
        return cells.count(columns[field], least) if text(field) else None

    def time_ns(field: str) -> int:
        value, unit = cells.values.get(columns[field], ""), request.units.get(field, "s")
        found = time_cell_ns(value, unit)
        if found is None:
            example = _SUCH_AS.get(unit, "")
            raise BadRow(f"{columns[field]} is not a time in the unit {unit}{example}", value)
        return found

    run_ns = None
    if "run" in columns:
        run_ns = time_ns("run")
    elif "ended" in columns:
        run_ns = time_ns("ended") - time_ns("started")
        if run_ns < 0:
            raise BadRow("ends before it starts")
    rounds = count("rounds")
    # Each round would take no time.
    if rounds is not None and run_ns == 0:
        raise BadRow(NO_DURATION)
    # With both known, each round takes its part of the run time.
    round_s = None if rounds is None or run_ns is None else run_ns / rounds / NS_PER_S
    asked = cells.number_of(columns["gpus"]) if "gpus" in columns else 1.0
    return TraceRow(
        line=cells.line,
        name=cells.name(columns["name"]) if "name" in columns else cells.row_name,
        submitted_ns=time_ns("submitted"),
        gpus=ceil(asked),
        run_ns=run_ns,
        steps=rounds,
        prices=None if round_s is None else dict.fromkeys(request.types, (round_s, 0.0)),
        model=text("model"),
        batch=count("batch") or 1,
        weight=_weight(cells, columns["weight"]) if text("weight") else 1.0,
        user=text("user"),
        group=text("group"),
        pool=text("pool"),
        remark="" if asked == ceil(asked) else "asks for a part of a GPU and gets a whole one",
    )


def _weight(cells: CsvCells, column: str) -> float:
    weight = cells.number_of(column)
    if weight <= 0:
        raise BadRow(f"{column} is not more than 0", cells.values[column])
    return weight


FORMAT: Final = TraceFormat(
    # Never detected: a table is read so only where the user says what its columns mean.
    looks=lambda head: False,
    read=_read,
)
