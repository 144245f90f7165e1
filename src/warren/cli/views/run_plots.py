"""Pictures of runs for a paper: completions of jobs, jobs on devices, and use of devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from warren.cli.views.pictures import COLOURS, GREY, new_picture, save_picture
from warren.report.page.curves import finished_jct_s
from warren.report.page.svg import Scale
from warren.report.page.use import BINS, busy_share
from warren.report.record import Record
from warren.report.slices import joined_to_fit, span_ns

_SLICES: Final = 20_000
"""Boxes in a picture at most: stretches are joined over small gaps until no more are left."""
_NAMED: Final = 7
"""Most jobs with a color other than grey, and a name: those that computed longest."""


def plot_cdf(records: Sequence[Record], names: Sequence[str], path: Path) -> None:
    """Draw the share of finished jobs by JCT in cluster seconds, a staircase a run."""
    figure, axes = new_picture()
    values = [finished_jct_s(record) for record in records]
    for k, (jct_s, name) in enumerate(zip(values, names, strict=True)):
        share = np.arange(1, len(jct_s) + 1) / max(1, len(jct_s))
        axes.step([0.0, *jct_s], [0.0, *share], where="post", color=_colour(k), label=name)
    # A run without a finished job has no JCTs; without any in all runs there is one to scale by.
    known = np.concatenate([one for one in values if len(one)] or [np.ones(1)])
    # Beyond this ratio short jobs would stand on the axis.
    if known.min() > 0 and known.max() / known.min() > 30:
        axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel("JCT, cluster seconds")
    axes.set_ylabel("share of finished jobs")
    save_picture(figure, axes, path)


def plot_gantt(record: Record, path: Path) -> None:
    """Draw which job computes where: a row a device, a box a stretch of one job."""
    slices, _ = joined_to_fit(record.history.timeline, _SLICES)
    devices = record.run.cluster.devices
    figure, axes = new_picture(height=1.2 + 0.18 * len(devices))
    # The jobs that computed longest have colors.
    busy_J = np.bincount(slices.job_S, slices.busy_ns_S, len(record.run.workload.jobs))
    longest = np.argsort(-busy_J, kind="stable")[:_NAMED]
    for job in np.unique(slices.job_S).tolist():
        rows = np.flatnonzero(slices.job_S == job)
        at = int(np.flatnonzero(longest == job)[0]) if job in longest else None
        start_s = slices.start_ns_S[rows] / 1e9
        axes.barh(
            slices.device_S[rows],
            slices.end_ns_S[rows] / 1e9 - start_s,
            0.8,
            start_s,
            color=GREY if at is None else COLOURS[at],
            edgecolor="white",
            linewidth=0.2,
            label=None if at is None else record.run.workload.jobs[job].name,
        )
    axes.set_yticks(range(len(devices)), [one.name for one in devices], fontsize=6)
    axes.invert_yaxis()
    axes.set_xlabel("cluster seconds" + ("; other jobs grey" if len(busy_J) > _NAMED else ""))
    save_picture(figure, axes, path)


def plot_use(record: Record, path: Path) -> None:
    """Draw the share of the devices of each type that compute, over time."""
    figure, axes = new_picture()
    first_ns, last_ns = span_ns(record.history.timeline)
    span_s = Scale(low=first_ns / 1e9, high=last_ns / 1e9)
    edges = np.linspace(span_s.low, span_s.high, BINS + 1)
    for k, name in enumerate(record.run.cluster.type_names):
        share, count = busy_share(record, k, span_s), record.run.cluster.type_of_device.count(k)
        axes.stairs(share, edges, color=_colour(k), label=f"{count} {name}", linewidth=1.5)
    axes.set_ylim(0, 1)
    axes.set_xlabel("cluster seconds")
    axes.set_ylabel("share of devices computing")
    save_picture(figure, axes, path)


def _colour(number: int) -> str:
    """Return the color of a line; beyond the last they begin again."""
    return COLOURS[number % len(COLOURS)]
