"""Curves from text: a table with columns for step and value, records of JSON, or the lines of a log
by a pattern.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.predict.reading.curve_records import records_curve
from warren.predict.reading.curve_rows import FileCurve, Row, curve_of_rows
from warren.predict.reading.numbers import NO_NUMBER, SIGN, whole_number

STEP, VALUE = "step", "value"
_SEPARATORS: Final = "\t,;|"
_SHOWN: Final = 12
_DECIMAL_COMMA: Final = re.compile(r"[-+]?\d+,\d+")


def file_curve(
    file: str, text: str, columns: tuple[str, str] | None = None, metric: str | None = None
) -> FileCurve:
    """Read the curve in a file that is a table or JSON.

    Parameters
    ----------
    file
        The name of the file, for messages.
    text
        Its content.
    columns
        The columns, or the keys of records, of steps and values. None: step and value of a table,
        or the usual keys of trainers' records.
    metric
        The name of the wanted values, if ``columns`` does not give it.

    Raises
    ------
    SpecError
        If the table or the records do not exist, and for the first row that is not two numbers.
    """
    found = records_curve(file, text, columns, metric)
    return table_curve(file, text, columns or (STEP, VALUE)) if found is None else found


def table_curve(file: str, text: str, columns: tuple[str, str] = (STEP, VALUE)) -> FileCurve:
    """Read the curve in a table with a header; commas, tabs, semicolons or bars between cells.

    Rows without a value are passed over: other columns may be measured more often. Raises SpecError
    for a missing column, and for the first row that is not two numbers.
    """
    notes: list[str] = []
    rows = list(_table_rows(file, text, columns, notes))
    if not rows:
        raise SpecError(Problem(file=file, message="has a header and no row"))
    found = curve_of_rows(file, rows, metric=columns[1])
    return FileCurve(curve=found.curve, notes=(*notes, *found.notes), metric=columns[1])


def log_curve(file: str, text: str, pattern: str) -> FileCurve:
    """Read the curve in a log: every match of a regular expression with a group ``value``.

    A group ``step`` gives the step; without one, matches are counted from 1. A match that ends
    inside a number means the whole number. Raises SpecError for a pattern that is none or has no
    group ``value``, for no match, and for a line whose match is not made of numbers.
    """
    try:
        found = re.compile(pattern)
    except re.error as error:
        message = f"is not a regular expression: {error}"
        raise SpecError(Problem(file="--pattern", message=message)) from None
    if "value" not in found.groupindex:
        message = "has no group (?P<value>...), for example 'loss=(?P<value>[0-9.]+)'"
        raise SpecError(Problem(file="--pattern", message=message))
    notes: list[str] = []
    rows = list(_log_rows(text, found, notes))
    if not rows:
        raise SpecError(Problem(file=file, message="no line matches --pattern"))
    curve = curve_of_rows(file, rows)
    return FileCurve(curve=curve.curve, notes=(*notes, *curve.notes))


def _table_rows(file: str, text: str, columns: tuple[str, str], notes: list[str]) -> Iterator[Row]:
    """Yield the rows of a table."""
    lines = text.splitlines()
    if not any(line.strip() for line in lines):
        raise SpecError(Problem(file=file, message="is empty"))
    lines[0] = lines[0].lstrip("# ")
    # The separator that the header has most of; a header without one may be set apart by spaces.
    separator = max(_SEPARATORS, key=lines[0].count)
    separator = separator if separator in lines[0] else " "
    cells = csv.reader(lines, delimiter=separator, skipinitialspace=separator == " ")
    header = [cell.strip() for cell in next(cells)]
    if separator == " " and not {name.lower() for name in columns} <= {*map(str.lower, header)}:
        message = f"has no header of columns ({columns[0]!r}); --pattern REGEX reads a log"
        raise SpecError(Problem(file=file, line=1, message=message))
    step, value = (_column(file, header, name) for name in columns)
    commas = 0
    for row in cells:
        # A row of too few or too many cells is an error, but an empty line, or one of empty cells,
        # is none.
        beyond = any(cell.strip() for cell in row[len(header) :])
        if len(row) <= max(step, value) or beyond:
            if any(cell.strip() for cell in row):
                message = f"has {len(row)} cells, the header {len(header)}"
                raise SpecError(Problem(file=file, line=cells.line_num, message=message))
            continue
        texts = [row[step].strip(), row[value].strip()]
        # A header in the middle: another run was written behind the first.
        if texts == [header[step], header[value]] or not any(cell.strip() for cell in row):
            continue
        if separator == ";":
            commas += sum(_DECIMAL_COMMA.fullmatch(one) is not None for one in texts)
            texts = [
                one.replace(",", ".") if _DECIMAL_COMMA.fullmatch(one) else one for one in texts
            ]
        yield Row(cells.line_num, *texts)
    if commas:
        notes.append(f"{commas} numbers have a decimal comma")


def _column(file: str, header: list[str], name: str) -> int:
    """Return the place of a column, in any case of its letters if no other is called so.

    Raises SpecError if there is none, or more than one.
    """
    same = [at for at, one in enumerate(header) if one == name]
    alike = [at for at, one in enumerate(header) if one.lower() == name.lower()]
    found = same or alike
    if len(found) == 1:
        return found[0]
    names = ", ".join(header[:_SHOWN]) + (", ..." if len(header) > _SHOWN else "")
    kind = "more than one" if found else "no"
    message = f"{kind} column {name!r}; --columns STEP,VALUE names two of this header: {names}"
    raise SpecError(Problem(file=file, line=1, message=message))


def _log_rows(text: str, pattern: re.Pattern[str], notes: list[str]) -> Iterator[Row]:
    """Yield a row for each match of the pattern that has a value."""
    # A group ``step`` that took no part in a match is an empty text, which is no number.
    counted = STEP not in pattern.groupindex
    cut: list[tuple[int, str, str]] = []
    commas: list[tuple[int, str]] = []
    percent = matches = 0
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _matches(line, pattern):
            spans = {name: match.span(name) for name in pattern.groupindex}
            if spans[VALUE][0] < 0:
                continue
            found = {}
            for name in (STEP, VALUE):
                if name not in spans or spans[name][0] < 0:
                    continue
                others = [span for other, span in spans.items() if other != name]
                found[name] = whole_number(line, spans[name], others)
                part = line[slice(*spans[name])]
                if found[name] != part and found[name] not in part:
                    cut.append((number, part, found[name]))
            end = spans[VALUE][1]
            if re.fullmatch(r"\d+", found[VALUE]) and re.match(r",\d", line[end:]):
                commas.append((number, line[spans[VALUE][0] : end + 2]))
            matches += 1
            percent += line[end : end + 1] == "%" or line[slice(*spans[VALUE])].endswith("%")
            yield Row(number, None if counted else found.get(STEP, ""), found[VALUE])
    notes += _cut_notes(cut, commas)
    if 0 < percent < matches:
        notes.append(f"{percent} of {matches} values are in percent, and the others are not")


def _matches(line: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """Return the matches in a line; a word such as ``nan`` may take the place of a number.

    Otherwise a pattern for digits would pass over that line, or find the next number in it.
    """
    words = [word.span() for word in NO_NUMBER.finditer(line)]
    for zeros in ("0.", "00") if words else ():
        plain = line
        # As long as the word, so that places in the line stay.
        for begin, end in words:
            plain = plain[:begin] + zeros.ljust(end - begin, "0") + plain[end:]
        found = list(pattern.finditer(plain))
        values = [match.span(VALUE) for match in found]
        if any(first < end and begin < last for first, last in values for begin, end in words):
            return found
    # A pattern for digits has no match where a sign stands before them.
    return list(pattern.finditer(line)) or list(pattern.finditer(SIGN.sub("0", line)))


def _cut_notes(cut: list[tuple[int, str, str]], commas: list[tuple[int, str]]) -> Iterator[str]:
    """Yield remarks on matches that begin or end inside a number."""
    if cut:
        line, part, whole = cut[0]
        what = (
            "1 match of --pattern is" if len(cut) == 1 else f"{len(cut)} matches of --pattern are"
        )
        yield f"{what} part of a number, which is read whole: {part!r} in line {line} is {whole}"
    if commas:
        line, part = commas[0]
        what = "1 value ends" if len(commas) == 1 else f"{len(commas)} values end"
        yield f"{what} at a comma before a digit, which is not read: {part!r} in line {line}"
