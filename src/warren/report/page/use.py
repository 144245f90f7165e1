"""Charts over time: how busy each device type is, and how many jobs wait and run."""

from __future__ import annotations

from typing import Final

import numpy as np
from markupsafe import Markup

from warren.model.costs import BoolArray, FloatArray, IntArray
from warren.model.timeline import Timeline
from warren.report.metrics import arrival_ns, last_end_ns
from warren.report.page.colours import Colouring
from warren.report.page.svg import (
    HEIGHT,
    SHARES,
    WIDTH,
    ChartFrame,
    Scale,
    band_path,
    line_path,
    step_path,
    ticks,
    time_ticks,
)
from warren.report.record import Record

BINS: Final = 120
"""Equal bins of time that a share of devices is averaged over."""
_FINE: Final = 1000
"""Times at which jobs are counted."""
SHORT_GAP: Final = 1 / 250
"""Share of the time axis up to which a pause of a job is not a wait: some four CSS pixels."""
MOST_BANDS: Final = 30
"""Most bands that a reader can distinguish; with more no chart is drawn."""


def use_chart(record: Record, span_s: Scale) -> Markup:
    """Draw the share of each type's devices that compute, in ``BINS`` bins."""
    x_ticks, unit = time_ticks(span_s)
    names = record.run.cluster.type_names
    lines, chips = [], []
    for number, name in enumerate(names):
        share = busy_share(record, number, span_s)
        points = [(k / (BINS - 1) * WIDTH, (1 - value) * HEIGHT) for k, value in enumerate(share)]
        lines.append(f'<path class="line l{number}" data-k="t{number}" d="{line_path(points)}"/>')
        count = record.run.cluster.type_of_device.count(number)
        mean = float(share.mean()) if len(share) else 0.0
        chips.append((f"c{number}", f"t{number}", f"{name} ({count}): {100 * mean:.0f} %"))
    frame = ChartFrame(
        label="Share of devices computing, by type, over time",
        height=HEIGHT,
        body="".join(lines),
        x_ticks=x_ticks,
        y_ticks=SHARES,
        x_title=f"cluster time, {unit}",
    )
    return frame.render(chips)


def busy_share(record: Record, kind: int, span_s: Scale) -> FloatArray:
    """Return the mean share of the devices of type ``kind`` in COMP, for each of ``BINS`` bins."""
    type_D = np.array(record.run.cluster.type_of_device, dtype=np.int64)
    busy = busy_devices(record, type_D[record.history.timeline.device_R] == kind, span_s)
    return np.clip(busy / max(1, int((type_D == kind).sum())), 0.0, 1.0)


def busy_devices(record: Record, rows: BoolArray, span_s: Scale) -> FloatArray:
    """Return the mean number of devices in COMP, for each of ``BINS`` equal bins.

    Only the timeline rows where ``rows`` is true count. A row's COMP time is spread evenly from its
    start to its COMP end.
    """
    line = record.history.timeline
    start, end = line.start_ns_R[rows].astype(float), line.comp_end_ns_R[rows].astype(float)
    rate = line.busy_ns_R[rows] / np.maximum(1.0, end - start)
    # COMP time done until each edge is a sum of ramps, each cut off at its row's end: a ramp from
    # its start less one from its end. Differences of it are the COMP time in each bin.
    edges = np.linspace(span_s.low, span_s.high, BINS + 1) * 1e9
    done = _ramps(edges, start, rate) - _ramps(edges, end, rate)
    busy: FloatArray = np.diff(done) / np.maximum(np.diff(edges), 1e-9)
    return busy


def share_chart(record: Record, colours: Colouring, span_s: Scale) -> Markup:
    """Draw how many devices compute for each job: one band a job, or a model if jobs are many."""
    line, total = record.history.timeline, len(record.run.cluster.devices)
    groups = list(colours.groups().items())
    if len(groups) > MOST_BANDS:
        return Markup("")
    # Bands are stacked: each stands on the sum of those before.
    floor, bands = np.zeros(BINS), []
    for key, (colour, jobs) in groups:
        top = floor + busy_devices(record, np.isin(line.job_R, jobs), span_s)
        bands.append(f'<path class="{colour}" data-k="{key}" d="{band_path(floor, top, total)}"/>')
        floor = top
    x_ticks, unit = time_ticks(span_s)
    return ChartFrame(
        label="Devices computing, by job or model, over time",
        height=HEIGHT,
        body="".join(bands),
        x_ticks=x_ticks,
        y_ticks=[t for t in ticks(Scale(low=0.0, high=float(total)), 4) if "." not in t.label],
        x_title=f"cluster time, {unit}",
    ).render(colours.legend)


def _ramps(at: FloatArray, begin: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the sum over rows of rate x max(0, at - begin), for each ``at``."""
    # Over the rows that begin before ``at`` it is (sum of rates) x at - (sum of rate x begin): two
    # running sums by begin, and one search for each ``at``. Times count from the first begin, since
    # the difference of two large products would lose digits.
    order = np.argsort(begin, kind="stable")
    origin = float(begin.min()) if len(begin) else 0.0
    rates = np.concatenate(([0.0], np.cumsum(rate[order])))
    moments = np.concatenate(([0.0], np.cumsum(rate[order] * (begin[order] - origin))))
    before = np.searchsorted(begin[order], at, side="left")
    return rates[before] * (at - origin) - moments[before]


def jobs_over_time(record: Record, span_s: Scale) -> tuple[IntArray, IntArray]:
    """Count jobs that wait and jobs that run, at equal steps of time.

    A job waits for its first task, or where it was taken off its devices.
    """
    times = np.linspace(span_s.low, span_s.high, _FINE) * 1e9
    _, begin, end = stays(record.history.timeline, span_s)
    running = _count(times, begin) - _count(times, end)
    there = _count(times, arrival_ns(record)) - _count(times, last_end_ns(record))
    return np.maximum(0, there - running), running


def jobs_chart(record: Record, span_s: Scale) -> Markup:
    """Draw how many jobs wait and how many run."""
    waiting, running = jobs_over_time(record, span_s)
    top = Scale(low=0.0, high=1.08 * float(max(1, waiting.max(), running.max())))
    x_ticks, unit = time_ticks(span_s)
    lines = "".join(
        f'<path class="line {colour}" data-k="{key}" d="{_steps(values, top)}"/>'
        for colour, key, values in (("lw", "qw", waiting), ("l0", "qr", running))
    )
    frame = ChartFrame(
        label="Jobs waiting and running over time",
        height=HEIGHT,
        body=lines,
        x_ticks=x_ticks,
        y_ticks=[tick for tick in ticks(top, 4) if "." not in tick.label],
        x_title=f"cluster time, {unit}",
    )
    return frame.render((("wait", "qw", "waiting: not running now"), ("c0", "qr", "running")))


def stays(line: Timeline, span_s: Scale) -> tuple[IntArray, IntArray, IntArray]:
    """Return the times in which jobs run anywhere, by job and start: their job, start and end.

    A gap up to ``SHORT_GAP`` of the span ends nothing: a job stops at each barrier. In nanoseconds.
    """
    if not len(line.job_R):
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    gap_ns = int((span_s.high - span_s.low) * 1e9 * SHORT_GAP)
    order = np.lexsort((line.start_ns_R, line.job_R))
    job, start, end = line.job_R[order], line.start_ns_R[order], line.end_ns_R[order]
    # The last end so far of each job, by its place among all ends: jobs are kept apart by more
    # places than there are.
    ends, apart = np.sort(end), job * len(end)
    reached = ends[np.maximum.accumulate(np.searchsorted(ends, end) + apart) - apart]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(job) != 0) | (start[1:] > reached[:-1] + gap_ns)
    begins = np.flatnonzero(new)
    return job[begins], start[begins], reached[np.append(begins[1:], len(order)) - 1]


def _steps(values: IntArray, scale: Scale) -> str:
    """Return the path of a staircase through the changes of a count sampled at equal steps."""
    # Prepending another value keeps the first sample, where the staircase begins.
    kept = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    points = [
        (float(k) / (_FINE - 1) * WIDTH, (1 - scale(float(values[k]))) * HEIGHT)
        for k in kept.tolist()
    ]
    return step_path([*points, (float(WIDTH), points[-1][1])])


def _count(times: FloatArray, events: IntArray) -> IntArray:
    """Count the events until each of the times."""
    return np.searchsorted(np.sort(events), times, side="right").astype(np.int64)
