"""Figures of a comparison: means with intervals by policy, and lines over swept values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from warren.model.errors import Problem, SpecError
from warren.report.compare import COLUMNS
from warren.report.figures.drawing import (
    EndLabel,
    Unit,
    colour,
    label_ends,
    new_figure,
    set_title,
    unit_of,
)
from warren.report.number_text import number
from warren.report.seeds import SPREAD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]
"""Rows as ``Comparison.table`` gives them: one a policy and swept value."""
_OWN: Final = frozenset(
    ("run", "place", "seeds", "finished", "against_mean", "against_ci95", *SPREAD)
) | {f"{key}_ci95" for key in SPREAD}
"""Columns of any comparison; the others are swept keys."""
_HEADINGS: Final = dict(COLUMNS)


class _Scale(NamedTuple):
    """A value's unit: values are divided by ``size``, and its word stands on the axis."""

    size: float
    word: str


def means_figure(rows: Rows, value: str = "mean_jct_s") -> Figure:
    """Draw a value of each policy, with the 95 % interval of its mean over seeds.

    Raises
    ------
    SpecError
        There are no rows, or ``value`` is not one of theirs.
    """
    _check(rows, value)
    figure, (axes,) = new_figure(height=1.3 + 0.32 * len(rows))
    scale = _scale_of(rows, value)
    for at, row in enumerate(rows):
        mean, half = _number(row[value]), _number(row.get(f"{value}_ci95"))
        if mean is None:
            axes.text(0.0, at, "  not known", va="center", fontsize=8)
            continue
        interval = 0.0 if half is None else half / scale.size
        axes.errorbar(mean / scale.size, at, xerr=interval, fmt="o", capsize=3, color=colour(at))
        text = number(round(mean / scale.size, 2))
        text += "" if half is None else f" ± {number(round(interval, 2))}"
        axes.annotate(
            text, (mean / scale.size + interval, at), (8, 0), textcoords="offset points",
            va="center", fontsize=8, annotation_clip=False,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), _names(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.set_xlabel(scale.word)
    set_title(axes, f"{_heading(value)} by policy{_over_seeds(rows, value)}")
    return figure


def sweep_figure(rows: Rows, by: str | None = None, value: str = "mean_jct_s") -> Figure:
    """Draw a value over those of a swept key: a line a policy, with 95 % intervals.

    ``by``: the key; None: the only swept key.

    Raises
    ------
    SpecError
        There are no rows, or ``by`` or ``value`` is not one of theirs.
    """
    _check(rows, value)
    by = _swept_key(rows, by)
    values = list(dict.fromkeys(str(row[by]) for row in rows))
    numbers = [_number(one) for one in values]
    known = [one for one in numbers if one is not None]
    # Values that are no numbers stand side by side.
    place = dict(
        zip(values, known if len(known) == len(values) else range(len(values)), strict=True)
    )
    figure, (axes,) = new_figure()
    scale = _scale_of(rows, value)
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for row, name in zip(rows, _names(rows, without=by), strict=True):
        points = lines.setdefault(name, [])
        if (mean := _number(row[value])) is not None:
            half = _number(row.get(f"{value}_ci95")) or 0.0
            points.append((float(place[str(row[by])]), mean / scale.size, half / scale.size))
    ends = []
    for k, (name, points) in enumerate(lines.items()):
        if points:
            x, y, half_y = zip(*sorted(points), strict=True)
            axes.errorbar(x, y, yerr=half_y, fmt="o-", capsize=3, color=colour(k), markersize=4)
            ends.append(EndLabel(x[-1], y[-1], name, colour(k)))
    axes.set_xticks(list(place.values()), list(place))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_xlabel(by)
    axes.set_ylabel(scale.word)
    label_ends(axes, ends)
    set_title(axes, f"{_heading(value)} by {by}{_over_seeds(rows, value)}")
    return figure


def _check(rows: Rows, value: str) -> None:
    if not rows:
        raise SpecError(Problem(file="the comparison", message="has no rows"))
    if value not in SPREAD or value not in rows[0]:
        message = f"{value!r} cannot be drawn; allowed: {', '.join(SPREAD)}"
        raise SpecError(Problem(file="value", message=message))


def _swept_key(rows: Rows, by: str | None) -> str:
    """Return the key that was swept."""
    swept = [key for key in rows[0] if key not in _OWN]
    if by is None and len(swept) == 1:
        return swept[0]
    if by is None or by not in swept:
        keys = ", ".join(swept) or "none: compare with --sweep KEY=A,B"
        what = "no key is given" if by is None else f"{by!r} was not swept"
        raise SpecError(Problem(file="by", message=f"{what}; swept keys: {keys}"))
    return by


def _names(rows: Rows, without: str | None = None) -> list[str]:
    """Return what tells rows apart: the policy, and what else differs among them."""
    keys = [key for key in rows[0] if key not in _OWN]
    runs = []
    for row in rows:
        name = str(row["run"])
        for key in keys:
            name = name.replace(f" {key}={row[key]}", "")
        runs.append(name)
    several = len(set(runs)) > 1
    return [
        ", ".join(
            ([run] if several else [])
            + [str(row["place"])]
            + [f"{key}={row[key]}" for key in keys if key != without and str(row[key])]
        )
        for run, row in zip(runs, rows, strict=True)
    ]


def _scale_of(rows: Rows, value: str) -> _Scale:
    """Return the unit that suits the largest of a value."""
    heading = _HEADINGS[value]
    if value.endswith("_s"):
        known = [one for row in rows if (one := _number(row[value])) is not None]
        unit: Unit = unit_of(max(known, default=0.0))
        return _Scale(unit.size_s, f"{heading}, {unit.word}")
    return _Scale(0.01, f"{heading}, %") if value == "gap" else _Scale(1.0, heading)


def _heading(value: str) -> str:
    heading = _HEADINGS[value]
    return heading[0].upper() + heading[1:]


def _over_seeds(rows: Rows, value: str) -> str:
    """Return what the bars are, where any row has an interval."""
    seeds = {int(row["seeds"]) for row in rows if _number(row.get(f"{value}_ci95")) is not None}
    if not seeds:
        return ""
    return f": mean of {' or '.join(map(str, sorted(seeds)))} seeds, 95 % interval"


def _number(value: Any) -> float | None:
    """Return a value as a number; None where it is none, or not known."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None
