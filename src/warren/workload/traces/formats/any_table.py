"""Read any table of jobs: its user gives the meaning of each column, and its unit.

*Source.* None: ``workload.trace.columns`` and ``units`` in ``docs/reference/run-file.md``.

*Differs.* A job with a run time alone is rounds of ``round_s``, as for Philly; with ``rounds`` too,
each round takes run time / rounds, all of it T^c; with ``rounds`` alone its ``model`` prices them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from math import ceil
from typing import Final

from warren.model.units import NEVER_NS, NS_PER_S
from warren.workload.traces.csv_cells import CsvCells, cells_of, rows_of
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.instants import Zones, instant, since_1970_ns
from warren.workload.traces.rows import (
    NO_DURATION,
    PART_OF_GPU,
    STEP,
    BadRow,
    NoJob,
    TraceRequest,
    TraceRow,
)
from warren.workload.traces.slurm_cells import (
    NEVER_RAN,
    NOT_ENDED,
    UNDER_WAY,
    WAITING,
    gpus_of,
    job_of_step,
    state_of,
    tells_nothing,
)

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
    "state",
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
ZONELESS: Final = "a time has no time zone beside others that have one"
SEPARATORS: Final[Mapping[str, str]] = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
USUAL: Final = "comma"
_NUMBER: Final = re.compile(r"\d{1,20}(\.\d{0,20})?([eE][+-]?\d{1,2})?")
_CLOCK: Final = re.compile(r"(?:(?:(\d{1,5})-)?(\d{1,5}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)")


def lacking(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that a table needs and ``columns`` lacks, each with its alternatives."""
    lacks = {} if "submitted" in columns else {"submitted": "submitted"}
    # Lengths of jobs: a run time, both its ends, or rounds of a model that has a price.
    runs = "run" in columns or {"started", "ended"} <= {*columns}
    if not runs and not {"rounds", "model"} <= {*columns}:
        lacks["run"] = "run (or started and ended, or rounds and model)"
    return lacks


def mapping_problem(columns: Mapping[str, str], units: Mapping[str, str]) -> str:
    """Return the fault of a choice of columns and units, in one line; empty if there is none."""
    if lacks := lacking(columns):
        return f"columns needs {' and '.join(lacks.values())}; allowed: {', '.join(FIELDS)}"
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
        when = instant(value)
        return None if when is None else since_1970_ns(when)
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


def _read(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    table = _Table(request)
    return rows_of(request, tuple(request.columns.values()), partial(_row, request, table))


class _Table:
    """Facts about all rows that each one needs: their time zones, and the ids of all jobs."""

    def __init__(self, request: TraceRequest) -> None:
        name = request.columns.get("name")
        dates = [request.columns[field] for field, unit in request.units.items() if unit == DATE]
        self.names: set[str] = set()
        times: list[str] = []
        for cells in cells_of(request, tuple(request.columns.values())):
            if isinstance(cells, CsvCells):
                times += [cells.values[column] for column in dates]
                if name is not None:
                    self.names.add(cells.values[name])
        self.zones = Zones(times)


class _Fields:
    """The cells of a row by their meaning, and remarks on assumptions about them."""

    def __init__(self, request: TraceRequest, table: _Table, cells: CsvCells) -> None:
        self._columns = request.columns
        self._units = request.units
        self._zones = table.zones
        self._cells = cells
        self.remarks: dict[str, None] = {}

    def text(self, field: str) -> str:
        """Return a text; empty if the table does not have the column."""
        return self._cells.text(self._columns[field]) if field in self._columns else ""

    def count(self, field: str) -> int | None:
        """Return a whole number of at least 1; None where there is none."""
        return self._cells.count(self._columns[field], 1) if self.text(field) else None

    def time_ns(self, field: str) -> int:
        """Return a time in the unit of its column."""
        column, unit = self._columns[field], self._units.get(field, "s")
        value = self._cells.values.get(column, "")
        if unit == DATE and (when := instant(value)) is not None:
            when, zone = self._zones.placed(when)
            if zone:
                self.remarks[f"{ZONELESS}; {zone} is assumed, that of the nearest such time"] = None
            found = since_1970_ns(when)
        else:
            found = time_cell_ns(value, unit)
        if found is None:
            example = _SUCH_AS.get(unit, "")
            shape = CLOCK if field == "run" else DATE
            if unit != shape and time_cell_ns(value, shape) is not None:
                example = f"; units: {field}: {shape} reads it"
            raise BadRow(f"{column} is not a time in the unit {unit}{example}", value)
        return found

    def run_ns(self) -> int | None:
        """Return the run time; None where no column tells it."""
        state = state_of(self.text("state"))
        if state in UNDER_WAY:
            self.remarks[NOT_ENDED] = None
        if "run" in self._columns:
            cell = self._cells.values[self._columns["run"]]
            if state in WAITING and (tells_nothing(cell) or not re.search("[1-9]", cell)):
                raise BadRow(f"{NEVER_RAN}: {state}")
            return self.time_ns("run")
        if "ended" not in self._columns:
            return None
        for field, states, why in (
            ("started", WAITING, NEVER_RAN),
            ("ended", UNDER_WAY, "has not ended"),
        ):
            if state in states and tells_nothing(self._cells.values[self._columns[field]]):
                raise BadRow(f"{why}: {state}")
        found = self.time_ns("ended") - self.time_ns("started")
        if found < 0:
            # A clock that was set back shows so, in times without a zone.
            ends = (self._cells.values[self._columns[field]] for field in ("started", "ended"))
            raise BadRow("ends before it starts", " to ".join(ends))
        return found


def _row(request: TraceRequest, table: _Table, cells: CsvCells) -> TraceRow:
    columns, fields = request.columns, _Fields(request, table, cells)
    name = cells.name(columns["name"]) if "name" in columns else cells.row_name
    if job_of_step(name) in table.names:
        raise BadRow(STEP, name)
    run_ns, rounds = fields.run_ns(), fields.count("rounds")
    # Each round would take no time.
    if rounds is not None and run_ns == 0:
        raise BadRow(NO_DURATION)
    # With both known, each round takes its part of the run time.
    round_s = None if rounds is None or run_ns is None else run_ns / rounds / NS_PER_S
    asked = _gpus(cells, columns["gpus"]) if "gpus" in columns else 1.0
    if asked != ceil(asked):
        fields.remarks[PART_OF_GPU] = None
    return TraceRow(
        line=cells.line,
        name=name,
        submitted_ns=fields.time_ns("submitted"),
        gpus=ceil(asked),
        run_ns=run_ns,
        steps=rounds,
        prices=None if round_s is None else dict.fromkeys(request.types, (round_s, 0.0)),
        model=fields.text("model"),
        batch=fields.count("batch") or 1,
        weight=_weight(cells, columns["weight"]) if fields.text("weight") else 1.0,
        user=fields.text("user"),
        group=fields.text("group"),
        pool=fields.text("pool"),
        remarks=tuple(fields.remarks),
    )


def _gpus(cells: CsvCells, column: str) -> float:
    """Return a cell's GPUs: a number, or those of a list of resources."""
    listed = gpus_of(cells.values[column])
    return cells.number_of(column) if listed is None else listed


def _weight(cells: CsvCells, column: str) -> float:
    weight = cells.number_of(column)
    if weight <= 0:
        raise BadRow(f"{column} is not more than 0", cells.values[column])
    return weight


FORMAT: Final = TraceFormat(
    # Never detected: a table is read like this only if the user gives the meaning of its columns.
    looks=lambda head: False,
    read=_read,
)
