"""What shape, group and flow were answered in a run: marks in its chart, and lines in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from warren.core.journal_reader import TimedAnswers
from warren.model.decision import Shape
from warren.report.number_text import duration
from warren.report.page.fill import escaped
from warren.report.page.svg import Scale
from warren.report.record import Record

MOST_MARKS: Final = 400
"""Marks in the chart up to this number; with more they would hide what they stand on."""
MOST_LINES: Final = 50
"""Answers up to this number are told in words."""


def class_marks(record: Record, span_s: Scale, devices: int, row_px: float) -> str:
    """Mark where the class of a job's bytes changes: its number, on a device that the job is on.

    Empty for a run without classes, and where there are too many changes to be read.
    """
    changes = [
        (one.time_ns, job, kind)
        for one in record.history.answers
        for job, kind in one.decision.classes.items()
    ]
    if not changes or len(changes) > MOST_MARKS:
        return ""
    line = record.history.timeline
    marks = []
    for time_ns, job, kind in changes:
        # The row that runs then, or else the next one: a class may come before the first task.
        of_job = np.flatnonzero(
            (line.job_R == job) & (line.end_ns_R > time_ns) & (line.device_R < devices)
        )
        if not len(of_job):
            continue
        row = of_job[np.lexsort((line.device_R[of_job], line.start_ns_R[of_job]))[0]]
        at_s = max(time_ns, int(line.start_ns_R[row])) / 1e9
        left = (at_s - span_s.low) / (span_s.high - span_s.low) * 100
        top = (int(line.device_R[row]) + 1) * row_px
        name = escaped(record.run.workload.jobs[job].name)
        marks.append(
            f'<span class="kind" style="left:{left:.2f}%;top:{top:g}px" '
            f'title="{name}: class {kind}">{kind}</span>'
        )
    return "".join(marks)


def answer_lines(record: Record) -> list[tuple[str, str]]:
    """Tell the first ``MOST_LINES`` answers in words, each with its time."""
    answers = record.history.answers
    told = [
        (duration(one.time_ns / 1e9), "; ".join(_words(record, one)))
        for one in answers[:MOST_LINES]
    ]
    if len(answers) > MOST_LINES:
        told.append(("", f"{len(answers) - MOST_LINES:,} more; the journal has all."))
    return told


def _words(record: Record, one: TimedAnswers) -> Iterator[str]:
    """Yield what each answer of an instant says."""
    jobs, decision = record.run.workload.jobs, one.decision
    for job, shape in decision.shapes.items():
        yield f"{jobs[job].name}: {_shape_words(record, shape)}"
    if decision.groups is not None:
        for group in decision.groups:
            names = ", ".join(jobs[job].name for job in group.jobs)
            yield f"{names} share {_hosts(record, group.hosts)}"
        if not decision.groups:
            yield "no groups"
    for job, kind in decision.classes.items():
        yield f"{jobs[job].name}: class {kind}"
    for (host, job), kind in decision.host_classes.items():
        yield f"{jobs[job].name}: class {kind} on {_hosts(record, (host,))}"


def _shape_words(record: Record, shape: Shape) -> str:
    """Tell where a shape has workers and servers."""
    told = []
    if shape.servers:
        told.append(f"servers on {_hosts(record, shape.servers)}")
    if shape.workers is not None:
        told.append(f"workers on {_hosts(record, shape.workers)}")
    return ", ".join(told) or "any hosts"


def _hosts(record: Record, hosts: Sequence[int]) -> str:
    """Name hosts by their index."""
    return ", ".join(record.run.cluster.hosts[host].name for host in hosts)
