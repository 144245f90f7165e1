"""Rows of a file become a curve: rows without a value are passed over, and of several runs the last
one counts; notes report everything that is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.predict.curve import Curve, curve_of
from warren.predict.reading.numbers import is_missing, number_in

_UNSORTED: Final = 0.25
"""Share of rows below the one before from which on a table has no order of steps."""
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Row:
    """The texts of a step (None: counted) and of a value, and the line or record they stand in."""

    place: int
    step: str | None
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCurve:
    """A curve read from a file, and notes on unused parts and assumptions.

    ``metric``: the name of its values, if the file has one.
    """

    curve: Curve
    notes: tuple[str, ...] = ()
    metric: str | None = None


@dataclass(frozen=True, slots=True)
class _Point:
    place: int
    step: float
    value: float


def curve_of_rows(
    file: str, rows: Iterable[Row], unit: str = "line", metric: str | None = None
) -> FileCurve:
    """Make the curve of some rows; rows without a step are counted from 1.

    Parameters
    ----------
    file
        The name of the file, for messages.
    rows
        The rows in the order of the file.
    unit
        The name of a row's place in messages.
    metric
        The name of the values, if the file has one.

    Raises
    ------
    SpecError
        For the first row that is neither two numbers nor without a value, and where fewer than
        two steps are left.
    """
    points: list[_Point] = []
    missing: list[tuple[int, str, str]] = []
    gaps = [0]
    for count, row in enumerate(rows, start=1):
        cells = [("value", row.value)] + ([] if row.step is None else [("step", row.step)])
        none = next(((name, text) for name, text in cells if is_missing(text)), None)
        if none is not None:
            missing.append((row.place, *none))
            gaps[-1] += 1
            continue
        value = _number(file, unit, row.place, "value", row.value)
        step = count if row.step is None else _number(file, unit, row.place, "step", row.step)
        points.append(_Point(row.place, step, value))
        gaps.append(0)
    if missing and len({point.step for point in points}) < 2:
        place, name, text = missing[0]
        others = f"; {len(points)} of {len(points) + len(missing)} rows have both step and value"
        raise _wrong(file, unit, place, f"{name} {text.strip()!r} is not a finite number{others}")
    notes = list(_missing_notes(missing, gaps, unit))
    used = _last_run(points, unit, notes)
    several = sum(count > 1 for count in Counter(point.step for point in used).values())
    if several:
        what = "1 step has" if several == 1 else f"{several} steps have"
        notes.append(f"{what} several values: their mean counts")
    try:
        curve = curve_of([point.step for point in used], [point.value for point in used])
    except ValueError as error:
        message = "; ".join([str(error), *notes])
        raise SpecError(Problem(file=file, message=message)) from None
    return FileCurve(curve=curve, notes=tuple(notes), metric=metric)


def _missing_notes(
    missing: list[tuple[int, str, str]], gaps: list[int], unit: str
) -> Iterator[str]:
    """Yield remarks on rows without a value. ``gaps``: rows without one before each point."""
    if not missing:
        return
    kinds = Counter((name, text.strip()[:_SHOWN]) for _, name, text in missing)
    reasons = ", ".join(
        f"{count} {'' if name == 'value' else 'steps '}{repr(text) if text else 'empty'}"
        for (name, text), count in kinds.items()
    )
    one = len(missing) == 1
    rows = "1 row has no value and is" if one else f"{len(missing)} rows have no value and are"
    yield f"{rows} passed over, the first in {unit} {missing[0][0]}: {reasons}"
    # Between two measurements there may be many rows, but at the end no more than anywhere else.
    lost = gaps[-1] > max(gaps[:-1]) and any(text.strip() for _, _, text in missing[-gaps[-1] :])
    if lost:
        place = missing[-gaps[-1]][0]
        yield f"from {unit} {place} on no value is a number: the training may have diverged there"


def _last_run(points: list[_Point], unit: str, notes: list[str]) -> list[_Point]:
    """Return the points of the last run in a file, and add the omitted ones to the notes.

    Steps that fall to the start belong to another run. Steps that fall further on are those of a
    run that went back to a checkpoint, and replace the earlier ones.
    """
    falls = [at for at in range(1, len(points)) if points[at].step < points[at - 1].step]
    least = list(accumulate((point.step for point in points), min))
    begins = [at for at in falls if _begins(points, at, least[at - 1])]
    # Where several processes write, steps fall often, or by one step.
    rises = [b.step - a.step for a, b in pairwise(points) if b.step > a.step]
    near = len(falls) > 1 and max(points[at - 1].step - points[at].step for at in falls) <= median(
        rises or [0.0]
    )
    disorder = len(begins) < len(falls) and (near or len(falls) > _UNSORTED * len(points))
    if not falls or disorder or len(falls) == len(points) - 1:
        if falls:
            notes.append("steps are not in rising order: the rows are sorted by them")
        return points
    kept: list[_Point] = []
    back: list[int] = []
    replaced = single = 0
    began: tuple[int, int] | None = None
    for at, point in enumerate(points):
        if at and point.step < points[at - 1].step:
            earlier = [one for one in kept if one.step < point.step]
            after = len(kept) - len(earlier)
            if kept and _begins(points, at, kept[0].step):
                began, back, replaced = (point.place, at), [], 0
                kept = []
            elif after == 1:
                # One row is out of order, and nothing is replaced.
                single += 1
            else:
                back.append(point.place)
                replaced += after
                kept = earlier
        kept.append(point)
    if began is not None:
        place, before = began
        what = "point before belongs" if before == 1 else "points before belong"
        notes.append(
            f"steps start again at {unit} {place}: the {before} {what} to another run and are not "
            "used (if steps count within an epoch, leave out the step)"
        )
    if back:
        places = ", ".join(map(str, back[:_SHOWN]))
        notes.append(
            f"steps go back at {unit} {places}: {replaced} points are replaced by what follows"
        )
    if single:
        what = "1 row is" if single == 1 else f"{single} rows are"
        notes.append(f"{what} out of order: the rows are sorted by their steps")
    return kept


def _begins(points: list[_Point], at: int, first: float) -> bool:
    """Tell whether a new run begins with a point: no later than the old one, or its own distance.

    A run that logs every 10 steps begins at 10, whatever the first step of the other one was.
    """
    step = points[at].step
    after = next((one.step for one in points[at + 1 :] if one.step != step), step)
    return step <= max(first, after - step)


def _number(file: str, unit: str, place: int, what: str, text: str) -> float:
    """Parse a number; else refuse it with its file and place."""
    found = number_in(text)
    if found is None:
        shown = text.strip()[:_SHOWN]
        raise _wrong(file, unit, place, f"{what} {shown!r} is not a finite number")
    return found


def _wrong(file: str, unit: str, place: int, message: str) -> SpecError:
    if unit == "line":
        return SpecError(Problem(file=file, line=place, message=message))
    return SpecError(Problem(file=file, message=f"{unit} {place}: {message}"))
