"""The chart of the schedule by device: which job ran where and when, for few tasks or millions."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
from markupsafe import Markup

from warren.report.page.answers import answer_marks
from warren.report.page.boxes import LEVELS, OTHERS, Boxes, boxes_of, stacked
from warren.report.page.colours import Colouring
from warren.report.page.fill import escaped
from warren.report.page.svg import WIDTH, ChartFrame, Scale, boxes_path, time_ticks
from warren.report.record import Record
from warren.report.slices import joined

MOST_DEVICES: Final = 320
"""Most devices that are shown."""
MOST_NAMED: Final = 2_000
"""Most jobs that have a path of their own with their name."""
_STACKED_PX: Final = 14
"""Height of a row, in CSS pixels, from which on its columns are stacked."""
_LETTER_PX: Final = 6.5
"""Width of a letter of a name in the picture, in CSS pixels; most are narrower."""
_PICTURE_PX: Final = 1_050
"""Width of the picture on a page 1,280 CSS pixels wide."""


def gantt(record: Record, colours: Colouring, span_s: Scale) -> Markup:
    """Draw the chart with its legend; ``span_s`` is its time axis in seconds."""
    devices = record.run.cluster.devices[:MOST_DEVICES]
    row_px = row_height(len(devices))
    # Shares of a column that are stacked can be read only in a row that is high enough.
    if row_px >= _STACKED_PX:
        # A band of two pixels can be seen.
        boxes = stacked(record, span_s, len(devices), colours.group_J(), int(row_px) // 2)
    else:
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


def _rows(devices: int, row_px: float) -> str:
    """Return the lines between devices; none where rows are too low for them."""
    lines = "".join(f"M0 {k * row_px:g}h{WIDTH}" for k in range(1, devices))
    return f'<path class="rows" d="{lines}"/>' if row_px >= 8 else ""


def _paths(boxes: Boxes, colours: Colouring, row_px: float) -> str:
    """Return one path a job, or one a color if there are too many jobs to name.

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
        boxes.floor_B.tolist(),
        strict=True,
    )
    for job, device, x, width, level, floor in columns:
        # Boxes stand on the lower edge of their row, so levels read like bars.
        height = (row_px - gap) * level / LEVELS
        foot = (device + 1) * row_px - gap / 2 - (row_px - gap) * floor / LEVELS
        colour = "rest" if job == OTHERS else colours.class_J[job]
        parts[(colour, job if named else -1)].append((x, foot - height, width, height))
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
    # Sorted by width, so that the dict keeps the widest stay of a job.
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
    """Return what the reader must know about the drawing."""
    notes = [] if colours.by == "job" else [f"Colored by {colours.by}."]
    by_model = colours.by == "model"
    if (boxes.floor_B > 0).any():
        notes.append(
            f"Where tasks are too short to draw, {'models' if by_model else 'jobs'} stand on each "
            "other, each as high as its share of the time."
        )
        if (boxes.job_B == OTHERS).any():
            notes.append("Gray: the others together.")
    elif not boxes.exact:
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
