"""What passed the links of a run: charts over time by job and by class, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from warren.model.costs import BoolArray, FloatArray, IntArray
from warren.model.decision import CLASSES
from warren.model.link_use import LinkUse
from warren.report.links import DIRECTIONS
from warren.report.number_text import number
from warren.report.page.colours import Colouring
from warren.report.page.svg import HEIGHT, SHARES, ChartFrame, Scale, band_path, ticks, time_ticks
from warren.report.page.table import Cell, TableRow, number_cell, table
from warren.report.record import Record

STEPS: Final = 120
"""Equal steps of time that bytes are averaged over."""
MOST_LINKS: Final = 3
"""Links that have charts of their own: of the busiest hosts, the busier of their two links."""
MOST_BANDS: Final = 12
"""Most bands of a chart; beyond it those of fewest bytes are one band."""
MOST_ROWS: Final = 100
"""Most pairs of a link and a job that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Band:
    """One area of a chart: its color class, key and label, and which rows of use it holds."""

    colour: str
    key: str
    label: str
    rows_R: BoolArray


def link_charts(record: Record, colours: Colouring, span_s: Scale) -> list[tuple[str, Markup]]:
    """Draw what all hosts sent together, then the busiest links; empty where nothing is known.

    Each by job, or model, and beside it by class if there are several classes. ``span_s`` is the
    time axis in seconds.
    """
    use = record.history.link_use
    if use is None or not len(use):
        return []
    rate_L = np.repeat(np.array(record.run.cluster.link_bytes_per_s), 2)
    by_class = len(np.unique(use.class_R)) > 1
    # Another host receives each byte that one sends: uplinks alone count each byte once.
    chosen: list[tuple[str, BoolArray, float | None]]
    chosen = [("All hosts send", use.link_R % 2 == 0, None)]
    for link in _busiest(use, rate_L):
        chosen.append((_name(record, link), use.link_R == link, float(rate_L[link])))
    charts = []
    for title, rows_R, rate in chosen:
        bands = _job_bands(record, colours, use, rows_R)
        charts.append((f"{title}, by {colours.by}", _chart(title, use, bands, span_s, rate)))
        if by_class:
            bands = _class_bands(use, rows_R)
            charts.append((f"{title}, by class", _chart(title, use, bands, span_s, rate)))
    return charts


def _busiest(use: LinkUse, rate_L: FloatArray) -> list[int]:
    """Return the links that have charts of their own, those first that were busy for longest."""
    busy_L = np.bincount(use.link_R, use.bytes_R, len(rate_L)) / rate_L
    order = np.argsort(-busy_L, kind="stable").tolist()
    # A host's two links often look alike, so the second one would tell little.
    of_host: dict[int, int] = {}
    for link in order:
        if busy_L[link] > 0:
            of_host.setdefault(link // 2, link)
    return list(of_host.values())[:MOST_LINKS]


def _name(record: Record, link: int) -> str:
    return f"{record.run.cluster.hosts[link // 2].name} {DIRECTIONS[link % 2]}"


def _job_bands(record: Record, colours: Colouring, use: LinkUse, rows_R: BoolArray) -> list[_Band]:
    """Return a band for each job or model; those of fewest bytes are one."""
    names = {key: label for _, key, label in colours.legend}
    groups = list(colours.groups().items())
    group_J = np.zeros(len(colours.key_J), dtype=np.int64)
    for place, (_, (_, jobs)) in enumerate(groups):
        group_J[jobs] = place
    group_R = group_J[use.job_R]
    bytes_G = np.bincount(group_R[rows_R], use.bytes_R[rows_R], len(groups))
    ranked = np.argsort(-bytes_G, kind="stable")[: np.count_nonzero(bytes_G)].tolist()
    kept = ranked if len(ranked) <= MOST_BANDS else ranked[: MOST_BANDS - 1]
    bands = []
    for place in sorted(kept):
        key, (colour, jobs) = groups[place]
        label = names.get(key, record.run.workload.jobs[jobs[0]].name)
        held_R = rows_R & (group_R == place)
        bands.append(_Band(colour=colour, key=key, label=label, rows_R=held_R))
    if len(kept) < len(ranked):
        few_R = rows_R & ~np.isin(group_R, kept)
        label = f"{len(ranked) - len(kept)} others"
        bands.append(_Band(colour="rest", key="", label=label, rows_R=few_R))
    return bands


def _class_bands(use: LinkUse, rows_R: BoolArray) -> list[_Band]:
    """Return a band for each class, the first at the bottom: class 0 goes before all others."""
    return [
        _Band(colour=f"k{kind}", key="", label=f"class {kind}", rows_R=held_R)
        for kind in range(CLASSES)
        if (held_R := rows_R & (use.class_R == kind)).any()
    ]


def _chart(
    title: str, use: LinkUse, bands: Sequence[_Band], span_s: Scale, rate: float | None
) -> Markup:
    """Draw bands on one another: as shares of a link's ``rate``, or without one in Gbit/s."""
    curves = [_passed(use, band.rows_R, span_s) for band in bands]
    total = np.sum(curves, axis=0)
    most = rate or 1.05 * float(total.max()) or 1.0
    # Gbit/s have nine zeros, and eight bits are a byte.
    scale = Scale(low=0.0, high=most * 8 / 1e9)
    floor, paths = np.zeros(STEPS), []
    for band, curve in zip(bands, curves, strict=True):
        key = f' data-k="{band.key}"' if band.key else ""
        top = floor + curve
        paths.append(f'<path class="{band.colour}"{key} d="{band_path(floor, top, most)}"/>')
        floor = top
    x_ticks, unit = time_ticks(span_s)
    frame = ChartFrame(
        label=f"{title}: bytes over time",
        height=HEIGHT,
        body="".join(paths),
        x_ticks=x_ticks,
        y_ticks=SHARES if rate else ticks(scale, 4),
        y_title="" if rate else "Gbit/s",
        x_title=f"cluster time, {unit}",
    )
    note = f"100 % is {number(rate * 8 / 1e9)} Gbit/s." if rate else ""
    return frame.render([(band.colour, band.key, band.label) for band in bands], note)


def _passed(use: LinkUse, rows_R: BoolArray, span_s: Scale) -> FloatArray:
    """Return the mean bytes a second of some rows in each of ``STEPS`` equal steps of time."""
    bins = int(use.bin_R.max()) + 1
    passed_B = np.bincount(use.bin_R[rows_R], use.bytes_R[rows_R], bins)
    # Bytes passed until each edge of a step: bins are straight lines in between.
    edges_s = np.linspace(span_s.low, span_s.high, STEPS + 1)
    until = np.concatenate(([0.0], np.cumsum(passed_B)))
    at = np.interp(edges_s, np.arange(bins + 1) * (use.bin_ns / 1e9), until)
    return np.diff(at) / np.maximum(np.diff(edges_s), 1e-9)


def link_table(record: Record, colours: Colouring) -> Markup:
    """Make a table of the bytes of each link and job, of the ``MOST_ROWS`` pairs with most."""
    use = record.history.link_use
    if use is None or not len(use):
        return Markup("")
    link_P, job_P, bytes_P, classes_P = _pairs(use, len(record.run.workload.jobs))
    rate_L = np.repeat(np.array(record.run.cluster.link_bytes_per_s), 2)
    span_s = (int(use.bin_R.max()) + 1 - int(use.bin_R.min())) * use.bin_ns / 1e9
    bytes_L = np.bincount(use.link_R, use.bytes_R, len(rate_L))
    largest = np.argsort(-bytes_P, kind="stable")[:MOST_ROWS]
    note = ""
    if len(bytes_P) > MOST_ROWS:
        note = (
            f"{MOST_ROWS} of {len(bytes_P):,} pairs of a link and a job are listed, those with "
            "most bytes. links.parquet has all."
        )
    rows = []
    for pair in largest.tolist():
        link, job, passed = int(link_P[pair]), int(job_P[pair]), float(bytes_P[pair])
        of_link, of_rate = passed / bytes_L[link], passed / (rate_L[link] * span_s)
        cells = [
            Cell(text=_name(record, link)),
            Cell(text=record.run.workload.jobs[job].name, colour=colours.class_J[job]),
            Cell(text=classes_P[pair]),
            number_cell(number(passed / 1e6), passed),
            number_cell(f"{100 * of_link:.1f}", of_link),
            number_cell(f"{100 * of_rate:.1f}", of_rate, share_pct=100 * min(1.0, of_rate)),
        ]
        rows.append(TableRow(cells=cells, key=colours.key_J[job], job=job))
    headings = [("link", True), ("job", True), ("classes", True), ("MB", False)]
    headings += [("% of the link's bytes", False), ("% of its rate", False)]
    return table(headings, rows, note)


def _pairs(use: LinkUse, jobs: int) -> tuple[IntArray, IntArray, IntArray, list[str]]:
    """Return link, job, bytes and classes of each pair of a link and a job; axis P."""
    pair, row = np.unique(use.link_R * jobs + use.job_R, return_inverse=True)
    bytes_P = np.zeros(len(pair), dtype=np.int64)
    np.add.at(bytes_P, row, use.bytes_R)
    kinds = np.unique(row * CLASSES + use.class_R)
    classes_P = [""] * len(pair)
    for place, kind in zip((kinds // CLASSES).tolist(), (kinds % CLASSES).tolist(), strict=True):
        classes_P[place] += f"{', ' if classes_P[place] else ''}{kind}"
    return pair // jobs, pair % jobs, bytes_P, classes_P
