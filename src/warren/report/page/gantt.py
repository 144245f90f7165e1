"""The chart of the schedule by device: which job ran where and when, for few tasks or millions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from warren.model.costs import FloatArray, IntArray
from warren.report.page.answers import answer_marks
from warren.report.page.colours import Colouring
from warren.report.page.fill import escaped
from warren.report.page.svg import WIDTH, ChartFrame, Scale, boxes_path, time_ticks
from warren.report.record import Record
from warren.report.slices import Slices, joined

MOST_EXACT: Final = 6_000
"""Slices up to this number are drawn one by one; beyond, pixel columns are."""
LEVELS: Final = 4
"""Heights that a box of a pixel column can have: it is drawn in quarters of its row."""
MOST_BOXES: Final = 40_000
"""Boxes of pixel columns at most; with more the columns are made wider."""
MOST_DEVICES: Final = 320
"""Devices up to this number are shown."""
MOST_NAMED: Final = 2_000
"""Jobs up to this number have a path of their own that tells its name."""

_LETTER_PX: Final = 6.5
"""Width of a letter of a name in the picture, in CSS pixels; most are narrower."""
_PICTURE_PX: Final = 1_050
"""Width of the picture on a page 1,280 CSS pixels wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """The boxes of the chart; axis B, x from 0 to ``WIDTH``. ``level_B``: busy quarters.

    ``exact``: each box is a slice; else the main job of neighbouring pixel columns.
    """

    job_B: IntArray
    device_B: IntArray
    x_B: FloatArray
    width_B: FloatArray
    level_B: IntArray
    exact: bool


def gantt(record: Record, colours: Colouring, span_s: Scale) -> Markup:
    """Draw the chart with its legend; ``span_s`` is its time axis in seconds."""
    devices = record.run.cluster.devices[:MOST_DEVICES]
    row_px = row_height(len(devices))
    boxes = boxes_of(record, span_s, len(devices))
    x_ticks, unit = time_ticks(span_s, 8)
    # Most runs have no answers to mark.
    marked = bool(record.history.answers) and row_px >= 14
    marks = answer_marks(record, span_s, len(devices), row_px) if marked else ""
    frame = ChartFrame(
        label=f"Schedule of {len(record.run.workload.jobs)} jobs on {len(devices)} devices",
        height=row_px * len(devices),
        body=_rows(len(devices), row_px) + _paths(boxes, colours, row_px),
        x_ticks=x_ticks,
        x_title=f"cluster time, {unit}",
        over=_device_labels(record, len(devices), row_px)
        + (_names(record, span_s, len(devices), row_px) if row_px >= 18 else "")
        + marks,
        kind="gantt",
    )
    return frame.render(colours.legend, _notes(record, boxes, colours, marked=bool(marks)))


def row_height(devices: int) -> float:
    """Return the pixels that a device's row takes: fewer the more there are."""
    # (devices at most, pixels): a chart of up to a hundred devices is at most 800 pixels high.
    return next((px for most, px in ((12, 26), (24, 20), (50, 14), (100, 8)) if devices <= most), 5)


def boxes_of(record: Record, span_s: Scale, devices: int) -> Boxes:
    """Return slices as boxes: exact ones where few, else the main job of each pixel column."""
    line = record.history.timeline
    low_ns, span_ns = span_s.low * 1e9, (span_s.high - span_s.low) * 1e9
    # A gap of a quarter of a unit of the picture cannot be seen.
    slices = joined(line, int(span_ns / WIDTH / 4))
    slices = slices.only(np.flatnonzero(slices.device_S < devices))
    if len(slices) <= MOST_EXACT:
        return _exact(slices, low_ns, span_ns)
    columns = WIDTH
    boxes = _binned(slices, low_ns, span_ns, columns)
    while len(boxes.job_B) > MOST_BOXES and columns > 60:
        columns //= 2
        boxes = _binned(slices, low_ns, span_ns, columns)
    return boxes


def _exact(slices: Slices, low_ns: float, span_ns: float) -> Boxes:
    """Return one box a slice, over the whole height of its row."""
    # At least 0.3 wide, or a short slice between long gaps would not be seen.
    start = np.asarray((slices.start_ns_S - low_ns) / span_ns * WIDTH, dtype=np.float64)
    return Boxes(
        job_B=slices.job_S,
        device_B=slices.device_S,
        x_B=start,
        width_B=np.maximum(0.3, (slices.end_ns_S - slices.start_ns_S) / span_ns * WIDTH),
        level_B=np.full(len(slices), LEVELS, dtype=np.int64),
        exact=True,
    )


def _binned(slices: Slices, low_ns: float, span_ns: float, columns: int) -> Boxes:
    """Return for each device and column its main job; equal neighbours become one box.

    Axis P: pieces, the parts of slices that fall into one column.
    """
    # Times in columns; ``first`` and ``last`` are the columns that a slice touches. A slice that
    # ends at a column's edge is not in the next column: hence ceil - 1.
    start = np.clip((slices.start_ns_S - low_ns) / span_ns * columns, 0, columns)
    end = np.clip((slices.end_ns_S - low_ns) / span_ns * columns, 0, columns)
    first = np.minimum(start.astype(np.int64), columns - 1)
    last = np.clip(np.ceil(end).astype(np.int64) - 1, first, columns - 1)
    # Each slice is repeated once a column: the running number within its own pieces, added to its
    # first column, gives the column of each piece, and ``cover_P`` how much of it is covered.
    pieces = last - first + 1
    row_P = np.repeat(np.arange(len(slices)), pieces)
    column_P = first[row_P] + np.arange(len(row_P)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cover_P = np.minimum(end[row_P], column_P + 1) - np.maximum(start[row_P], column_P)
    cell_P = slices.device_S[row_P] * columns + column_P
    cell, job, level = _main_job(cell_P, slices.job_S[row_P], cover_P)
    # A box ends where a cell is missing, job or level change, or a device's row begins: cells of
    # all devices are numbered through, so the last of one and the first of the next are neighbours.
    new = np.ones(len(cell), dtype=bool)
    new[1:] = (np.diff(cell) != 1) | (np.diff(job) != 0) | (np.diff(level) != 0)
    new |= cell % columns == 0
    begins = np.flatnonzero(new)
    x = np.asarray((cell[begins] % columns) * (WIDTH / columns), dtype=np.float64)
    lengths = np.diff(np.append(begins, len(cell)))
    return Boxes(
        job_B=job[begins],
        device_B=cell[begins] // columns,
        x_B=x,
        width_B=lengths * (WIDTH / columns),
        level_B=level[begins],
        exact=False,
    )


def _main_job(
    cell_P: IntArray, job_P: IntArray, cover_P: FloatArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return covered cells, their main jobs, and how many quarters of them are busy."""
    # Sum what each job covers of each cell.
    order = np.lexsort((job_P, cell_P))
    cell, job = cell_P[order], job_P[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(cell) != 0) | (np.diff(job) != 0)
    begins = np.flatnonzero(new)
    cover = np.add.reduceat(cover_P[order], begins)
    cell, job = cell[begins], job[begins]
    total = np.bincount(cell, weights=cover)
    # Sorted by cover within each cell, ``unique`` finds the first, which covers most; of equals
    # that with the lowest job, since the sort is stable.
    ranked = np.lexsort((-cover, cell))
    top = ranked[np.unique(cell[ranked], return_index=True)[1]]
    # Less than a fiftieth of a column is not drawn, and a level begins 0.2 late: else a cell that
    # is a little more than a quarter busy would look half busy.
    seen = total[cell[top]] >= 0.02
    top = top[seen]
    level = np.clip(np.ceil(total[cell[top]] * LEVELS - 0.2), 1, LEVELS).astype(np.int64)
    return cell[top], job[top], level


def _rows(devices: int, row_px: float) -> str:
    """Return the lines between devices; none where rows are too low for them."""
    lines = "".join(f"M0 {k * row_px:g}h{WIDTH}" for k in range(1, devices))
    return f'<path class="rows" d="{lines}"/>' if row_px >= 8 else ""


def _paths(boxes: Boxes, colours: Colouring, row_px: float) -> str:
    """Return one path a job, or one a colour where there are too many jobs to name.

    Not one a box, of which there may be ``MOST_BOXES``.
    """
    if row_px >= 14:
        gap = 2.0
    elif row_px >= 8:
        gap = 1.0
    else:
        gap = 0.4
    named = len(colours.class_J) <= MOST_NAMED
    parts: dict[tuple[str, int], list[tuple[float, float, float, float]]] = defaultdict(list)
    columns = zip(
        boxes.job_B.tolist(),
        boxes.device_B.tolist(),
        boxes.x_B.tolist(),
        boxes.width_B.tolist(),
        boxes.level_B.tolist(),
        strict=True,
    )
    for job, device, x, width, level in columns:
        # Boxes stand on the lower edge of their row, so levels read like bars.
        height = (row_px - gap) * level / LEVELS
        box = (x, (device + 1) * row_px - gap / 2 - height, width, height)
        parts[(colours.class_J[job], job if named else -1)].append(box)
    return "".join(
        f'<path class="b {colour}"'
        + (f' data-j="{job}" data-k="{colours.key_J[job]}"' if job >= 0 else "")
        + f' d="{boxes_path(found)}"/>'
        for (colour, job), found in sorted(parts.items(), key=lambda item: item[0][1])
    )


def _device_labels(record: Record, devices: int, row_px: float) -> str:
    """Return the labels at the left: of each device, or of hosts where rows are too low."""
    if row_px >= 14:
        return "".join(
            f'<span class="dev" style="top:{k * row_px:g}px;height:{row_px:g}px" '
            f'title="{escaped(d.name)}"><b>{escaped(d.host)}/</b>'
            f"{escaped(d.name.removeprefix(d.host + '/'))}</span>"
            for k, d in enumerate(record.run.cluster.devices[:devices])
        )
    rows_of: dict[str, list[int]] = defaultdict(list)
    for device in record.run.cluster.devices[:devices]:
        rows_of[device.host].append(device.index)
    # A label needs some 16 pixels: of hosts lower than that only each so-many-th is named.
    every = max(1, round(16 / (row_px * devices / len(rows_of))))
    return "".join(
        f'<span class="dev" style="top:{rows[0] * row_px:g}px;'
        f'height:{max(14.0, len(rows) * row_px):g}px" title="{escaped(host)}">'
        f"{escaped(host)}</span>"
        for host, rows in list(rows_of.items())[::every]
    )


def _names(record: Record, span_s: Scale, devices: int, row_px: float) -> str:
    """Return each job's name once, on its longest stay; hidden where it has no room."""
    low_ns, span_ns = span_s.low * 1e9, (span_s.high - span_s.low) * 1e9
    runs = joined(record.history.timeline, int(span_ns / 150))
    left = (runs.start_ns_S - low_ns) / span_ns * 100
    width = (runs.end_ns_S - runs.start_ns_S) / span_ns * 100
    wide = np.flatnonzero((width >= 4) & (runs.device_S < devices))
    # Sorted by width, so that the widest stay of a job is the one that the dict keeps.
    longest = {int(runs.job_S[s]): s for s in wide[np.argsort(width[wide], kind="stable")]}
    names = [job.name for job in record.run.workload.jobs]
    return "".join(
        f'<span class="in{_cut(names[job], width[s])}" '
        f'style="left:{left[s]:.2f}%;max-width:{width[s]:.2f}%;'
        f'top:{(runs.device_S[s] + 0.5) * row_px:g}px">'
        f"{escaped(names[job])}</span>"
        for job, s in longest.items()
    )


def _cut(name: str, width_pct: float) -> str:
    """Return the class of a name that has no room in its box: a name that is cut says nothing."""
    return " cut" if _LETTER_PX * len(name) + 14 > width_pct / 100 * _PICTURE_PX else ""


def _notes(record: Record, boxes: Boxes, colours: Colouring, *, marked: bool) -> str:
    """Tell what the reader must know about what is drawn."""
    notes = [] if colours.by == "job" else [f"Coloured by {colours.by}."]
    if not boxes.exact:
        notes.append(
            "Each column shows the job with most time in it, as high as the column is busy."
        )
    answers = [one.decision for one in record.history.answers]
    if marked and any(one.classes or one.host_classes for one in answers):
        notes.append("Numbers in rows: the class of a job's bytes from there on; 1 goes first.")
    if marked and any(one.shapes for one in answers):
        notes.append("S: a server of a job is on this host.")
    total = len(record.run.cluster.devices)
    if total > MOST_DEVICES:
        notes.append(f"The first {MOST_DEVICES} of {total} devices are shown.")
    return " ".join(notes)
