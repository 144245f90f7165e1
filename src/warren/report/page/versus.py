"""The comparison of several runs, and of a prediction with what really happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup

from warren.report.compare import (
    Column,
    JctError,
    JobError,
    columns_of,
    difference_text,
    error_line,
    means,
)
from warren.report.page.colours import COLOURS
from warren.report.page.fill import escaped
from warren.report.page.svg import ChartFrame, Scale, Tick, short, time_ticks
from warren.report.page.table import Cell, TableRow, number_cell, table
from warren.report.seeds import Row, group_of

_SIDE: Final = 340
"""CSS pixels of a side of the scatter."""
_TEXT: Final = frozenset({"run", "place", "world"})
"""The columns of text; all others have numbers."""
_AGAINST_AT: Final = 2
"""Place of the column ``against``: behind run and policy, where no width hides it."""
_ErrorColumn = Literal["live_jct_s", "simulated_jct_s", "error_pct"]


def comparison_table(rows: Sequence[Row]) -> Markup:
    """Make one row a run; a bar sets the weighted JCT against the largest.

    Runs that differ in their seed alone have one color, that of their curve.
    """
    known: dict[object, int] = {}
    colours = [known.setdefault(group_of(row) or n, len(known)) for n, row in enumerate(rows)]
    return _table(rows, colours, None)


def means_table(rows: Sequence[Row], against: str | None = None) -> Markup:
    """Make one row a policy of the means over its seeds; empty if there are none."""
    found = means(rows, against)
    # The colors of curves go by policy in the order of the runs, as means do.
    return _table(found, list(range(len(found))), against) if found else Markup()


def _table(rows: Sequence[Row], colours: Sequence[int], against: str | None) -> Markup:
    """Make a table of runs or of means."""
    largest = max((row["weighted_jct_s"] or 0.0 for row in rows), default=0.0)
    # Columns with the same value in all rows take room from the others.
    few = [column for column in columns_of(rows) if not _says_nothing(column.key, rows)]
    headings = [(column.heading, column.key in _TEXT) for column in few]
    if against is not None:
        headings.insert(_AGAINST_AT, (f"against {against}", False))
    body = []
    for index, (row, colour) in enumerate(zip(rows, colours, strict=True)):
        cells = [_cell(column, row, largest, (index, colour)) for column in few]
        if against is not None:
            cells.insert(_AGAINST_AT, Cell(text=difference_text(row), kind="n"))
        body.append(TableRow(cells=cells, key=f"r{colour}"))
    return table(headings, body)


def _says_nothing(key: str, rows: Sequence[Row]) -> bool:
    """Tell whether a column may be left out: one world, or no gap known."""
    values = {row.get(key) for row in rows}
    return (key == "world" and values == {"sim"}) or (key == "gap" and values == {None})


def _cell(column: Column, row: Row, largest: float, place: tuple[int, int]) -> Cell:
    """Make a cell of a run in row ``place[0]``, of color ``place[1]``."""
    key, value = column.key, row.get(column.key)
    # A run links to its part of the page; means ("seeds") have none.
    if key == "run" and "seeds" not in row:
        return Cell(text=value, colour=f"c{place[1] % COLOURS}", link=f"#run-{place[0]}")
    if key in _TEXT:
        return Cell(text=value)
    share_pct = None
    if key == "weighted_jct_s" and value and largest:
        share_pct = 100 * value / largest
    return number_cell(column.text(row), value, share_pct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Simulated against live JCT as a sentence, and for jobs in both a scatter and a table."""

    sentence: str
    scatter: Markup | None = None
    table: Markup | None = None


def prediction(error: JctError) -> Predicted:
    """Set simulated against live JCTs: a scatter with the diagonal, and the table of errors."""
    rows = error["per_job"]
    if not rows:
        return Predicted(sentence=error_line(error))
    forms: tuple[tuple[_ErrorColumn, str], ...] = (
        ("live_jct_s", ",.2f"),
        ("simulated_jct_s", ",.2f"),
        ("error_pct", "+.2f"),
    )
    # At most as many rows as the table of jobs has; the scatter below shows more.
    body = (
        TableRow(
            cells=[
                Cell(text=row["job"]),
                *(number_cell(f"{row[key]:{form}}", row[key]) for key, form in forms),
            ],
            key=f"e{k}",
        )
        for k, row in enumerate(rows[:1500])
    )
    headings = [
        ("job", True),
        ("live JCT s", False),
        ("simulated JCT s", False),
        ("error %", False),
    ]
    return Predicted(
        sentence=error_line(error), scatter=_scatter(rows), table=table(headings, body)
    )


def _scatter(rows: Sequence[JobError]) -> Markup:
    """Draw a dot a job, live JCT to the right and simulated JCT upwards, with the diagonal."""
    columns: tuple[_ErrorColumn, ...] = ("live_jct_s", "simulated_jct_s")
    both = [row[key] for row in rows for key in columns]
    # Both axes have one scale, or the diagonal would not be where both are equal.
    low, high = min(both), max(both)
    log = low > 0 and high / low > 30
    scale = Scale(low=low / 1.15 if log else 0.0, high=high * 1.08 or 1.0, log=log)
    marks, unit = time_ticks(scale, 5)
    # A dot is a line of hardly any length, whose round ends have the size of the stroke.
    dots = "".join(
        f'<path class="dot" data-k="e{k}" data-t="{escaped(row["job"])}: '
        f'{row["error_pct"]:+.2f} %" d="M{_at(scale, row["live_jct_s"], row["simulated_jct_s"])}'
        f'h.01"/>'
        for k, row in enumerate(rows[:4000])
    )
    return ChartFrame(
        label="Simulated against live JCT of each job",
        height=_SIDE,
        width=_SIDE,
        body=_band(scale) + f'<path class="dash" d="M0 {_SIDE}L{_SIDE} 0"/>' + dots,
        x_ticks=marks,
        y_ticks=[Tick(at=mark.at, label=mark.label) for mark in marks],
        x_title=f"live JCT, {unit}" + (", logarithmic" if log else ""),
        y_title=f"simulated JCT, {unit} (shaded: within 5 %)",
        kind="square",
    ).render()


def _at(scale: Scale, x: float, y: float) -> str:
    """Return the point of two JCTs in the picture; its y grows downwards."""
    return f"{short(scale(x) * _SIDE)} {short((1 - scale(y)) * _SIDE)}"


def _band(scale: Scale) -> str:
    """Return the path around the area within 5 % of the diagonal."""
    low, high = scale.low, scale.high
    corners = [(low, low * 0.95), (high, high * 0.95), (high, high * 1.05), (low, low * 1.05)]
    if scale.log:
        corners = [(x, max(y, 1e-12)) for x, y in corners]
    return f'<path class="band" d="M{"L".join(_at(scale, x, y) for x, y in corners)}z"/>'
