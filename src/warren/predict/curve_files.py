"""Curves from text: a table with columns for step and value, or the lines of a log by a pattern."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from typing import TypeAlias

from warren.model.errors import Problem, SpecError
from warren.predict.curve import Curve, curve_of

Row: TypeAlias = tuple[int, str | None, str]
"""Line number, text of the step (None: counted), text of the value."""


def table_curve(file: str, text: str, columns: tuple[str, str] = ("step", "value")) -> Curve:
    """Read the curve in a table with a header; commas or tabs between cells.

    Rows whose value is empty are passed over: other columns may be measured more often. Raises
    SpecError for a missing column, and for the first row that is not two finite numbers.
    """
    return _curve(file, _table_rows(file, text, columns))


def log_curve(file: str, text: str, pattern: str) -> Curve:
    """Read the curve in a log: every match of a regular expression with a group ``value``.

    A group ``step`` gives the step; without one, matches are counted from 1. Raises SpecError for a
    pattern that is none or has no group ``value``, for no match, and for a line whose match is not
    made of finite numbers.
    """
    try:
        found = re.compile(pattern)
    except re.error as error:
        message = f"is not a regular expression: {error}"
        raise SpecError(Problem(file="--pattern", message=message)) from None
    if "value" not in found.groupindex:
        message = "has no group (?P<value>...), for example 'loss=(?P<value>[0-9.]+)'"
        raise SpecError(Problem(file="--pattern", message=message))
    rows = list(_log_rows(text, found))
    if not rows:
        raise SpecError(Problem(file=file, message="no line matches --pattern"))
    return _curve(file, iter(rows))


def _table_rows(file: str, text: str, columns: tuple[str, str]) -> Iterator[Row]:
    """Yield the rows of a table that have a value."""
    lines = text.splitlines()
    if not lines:
        raise SpecError(Problem(file=file, message="is empty"))
    cells = csv.reader(lines, delimiter="\t" if "\t" in lines[0] else ",")
    header = [cell.strip() for cell in next(cells)]
    for name in columns:
        if header.count(name) != 1:
            kind = "no" if name not in header else "more than one"
            message = f"{kind} column {name!r}; --columns STEP,VALUE names two of this header"
            raise SpecError(Problem(file=file, line=1, message=message))
    # A row that is too short is an error, but an empty line, or one of empty cells, is none.
    step, value = (header.index(name) for name in columns)
    for row in cells:
        if len(row) > max(step, value) and row[value].strip():
            yield cells.line_num, row[step], row[value]
        elif any(cell.strip() for cell in row) and len(row) <= max(step, value):
            message = f"has {len(row)} cells, the header {len(header)}"
            raise SpecError(Problem(file=file, line=cells.line_num, message=message))


def _log_rows(text: str, pattern: re.Pattern[str]) -> Iterator[Row]:
    """Yield a row for each match of the pattern that has a value."""
    # A group ``step`` that took no part in a match is an empty text, which is refused as no number.
    counted = "step" not in pattern.groupindex
    for number, line in enumerate(text.splitlines(), start=1):
        for match in pattern.finditer(line):
            if match["value"] is not None:
                yield number, None if counted else match["step"] or "", match["value"]


def _curve(file: str, rows: Iterator[Row]) -> Curve:
    """Make the curve of some rows; rows without a step are counted from 1."""
    steps: list[float] = []
    values: list[float] = []
    for line, step, value in rows:
        steps.append(len(steps) + 1.0 if step is None else _number(file, line, "step", step))
        values.append(_number(file, line, "value", value))
    try:
        return curve_of(steps, values)
    except ValueError as error:
        raise SpecError(Problem(file=file, message=str(error))) from None


def _number(file: str, line: int, what: str, text: str) -> float:
    """Parse a finite number; else refuse it with its file and line."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        shown = text.strip()[:40]
        message = f"{what} {shown!r} is not a finite number"
        raise SpecError(Problem(file=file, line=line, message=message))
    return number
