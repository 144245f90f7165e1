"""Figures of runs: completion times of jobs, jobs on devices, and use of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from warren.report.figures.drawing import (
    COLOURS,
    GREY,
    add_legend,
    colour,
    new_figure,
    set_title,
    unit_of,
)
from warren.report.page.curves import finished_jct_s
from warren.report.page.svg import Scale
from warren.report.page.use import BINS, busy_share
from warren.report.record import Record
from warren.report.slices import joined_to_fit, span_ns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SLICES: Final = 20_000
"""Boxes in a picture at most: stretches are joined over small gaps until no more are left."""
_NAMED: Final = 7
"""Most jobs with a color other than gray, and a name: those that computed longest."""


def cdf_figure(records: Sequence[Record], names: Sequence[str]) -> Figure:
    """Draw the share of finished jobs by JCT, a staircase a run."""
    figure, (axes,) = new_figure()
    values = [finished_jct_s(record) for record in records]
    # A run without a finished job has no JCTs; without any in all runs there is one to scale by.
    known = np.concatenate([one for one in values if len(one)] or [np.ones(1)])
    unit = unit_of(float(known.max()))
    for k, (jct_s, name) in enumerate(zip(values, names, strict=True)):
        share = np.arange(1, len(jct_s) + 1) / max(1, len(jct_s))
        jct = [0.0, *(jct_s / unit.size_s)]
        axes.step(jct, [0.0, *share], where="post", color=colour(k), label=name)
    # Beyond this ratio short jobs would stand on the axis.
    if known.min() > 0 and known.max() / known.min() > 30:
        axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel(f"JCT, {unit.word} of cluster time")
    axes.set_ylabel("share of finished jobs")
    set_title(axes, "Job completion times")
    add_legend(figure, axes)
    return figure


def gantt_figure(record: Record) -> Figure:
    """Draw which job computes where: a row a device, a box a stretch of one job."""
    slices, _ = joined_to_fit(record.history.timeline, _SLICES)
    devices = record.run.cluster.devices
    figure, (axes,) = new_figure(height=1.4 + 0.18 * len(devices))
    # The jobs that computed longest have colors.
    busy_J = np.bincount(slices.job_S, slices.busy_ns_S, len(record.run.workload.jobs))
    longest = np.argsort(-busy_J, kind="stable")[:_NAMED]
    unit = unit_of(float(slices.end_ns_S.max(initial=0)) / 1e9)
    unit_ns = unit.size_s * 1e9
    for job in np.unique(slices.job_S).tolist():
        rows = np.flatnonzero(slices.job_S == job)
        at = int(np.flatnonzero(longest == job)[0]) if job in longest else None
        start = slices.start_ns_S[rows] / unit_ns
        axes.barh(
            slices.device_S[rows],
            slices.end_ns_S[rows] / unit_ns - start,
            0.8,
            start,
            color=GREY if at is None else COLOURS[at],
            edgecolor="white",
            linewidth=0.2,
            label=None if at is None else record.run.workload.jobs[job].name,
        )
    axes.set_yticks(range(len(devices)), [one.name for one in devices], fontsize=6)
    axes.invert_yaxis()
    others = "; other jobs gray" if len(busy_J) > _NAMED else ""
    axes.set_xlabel(f"cluster time, {unit.word}{others}")
    set_title(axes, f"Jobs on devices, {record.place}")
    add_legend(figure, axes)
    return figure


def use_figure(record: Record) -> Figure:
    """Draw the share of the devices of each type that compute, over time."""
    figure, (axes,) = new_figure()
    first_ns, last_ns = span_ns(record.history.timeline)
    span_s = Scale(low=first_ns / 1e9, high=last_ns / 1e9)
    unit = unit_of(span_s.high)
    edges = np.linspace(span_s.low, span_s.high, BINS + 1) / unit.size_s
    for k, name in enumerate(record.run.cluster.type_names):
        share, count = busy_share(record, k, span_s), record.run.cluster.type_of_device.count(k)
        axes.stairs(share, edges, color=colour(k), label=f"{count} {name}", linewidth=1.5)
    axes.set_ylim(0, 1)
    axes.set_xlabel(f"cluster time, {unit.word}")
    axes.set_ylabel("share of devices computing")
    set_title(axes, f"Use of devices, {record.place}")
    add_legend(figure, axes)
    return figure
