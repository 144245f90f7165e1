"""Propose a meaning for each column of an unknown table of jobs, by names and first rows.

A proposal to look at, never used silently: a name says little about a unit.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.workload.text import unpacked
from warren.workload.traces.formats.any_table import (
    CLOCK,
    DATE,
    SEPARATORS,
    TIMES,
    UNITS,
    lacking,
    mapping_problem,
    time_cell_ns,
)

_LOOKED_AT_BYTES: Final = 1 << 16
_LOOKED_AT_ROWS: Final = 50
# Names in small letters without separators of words; earlier ones are preferred.
_NAMES: Final[Mapping[str, str]] = {
    "name": "jobid id job jobname name jobidraw uuid",
    "submitted": "submit submitted submittime submittedat submissiontime submission submitat "
    "arrival arrivaltime arrivedat createtime createdat creationtime queuedat timestamp time",
    "run": "run runtime duration dur elapsed elapsedtime runningtime executiontime jobduration "
    "walltime wallclock wallclocktime wall",
    "started": "start started starttime startedat begintime scheduledtime",
    "ended": "end ended endtime endedat finish finishtime finishedat completiontime deletiontime",
    "gpus": "gpus gpu numgpu numgpus ngpus ngpu gpunum gpucount reqgpus allocgpus scale workers "
    "numreplicas alloctres reqtres allocgres reqgres tres gres",
    "rounds": "rounds iterations iteration steps numsteps totalsteps",
    "model": "model modelname application app",
    "batch": "batch batchsize",
    "weight": "weight priorityweight",
    "user": "user username uid owner",
    "pool": "vc cluster virtualcluster partition queue",
    "state": "state status jobstate jobstatus",
}
_INSTEAD: Final = ("started", "ended")
"""Fields that stand in place of a run time."""
_SPELT: Final[Mapping[str, str]] = {
    **{name: name for name in UNITS},
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "msec": "ms",
    "milliseconds": "ms",
    "usec": "us",
    "mins": "min",
    "minutes": "min",
    "hour": "h",
    "hours": "h",
    "hrs": "h",
    "days": "d",
}
_LONG_AGO: Final = (("us", 1e14), ("ms", 1e11))
"""A number of seconds since 1970 is smaller than this: larger ones count these units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposal: ``columns`` by field, ``units`` of times, ``separator`` by name.

    ``header``: all columns that the table has.
    """

    columns: Mapping[str, str]
    units: Mapping[str, str]
    separator: str
    header: tuple[str, ...]

    @property
    def problem(self) -> str:
        """Return its gap; empty if a table can be read by it."""
        return mapping_problem(self.columns, self.units)

    @property
    def lacking(self) -> Mapping[str, str]:
        """Return the fields that no column was found for, each with its alternatives."""
        return lacking(self.columns)


def propose(file: str, content: bytes) -> Proposal | None:
    """Propose the meaning of a table's columns; None if it is no table with a line of names.

    Raises SpecError if it is damaged gzip data.
    """
    text = unpacked(file, content)[:_LOOKED_AT_BYTES].decode("utf-8-sig", errors="replace")
    lines = text.splitlines()[: _LOOKED_AT_ROWS + 1]
    if len(lines) < 2:
        return None
    # The separator that the line of names has most of; of equal ones the first.
    separator = max(SEPARATORS, key=lambda name: lines[0].count(SEPARATORS[name]))
    rows = csv.reader(io.StringIO("\n".join(lines)), delimiter=SEPARATORS[separator])
    try:
        header, *cells = [[cell.strip() for cell in row] for row in rows if row]
    except csv.Error:
        return None
    # A first line with a cell that has no letters, and is not empty, is a row of data.
    named = len(header) > 1 and all(re.search("[A-Za-z]", name) for name in header if name)
    columns = dict(_columns(header))
    if "run" in columns:
        columns = {field: name for field, name in columns.items() if field not in _INSTEAD}
    # A table in which fewer than half of the rows are as long as the first line is none.
    if not named or 2 * sum(len(row) == len(header) for row in cells) < len(cells):
        return None
    units = {
        field: unit
        for field, name in columns.items()
        if field in TIMES and (unit := _unit(field, name, _samples(header, cells, name))) != "s"
    }
    return Proposal(columns=columns, units=units, separator=separator, header=tuple(header))


def _columns(header: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield for each field the first of its names that the table has, with the column."""
    # Reversed: of two columns with one plain name the first counts.
    plain = {_plain(name): name for name in reversed(header)}
    for field, names in _NAMES.items():
        if found := next((plain[name] for name in names.split() if name in plain), None):
            yield field, found


def _words(name: str) -> list[str]:
    """Return the words of a column's name: ``submitTime_ms`` has submit, time and ms."""
    return re.findall("[a-z0-9]+", re.sub("([a-z])([A-Z])", r"\1 \2", name).lower())


def _plain(name: str) -> str:
    """Return a name in small letters, without separators of words and without its unit."""
    words = _words(name)
    return "".join(words[:-1] if len(words) > 1 and words[-1] in _SPELT else words)


def _samples(header: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> list[str]:
    at = header.index(name)
    return [row[at] for row in rows if len(row) > at and row[at]]


def _unit(field: str, name: str, samples: Sequence[str]) -> str:
    """Return a time's unit: from the name if it has one, or the form of the cells, or seconds."""
    last = _words(name)[-1]
    if last in _SPELT:
        return _SPELT[last]
    shape = CLOCK if field == "run" else DATE
    numbers = [float(one) for one in samples if time_cell_ns(one, "us") is not None]
    # Read as us, any number is a time: that tells numbers from dates and clock times.
    shaped = sum(time_cell_ns(one, shape) is not None for one in samples)
    if shaped > len(numbers):
        return shape
    # Instants counted since 1970 tell their unit by their size; run times may have any.
    if field != "run" and numbers:
        return next((unit for unit, least in _LONG_AGO if max(numbers) > least), "s")
    return "s"
