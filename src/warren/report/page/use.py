"""Over time: how busy each device type is, and how many jobs wait and run."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from warren.model.costs import IntArray
from warren.report.metrics import first_start_ns
from warren.report.page.svg import WIDTH, Frame, Scale, Tick, legend, line_path, ticks, time_ticks
from warren.report.record import Record

Floats = npt.NDArray[np.float64]
BINS: Final = 200
_HEIGHT: Final = 190


def use_chart(record: Record, span_s: Scale) -> str:
    """Share of each type's devices that compute, in ``BINS`` bins."""
    x_ticks, unit = time_ticks(span_s)
    names = record.run.cluster.type_names
    lines, chips = [], []
    for number, name in enumerate(names):
        share = busy_share(record, number, span_s)
        points = [(k / (BINS - 1) * WIDTH, (1 - value) * _HEIGHT) for k, value in enumerate(share)]
        lines.append(f'<path class="line l{number}" data-k="t{number}" d="{line_path(points)}"/>')
        count = record.run.cluster.type_of_device.count(number)
        mean = float(share.mean()) if len(share) else 0.0
        chips.append((f"c{number}", f"t{number}", f"{name} ({count}): {100 * mean:.0f} %"))
    frame = Frame(
        label="Share of devices computing, by type, over time",
        height=_HEIGHT,
        body="".join(lines),
        x_ticks=x_ticks,
        y_ticks=[Tick(at=k / 4, label=f"{25 * k} %") for k in range(5)],
        x_title=f"cluster time, {unit}",
    )
    return frame.render() + legend(chips)


def busy_share(record: Record, kind: int, span_s: Scale) -> Floats:
    """Mean share of the devices of type ``kind`` in COMP, for each of ``BINS`` equal bins.

    A row's COMP time is spread evenly from its start to its COMP end.
    """
    line = record.history.timeline
    type_D = np.array(record.run.cluster.type_of_device, dtype=np.int64)
    rows = type_D[line.device_R] == kind
    start, end = line.start_ns_R[rows].astype(float), line.comp_end_ns_R[rows].astype(float)
    rate = line.busy_ns_R[rows] / np.maximum(1.0, end - start)
    edges = np.linspace(span_s.low, span_s.high, BINS + 1) * 1e9
    done = _ramps(edges, start, rate) - _ramps(edges, end, rate)
    room = max(1, int((type_D == kind).sum())) * np.diff(edges)
    return np.clip(np.diff(done) / np.maximum(room, 1e-9), 0.0, 1.0)


def _ramps(at: Floats, begin: Floats, rate: Floats) -> Floats:
    """Sum over rows of rate x max(0, at - begin), for each ``at``."""
    order = np.argsort(begin, kind="stable")
    origin = float(begin.min()) if len(begin) else 0.0
    rates = np.concatenate(([0.0], np.cumsum(rate[order])))
    moments = np.concatenate(([0.0], np.cumsum(rate[order] * (begin[order] - origin))))
    before = np.searchsorted(begin[order], at, side="left")
    return rates[before] * (at - origin) - moments[before]


def jobs_chart(record: Record, span_s: Scale) -> str:
    """How many jobs wait (arrived, nothing ran yet) and how many are under way."""
    arrival = np.array([job.arrival_ns for job in record.run.workload.jobs], dtype=np.int64)
    start = first_start_ns(record)
    end = _last_end_ns(record, arrival)
    times = np.linspace(span_s.low, span_s.high, BINS) * 1e9
    waiting = _count(times, arrival) - _count(times, np.minimum(start, end))
    running = _count(times, np.minimum(start, end)) - _count(times, end)
    top = Scale(low=0.0, high=float(max(1, waiting.max(), running.max())))
    x_ticks, unit = time_ticks(span_s)
    lines = "".join(
        f'<path class="line {colour}" data-k="{key}" d="'
        + line_path(
            (k / (BINS - 1) * WIDTH, (1 - top(float(value))) * _HEIGHT)
            for k, value in enumerate(values)
        )
        + '"/>'
        for colour, key, values in (("l1", "qw", waiting), ("l0", "qr", running))
    )
    frame = Frame(
        label="Jobs waiting and under way over time",
        height=_HEIGHT,
        body=lines,
        x_ticks=x_ticks,
        y_ticks=[tick for tick in ticks(top, 4) if "." not in tick.label],
        x_title=f"cluster time, {unit}",
    )
    return frame.render() + legend(
        (("c1", "qw", "waiting for the first task"), ("c0", "qr", "under way"))
    )


def _last_end_ns(record: Record, arrival_ns: IntArray) -> IntArray:
    """The finish, or the last end of a task for a job that did not finish."""
    last = arrival_ns.copy()
    line = record.history.timeline
    np.maximum.at(last, line.job_R, line.end_ns_R)
    return np.where(record.history.finish_ns_J >= 0, record.history.finish_ns_J, last)


def _count(times: Floats, events: IntArray) -> IntArray:
    return np.searchsorted(np.sort(events), times, side="right").astype(np.int64)
