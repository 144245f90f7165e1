"""Curves: the distribution of JCT, and the metrics of live jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from markupsafe import Markup

from warren.model.costs import FloatArray
from warren.model.job import metric_column
from warren.report.metrics import arrival_ns
from warren.report.number_text import in_unit
from warren.report.page.colours import Colouring, legend_of
from warren.report.page.fill import escaped
from warren.report.page.svg import (
    HEIGHT,
    SHARES,
    WIDTH,
    ChartFrame,
    Scale,
    axis_unit,
    line_path,
    step_path,
    ticks,
    time_ticks,
)
from warren.report.record import Record

_MOST_POINTS: Final = 400
"""Points of one curve at most, so that a page of long runs stays small."""
_MOST_CURVES: Final = 60
"""Most jobs whose curves are drawn: those with most points."""
Points = Sequence[tuple[float, float]]


def jct_chart(records: Sequence[Record], names: Sequence[str]) -> Markup:
    """Draw the share of finished jobs by JCT, one staircase a run; one run has p50 and p95 too."""
    jct_s = [finished_jct_s(record) for record in records]
    known = [values for values in jct_s if len(values)]
    if not known:
        return Markup('<p class="note">No job finished.</p>')
    low, high = min(float(v[0]) for v in known), max(float(v[-1]) for v in known)
    scale = jct_scale(low, high)
    paths = [
        f'<path class="line l{k}" data-k="r{k}" d="{_staircase(values, scale)}"/>'
        for k, values in enumerate(jct_s)
        if len(values)
    ]
    marks = _quantiles(known[0], scale) if len(records) == 1 else ("", "")
    body = "".join(paths) + marks[0]
    frame = jct_frame("Distribution of job completion time", scale, body, marks[1])
    chips = [(f"c{k}", f"r{k}", name) for k, name in enumerate(names)]
    return frame.render(chips if len(records) > 1 else ())


def jct_frame(label: str, scale: Scale, body: str, over: str = "") -> ChartFrame:
    """Return the frame around shares of finished jobs by JCT, with ``over`` laid over it."""
    x_ticks, unit = time_ticks(scale)
    return ChartFrame(
        label=label,
        height=HEIGHT,
        body=body,
        x_ticks=x_ticks,
        y_ticks=SHARES,
        x_title=f"JCT, {unit}" + (", logarithmic" if scale.log else ""),
        over=over,
    )


def finished_jct_s(record: Record) -> FloatArray:
    """Return the JCTs of finished jobs in seconds, sorted."""
    done = record.history.finish_ns_J >= 0
    return np.sort((record.history.finish_ns_J - arrival_ns(record))[done] / 1e9)


def jct_scale(low: float, high: float) -> Scale:
    """Return the axis of JCTs from the least to the most, logarithmic where they are far apart."""
    # If JCTs differ by more than a factor of 30, a linear axis would press the short ones together
    # at its left end.
    if low > 0 and high / low > 30:
        return Scale(low=low / 1.1, high=high * 1.1, log=True)
    return Scale(low=0.0, high=high * 1.02 if high > 0 else 1.0)


def _staircase(values: FloatArray, scale: Scale) -> str:
    """Return the path of the share of values at most x, thinned to ``_MOST_POINTS`` steps."""
    # Picked at equal steps of the share, the first and the last among them.
    picks = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_POINTS)).astype(int))
    points = [(0.0, float(HEIGHT))]
    points += [
        (scale(float(values[k])) * WIDTH, (1 - (k + 1) / len(values)) * HEIGHT)
        for k in picks.tolist()
    ]
    return step_path([*points, (float(WIDTH), 0.0)])


def _quantiles(values: FloatArray, scale: Scale) -> tuple[str, str]:
    """Return lines in the picture and labels over it that mark p50 and p95."""
    lines, labels = [], []
    for row, share in enumerate((50, 95)):
        value = float(np.percentile(values, share))
        at = scale(value)
        lines.append(f"M{at * WIDTH:.1f} {HEIGHT}V{(1 - share / 100) * HEIGHT:.1f}")
        # To the right of its line, at the foot: the curve is above. One row each, since the lines
        # may be close; to the left only where the page ends.
        side = "before" if at > 0.8 else "after"
        labels.append(
            f'<span class="mark {side}" style="left:{100 * at:.2f}%;'
            f'top:{HEIGHT - 18 - 20 * row:.0f}px">'
            f"p{share} {escaped(in_unit(value, axis_unit(scale)))}</span>"
        )
    return f'<path class="dash" d="{"".join(lines)}"/>', "".join(labels)


def learning_charts(record: Record, colours: Colouring, span_s: Scale) -> list[tuple[str, Markup]]:
    """Draw the loss and the metrics that live jobs evaluated: (title, chart), at most four."""
    curves: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for event in record.history.rounds:
        values = {metric_column(name): value for name, value in event.metrics}
        if event.loss is not None:
            values["loss"] = event.loss
        # A training that diverged has values that no axis can show.
        for name, value in values.items():
            if np.isfinite(value):
                curves[name][event.job].append((event.barrier_ns / 1e9, value))
    order = sorted(curves, key=lambda name: (name != "loss", name))[:4]
    names = [job.name for job in record.run.workload.jobs]
    return [(name, _learning(name, curves[name], names, colours, span_s)) for name in order]


def _learning(
    name: str,
    curves: dict[int, list[tuple[float, float]]],
    names: Sequence[str],
    colours: Colouring,
    span_s: Scale,
) -> Markup:
    """Draw one value of all jobs over time."""
    jobs = sorted(curves, key=lambda job: -len(curves[job]))[:_MOST_CURVES]
    values = [value for job in jobs for _, value in curves[job]]
    low, high = min(values), max(values)
    log = name == "loss" and low > 0 and high / low > 50
    scale = _value_scale(low, high, log)
    paths = "".join(
        f'<path class="line {colours.class_J[job].replace("c", "l")}" data-j="{job}" '
        f'data-k="{colours.key_J[job]}" d="{_curve(curves[job], span_s, scale)}"/>'
        for job in sorted(jobs)
    )
    x_ticks, unit = time_ticks(span_s)
    left_out = len(curves) - len(jobs)
    frame = ChartFrame(
        label=f"{name} of each job over time",
        height=HEIGHT,
        body=paths,
        x_ticks=x_ticks,
        y_ticks=ticks(scale, 5),
        x_title=f"cluster time, {unit}" + (", loss logarithmic" if log else ""),
    )
    return frame.render(
        legend_of(colours, sorted(jobs), names),
        f"{left_out} shorter curves are not drawn." if left_out else "",
    )


def _value_scale(low: float, high: float, log: bool) -> Scale:
    """Return the axis of the values with a little room above and below."""
    if log:
        return Scale(low=low / 1.15, high=high * 1.15, log=True)
    room = 0.06 * (high - low) or 1.0
    return Scale(low=low - room, high=high + room)


def _curve(points: Points, span_s: Scale, scale: Scale) -> str:
    """Return the path of a curve of (seconds, value), thinned to ``_MOST_POINTS``."""
    picks = np.unique(np.linspace(0, len(points) - 1, min(len(points), _MOST_POINTS)).astype(int))
    places = [
        (span_s(points[k][0]) * WIDTH, (1 - scale(points[k][1])) * HEIGHT) for k in picks.tolist()
    ]
    # A path of one point draws nothing: make it a dash.
    if len(places) == 1:
        places = [(places[0][0] - 2, places[0][1]), (places[0][0] + 2, places[0][1])]
    return line_path(places)
