"""Several runs side by side, and a prediction against what really happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.report.compare import COLUMNS, cell_of, difference_text, error_line, means
from warren.report.page.colours import COLOURS
from warren.report.page.jobs import table
from warren.report.page.svg import ChartFrame, Scale, Tick, escape, short, time_ticks
from warren.report.seeds import group_of

_SIDE: Final = 340
_TEXT: Final = frozenset({"run", "place", "world"})


def comparison_table(rows: Sequence[Mapping[str, Any]], against: str | None = None) -> str:
    """One row a run, then the means by seed; a bar shows the weighted JCT against the largest.

    Runs that differ in their seed alone have one colour, that of their curve.
    """
    largest = max((row["weighted_jct_s"] or 0.0 for row in rows), default=0.0)
    known: dict[object, int] = {}
    colours = [known.setdefault(group_of(row) or n, len(known)) for n, row in enumerate(rows)]
    lines = [*rows, *means(rows, against)]
    colours += [0] * (len(lines) - len(rows))
    headings = [label for _, label in COLUMNS]
    body = "".join(
        _row(index, row, largest, colour, against)
        for index, (row, colour) in enumerate(zip(lines, colours, strict=True))
    )
    is_text = [key in _TEXT for key, _ in COLUMNS]
    if against is not None:
        headings.append(f"against {against}")
        is_text.append(False)
    return table(headings, body, is_text)


def _row(
    index: int, row: Mapping[str, Any], largest: float, colour: int, against: str | None
) -> str:
    cells = []
    for key, _ in COLUMNS:
        value = row.get(key)
        if key == "run" and "seeds" in row:
            cells.append(f"<td>{escape(value)}</td>")
        elif key == "run":
            inside = (
                f'<i class="c{colour % COLOURS}"></i><a href="#run-{index}">{escape(value)}</a>'
            )
            cells.append(f"<td>{inside}</td>")
        elif key in _TEXT:
            cells.append(f"<td>{escape(value)}</td>")
        else:
            bar = _bar(value, largest) if key == "weighted_jct_s" else ""
            sort = f' data-v="{value!r}"' if isinstance(value, int | float) else ""
            cells.append(f'<td class="n"{sort}>{escape(cell_of(row, key))}{bar}</td>')
    if against is not None:
        cells.append(f'<td class="n">{escape(difference_text(row))}</td>')
    return f'<tr data-k="r{colour}">{"".join(cells)}</tr>'


def _bar(value: float | None, largest: float) -> str:
    if not value or not largest:
        return ""
    return f'<div class="bar"><i style="width:{100 * value / largest:.1f}%"></i></div>'


def prediction(error: Mapping[str, Any]) -> str:
    """Simulated against live JCT: a scatter with the diagonal, and the table of errors."""
    rows = error["per_job"]
    if not rows:
        return f"<p>{escape(error_line(error))}.</p>"
    body = "".join(
        f'<tr data-k="e{k}"><td>{escape(row["job"])}</td>'
        + "".join(
            f'<td class="n" data-v="{row[key]!r}">{row[key]:{form}}</td>'
            for key, form in (
                ("live_jct_s", ",.2f"),
                ("simulated_jct_s", ",.2f"),
                ("error_pct", "+.2f"),
            )
        )
        + "</tr>"
        for k, row in enumerate(rows[:1500])
    )
    headings = ["job", "live JCT s", "simulated JCT s", "error %"]
    return (
        f"<p>{escape(error_line(error))}.</p>"
        f'<div class="pair"><div>{_scatter(rows)}</div>'
        f"<div>{table(headings, body, [True, False, False, False])}</div></div>"
    )


def _scatter(rows: Sequence[Mapping[str, Any]]) -> str:
    both = [row[key] for row in rows for key in ("live_jct_s", "simulated_jct_s")]
    low, high = min(both), max(both)
    log = low > 0 and high / low > 30
    scale = Scale(low=low / 1.15 if log else 0.0, high=high * 1.08 or 1.0, log=log)
    marks, unit = time_ticks(scale, 5)
    dots = "".join(
        f'<path class="dot" data-k="e{k}" data-t="{escape(row["job"])}: '
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
    return f"{short(scale(x) * _SIDE)} {short((1 - scale(y)) * _SIDE)}"


def _band(scale: Scale) -> str:
    """The area within 5 % of the diagonal."""
    low, high = scale.low, scale.high
    corners = [(low, low * 0.95), (high, high * 0.95), (high, high * 1.05), (low, low * 1.05)]
    if scale.log:
        corners = [(x, max(y, 1e-12)) for x, y in corners]
    return f'<path class="band" d="M{"L".join(_at(scale, x, y) for x, y in corners)}z"/>'
