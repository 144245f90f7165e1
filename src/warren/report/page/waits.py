"""The chart of jobs over time: when each job arrived, waited, ran and ended."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
from markupsafe import Markup

from warren.model.costs import IntArray
from warren.report.metrics import arrival_ns, last_end_ns
from warren.report.number_text import duration
from warren.report.page.colours import Colouring, legend_of
from warren.report.page.fill import escaped
from warren.report.page.svg import WIDTH, ChartFrame, Scale, boxes_path, short, time_ticks
from warren.report.page.use import SHORT_GAP, stays
from warren.report.record import Record

MOST_JOBS: Final = 40
"""Jobs up to this number have a row each; of more, those that waited longest."""
_LEAST: Final = 1.5
"""Width of a box at least, in units of the picture, so that a short run is seen."""


def waits_chart(record: Record, colours: Colouring, span_s: Scale) -> Markup:
    """Draw a row a job, in order of arrival; ``span_s`` is its time axis in seconds."""
    arrival_ns_J, end_ns_J = arrival_ns(record), _ends(record, span_s)
    job_S, start_ns_S, end_ns_S = stays(record.history.timeline, span_s)
    waited_ns_J = end_ns_J - arrival_ns_J
    np.subtract.at(waited_ns_J, job_S, end_ns_S - start_ns_S)
    shown = _shown(arrival_ns_J, waited_ns_J)
    runs: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for job, start, end in zip(
        job_S.tolist(), (start_ns_S / 1e9).tolist(), (end_ns_S / 1e9).tolist(), strict=True
    ):
        runs[job].append((span_s(start) * WIDTH, span_s(end) * WIDTH))
    row_px = 22 if len(shown) <= 12 else 18 if len(shown) <= 24 else 15
    names = [job.name for job in record.run.workload.jobs]
    body, labels, marks = [], [], dict.fromkeys(("end", "end lost", "arrival"), "")
    for row, job in enumerate(shown.tolist()):
        top = row * row_px + 2
        high = row_px - 4
        arrived, ended = (span_s(ns[job] / 1e9) * WIDTH for ns in (arrival_ns_J, end_ns_J))
        waiting = [(arrived, top + high / 4, max(0.0, ended - arrived), high / 2)]
        running = [(left, top, max(_LEAST, right - left), high) for left, right in runs[job]]
        told = f'data-j="{job}" data-k="{colours.key_J[job]}"'
        body.append(f'<path class="wait b" {told} d="{boxes_path(waiting)}"/>')
        if running:
            colour = colours.class_J[job]
            body.append(f'<path class="b {colour}" {told} d="{boxes_path(running)}"/>')
        marks["arrival"] += f"M{short(arrived)} {top - 1}v{high + 2}"
        status = record.history.status(job)
        if status != "unfinished":
            mark = "end" if status == "finished" else "end lost"
            marks[mark] += f"M{short(ended)} {top - 1}v{high + 2}"
        labels.append(
            f'<span class="dev" style="top:{row * row_px}px;height:{row_px}px" '
            f'title="{escaped(names[job])}"><u>{escaped(names[job])}</u></span>'
        )
    body += [f'<path class="{name}" d="{path}"/>' for name, path in marks.items() if path]
    x_ticks, unit = time_ticks(span_s, 8)
    frame = ChartFrame(
        label=f"Arrival, waiting, running and end of {len(shown)} jobs",
        height=row_px * len(shown),
        body="".join(body),
        x_ticks=x_ticks,
        x_title=f"cluster time, {unit}",
        over="".join(labels),
        kind="waits",
    )
    chips = _legend(colours, shown, names, lost=bool(marks["end lost"]))
    return frame.render(chips, _notes(len(names), len(shown), span_s))


def _shown(arrival_ns_J: IntArray, waited_ns_J: IntArray) -> IntArray:
    """Return the ``MOST_JOBS`` jobs that waited longest, in order of arrival."""
    # Stable sorts keep the order of the run file among jobs that wait or arrive alike.
    longest = np.sort(np.argsort(-waited_ns_J, kind="stable")[:MOST_JOBS])
    return longest[np.argsort(arrival_ns_J[longest], kind="stable")]


def _ends(record: Record, span_s: Scale) -> IntArray:
    """Return the end of each job; a job without an end waits to the end of the chart."""
    end_ns_J = last_end_ns(record)
    for job in range(len(end_ns_J)):
        if record.history.status(job) == "unfinished":
            end_ns_J[job] = round(span_s.high * 1e9)
    return end_ns_J


def _legend(
    colours: Colouring, shown: IntArray, names: list[str], *, lost: bool
) -> list[tuple[str, str, str]]:
    """Return the chips: marks, and colors of models; a job is named in its own row."""
    whose = "model" if colours.by == "model" else "job"
    chips = [
        ("arrival", "", "arrival"),
        ("wait", "", "waiting"),
        ("runs", "", f"running, in the {whose}'s color"),
        ("end", "", "end"),
    ]
    if lost:
        chips.append(("end lost", "", "failed or cancelled"))
    return chips + (legend_of(colours, shown.tolist(), names) if whose == "model" else [])


def _notes(jobs: int, shown: int, span_s: Scale) -> str:
    """Tell which jobs have no row, and which pauses count as running."""
    notes = []
    if shown < jobs:
        left = jobs - shown
        notes.append(f"The {shown} jobs that waited longest are shown; {left:,} are left out.")
    pause = duration((span_s.high - span_s.low) * SHORT_GAP)
    notes.append(f"Pauses up to {pause} count as running.")
    return " ".join(notes)
