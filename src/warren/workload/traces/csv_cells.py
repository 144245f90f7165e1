"""Read rows of CSV text, and the kinds of cells that traces have."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.model.units import NEVER_NS, NS_PER_S, seconds_to_ns
from warren.workload.text import MAX_UNPACKED_BYTES, decoded, shown, unpacked
from warren.workload.traces.rows import BadRow, NoJob, TraceRequest, TraceRow

# Longest text of a cell, columns that a message lists, and largest time: about 31 years.
MAX_TEXT: Final = 150
_NAMES: Final = 12
_MAX_S: Final = 1e9
_NUMBER: Final = re.compile(r"\d{1,15}(\.\d{0,20})?([eE][+-]?\d{1,2})?")
_COUNT: Final = re.compile(r"(\d{1,12})(\.0{0,9})?")
_WHEN: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - traces state no time zone


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvCells:
    """One row of a table: its line, its number from 1, and its cells by column."""

    line: int
    number: int
    values: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return a cell's text, printable and of at most ``MAX_TEXT`` characters; it may be empty.

        Raises BadRow if it is anything else; the methods below raise it alike.
        """
        value = self.values.get(column, "")
        if len(value) > MAX_TEXT or not value.isprintable():
            raise BadRow(f"{column} is not a name", value)
        return value

    def count(self, column: str, least: int = 0) -> int:
        """Return a cell's whole number of at least ``least``; ``4.0`` is one."""
        value = self.values.get(column, "")
        match = _COUNT.fullmatch(value)
        if match is None or int(match[1]) < least:
            raise BadRow(f"{column} is not a whole number of at least {least}", value)
        return int(match[1])

    def number_of(self, column: str) -> float:
        """Return a cell's number, which is at least 0."""
        value = self.values.get(column, "")
        if not _NUMBER.fullmatch(value) or float(value) > _MAX_S * 1000:
            raise BadRow(f"{column} is not a number", value)
        return float(value)

    def time_ns(self, column: str, unit_s: float = 1.0) -> int:
        """Return a cell's number of seconds, or of ``unit_s``, in nanoseconds."""
        value = self.values.get(column, "")
        if not _NUMBER.fullmatch(value) or float(value) * unit_s > _MAX_S:
            raise BadRow(f"{column} is not a number of {'m' if unit_s < 1 else ''}seconds", value)
        return seconds_to_ns(float(value) * unit_s)

    def when_ns(self, column: str) -> int:
        """Return a cell's ``YYYY-MM-DD HH:MM:SS`` as ns since 1970; no time zone is assumed."""
        value = self.values.get(column, "")
        try:
            return since_1970_ns(value)
        except ValueError:
            raise BadRow(f"{column} is not a time", value) from None

    def name(self, column: str = "") -> str:
        """Return the job's name in the trace, or ``row-<number>`` without one."""
        return self.values.get(column, "") or self.row_name

    @property
    def row_name(self) -> str:
        """Return the name of a job whose trace gives none."""
        return f"row-{self.number}"


def since_1970_ns(when: str) -> int:
    """Return the nanoseconds since 1970 of ``YYYY-MM-DD HH:MM:SS``.

    Raises ValueError if the text has another form, the day does not exist, or is before 1970 or
    after 2100.
    """
    if not _WHEN.fullmatch(when):
        raise ValueError(when)
    since = datetime.fromisoformat(when) - _EPOCH
    # 47,500 days are 130 years, so the year 2100 is the last.
    if not 0 <= since.days <= 47_500:
        raise ValueError(when)
    return (since.days * 86_400 + since.seconds) * NS_PER_S


def run_ns(seconds: float) -> int:
    """Return a run time in nanoseconds.

    Raises BadRow if it is outside the range of times.
    """
    if seconds * NS_PER_S >= NEVER_NS:
        raise BadRow("its run time is more than 146 years")
    return seconds_to_ns(seconds)


def text_of(request: TraceRequest) -> str:
    """Return the trace's text, unpacked.

    Raises SpecError if it is damaged or not UTF-8.
    """
    content = unpacked(request.file, request.content)
    return decoded(request.file, content, MAX_UNPACKED_BYTES)


def cells_of(
    request: TraceRequest, needs: Sequence[str], header: Sequence[str] | None = None
) -> Iterator[CsvCells | NoJob]:
    """Yield the rows of a CSV text by column; rows with too few cells are no jobs.

    ``header`` names the columns of a text that may lack a first line of names. Raises SpecError if
    the text is no CSV, or a column of ``needs`` is missing.
    """
    text = io.StringIO(text_of(request), newline="")
    reader = csv.reader(text, delimiter=request.delimiter)
    try:
        first = [name.strip() for name in next(reader, [])]
        names = first
        rows: Iterator[list[str]] = reader
        # The first line is data if it does not begin with the first column's name.
        if header is not None and first[:1] != list(header[:1]):
            names, rows = list(header), _again(first, reader)
        missing = [name for name in needs if name not in names]
        if missing:
            there = ", ".join(map(shown, names[:_NAMES])) + (", ..." if len(names) > _NAMES else "")
            message = f"columns missing: {', '.join(missing)}; there are {there}"
            raise SpecError(Problem(file=request.file, line=1, message=message))
        # Rows may lack cells at the end that are not read.
        least = 1 + max(names.index(name) for name in needs)
        for number, row in enumerate((row for row in rows if row), start=1):
            if len(row) < least:
                yield NoJob(line=reader.line_num, reason="too few cells")
                continue
            # A separator inside of a cell: the cells behind it belong to other columns.
            if any(cell.strip() for cell in row[len(names) :]):
                yield NoJob(line=reader.line_num, reason="too many cells")
                continue
            values = dict(zip(names, (cell.strip() for cell in row), strict=False))
            yield CsvCells(line=reader.line_num, number=number, values=values)
    except csv.Error as error:
        message = f"is not CSV: {error}"
        raise SpecError(Problem(file=request.file, line=reader.line_num, message=message)) from None


def rows_of(
    request: TraceRequest, needs: Sequence[str], make: Callable[[CsvCells], TraceRow]
) -> Iterator[TraceRow | NoJob]:
    """Yield one row for each line of a table that names its columns."""
    for cells in cells_of(request, needs):
        yield cells if isinstance(cells, NoJob) else tried(make, cells)


def tried(make: Callable[[CsvCells], TraceRow], cells: CsvCells) -> TraceRow | NoJob:
    """Return the row that ``make`` gives, or why it gives none."""
    try:
        return make(cells)
    except BadRow as bad:
        return NoJob(line=cells.line, reason=bad.reason, value=bad.value)


def _again(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield a row that was taken already, then the rest."""
    yield first
    yield from rest
