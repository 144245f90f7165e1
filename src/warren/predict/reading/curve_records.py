"""Curves from JSON: the state of a trainer, an object a line, a list of objects, lists by name.

*Sources.* Hugging Face's ``trainer_state.json`` (``log_history``), Keras's ``history`` (a list a
metric), TensorBoard's download of a curve (lists of wall time, step and value), and logs with an
object a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from warren.model.errors import Problem, SpecError
from warren.predict.reading.curve_rows import FileCurve, Row, curve_of_rows

Record: TypeAlias = Mapping[str, Any]

_STEPS: Final = ("step", "global_step", "_step", "iteration", "iter", "round", "epoch")
_VALUES: Final = (
    "value", "loss", "train_loss", "training_loss", "eval_loss", "val_loss", "valid_loss",
    "validation_loss", "test_loss",
)  # fmt: skip
_BOARD: Final = ("wall_time", "step", "value")
_NEEDS: Final = (
    "a list of objects with a step and a value, as `log_history` of trainer_state.json, or one "
    "such object a line"
)
_BEGINS: Final = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{]\s*["\d])')
_SHOWN: Final = 12
_DEEPEST: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """Records with their places, the name of a place, and notes."""

    rows: Sequence[tuple[int, Record]]
    unit: str
    notes: tuple[str, ...] = ()


def records_curve(
    file: str, text: str, columns: tuple[str, str] | None, metric: str | None
) -> FileCurve | None:
    """Read the curve in a file of JSON; None if it is none.

    Parameters
    ----------
    file
        The name of the file, for messages.
    text
        Its content.
    columns
        The keys of steps and values; None: the usual keys of trainers.
    metric
        A key of values, which takes precedence over the usual ones.

    Raises
    ------
    SpecError
        If the JSON has no records, or the records do not have these keys.
    """
    found = _records(file, text)
    if found is None:
        return None
    numbers = _keys(found.rows)
    step, value = columns or _chosen(file, numbers, metric)
    notes = list(found.notes)
    for key in (step, value):
        # Without a step of their own, records are counted.
        if key not in numbers and not (key == step and step in _STEPS):
            raise _without(file, key, numbers)
    if columns is None:
        others = [key for key in numbers if key not in (step, value)]
        names = ", ".join(others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
        more = f"; --columns STEP,VALUE names others: {names}" if others else ""
        read = f"{step} and {value} are read" if step in numbers else f"{value} is read and counted"
        notes.append(f"of its JSON {read}{more}")
    rows = (
        Row(place, _text(record.get(step)) if step in numbers else None, _text(record[value]))
        for place, record in found.rows
        if value in record
    )
    curve = curve_of_rows(file, rows, found.unit, value)
    return FileCurve(curve=curve.curve, notes=(*notes, *curve.notes), metric=value)


def _records(file: str, text: str) -> _Records | None:
    """Return the records of a file; None if it is no JSON."""
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    try:
        return _of_value(file, json.loads(text))
    except RecursionError:
        message = f"is JSON that is nested too deeply; allowed: {_NEEDS}"
        raise SpecError(Problem(file=file, message=message)) from None
    except ValueError as error:
        found = _of_lines(text)
        if found is None and _BEGINS.match(text):
            message = f"is damaged JSON: {error}"
            raise SpecError(Problem(file=file, message=message)) from None
        return found


def _of_lines(text: str) -> _Records | None:
    """Return the objects of a text with one on each line, or on most; otherwise None."""
    rows, others = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            rows.append((number, _flat(value)))
        else:
            others.append(number)
    if len(rows) <= len(others):
        return None
    if not others:
        return _Records(rows=rows, unit="line")
    what = "line is" if len(others) == 1 else "lines are"
    note = f"{len(others)} {what} no object of JSON, the first is line {others[0]}"
    return _Records(rows=rows, unit="line", notes=(note,))


def _of_value(file: str, value: Any) -> _Records:
    """Return the records in a value of JSON.

    Raises SpecError if it has none.
    """
    if isinstance(value, dict):
        lists = {key: one for key, one in value.items() if _is_records(one)}
        if "log_history" in lists or len(lists) == 1:
            return _numbered(lists.get("log_history") or next(iter(lists.values())))
        inner = value["history"] if isinstance(value.get("history"), dict) else value
        if columns := {key: _column(one) for key, one in inner.items() if _column(one)}:
            length = max(map(len, columns.values()))
            rows = [
                {key: one[at] for key, one in columns.items() if at < len(one)}
                for at in range(length)
            ]
            return _Records(rows=list(enumerate(rows, start=1)), unit="entry")
        # One object in a file of one line: the first line of a log.
        if len(value) > 1 and all(not isinstance(one, dict | list) for one in value.values()):
            return _numbered([value])
    elif _is_records(value):
        return _numbered(value)
    elif _is_board(value):
        return _numbered([dict(zip(_BOARD, one, strict=True)) for one in value])
    keys = (
        f"; it has {', '.join(list(value)[:_SHOWN])}" if value and isinstance(value, dict) else ""
    )
    raise SpecError(Problem(file=file, message=f"is JSON without a curve; allowed: {_NEEDS}{keys}"))


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _is_board(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, list) and len(one) == len(_BOARD) for one in value)
    )


def _column(value: Any) -> list[Any]:
    """Return a list of numbers, also of an object whose keys count them; empty if it is none."""
    found = list(value.values()) if isinstance(value, dict) else value
    plain = isinstance(found, list) and all(isinstance(one, int | float | None) for one in found)
    return found if plain and len(found) > 1 else []


def _numbered(values: Sequence[Record]) -> _Records:
    rows = [(number, _flat(value)) for number, value in enumerate(values, start=1)]
    return _Records(rows=rows, unit="record")


def _flat(record: Record) -> Record:
    """Return a record without objects inside: ``{"train": {"loss": 1}}`` has ``train.loss``."""
    return dict(_pairs(record, "", _DEEPEST))


def _pairs(record: Record, before: str, depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict) and depth:
            yield from _pairs(value, f"{before}{key}.", depth - 1)
        else:
            yield f"{before}{key}", value


def _keys(rows: Sequence[tuple[int, Record]]) -> dict[str, None]:
    """Return the keys of all records that can be read, in their order."""
    return {
        key: None
        for _, record in rows
        for key, value in record.items()
        if value is None or isinstance(value, int | float | str)
    }


def _chosen(file: str, keys: Mapping[str, None], metric: str | None) -> tuple[str, str]:
    """Return the keys of step and value that trainers use.

    Raises SpecError if the records have no value under these keys.
    """
    step = next((key for key in _STEPS if key in keys), _STEPS[0])
    others = [key for key in keys if key not in _STEPS]
    # The requested key, otherwise one of the usual names, otherwise the only one there is.
    wanted = [metric] if metric in keys else [*_VALUES, *(others if len(others) == 1 else ())]
    value = next((key for key in wanted if key in keys and key != step), None)
    if value is None:
        raise _without(file, "loss", keys)
    return step, str(value)


def _without(file: str, key: str, keys: Mapping[str, None]) -> SpecError:
    names = ", ".join(list(keys)[:_SHOWN]) + (", ..." if len(keys) > _SHOWN else "")
    message = f"its JSON has no {key!r}; --columns STEP,VALUE names two of these keys: {names}"
    return SpecError(Problem(file=file, message=message))


def _text(value: Any) -> str:
    """Return a value of JSON as a cell would hold it."""
    return "" if value is None else str(value)
