"""Answers to shape, group and flow in a run: marks in its chart, and lines in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.core.journal_reader import TimedAnswers
from warren.model.decision import Shape
from warren.report.number_text import duration
from warren.report.page.fill import escaped
from warren.report.page.svg import Scale
from warren.report.record import Record

MOST_MARKS: Final = 400
"""Most marks in the chart; with more they would hide the chart."""
MOST_LINES: Final = 50
"""Most answers that are listed in words."""


def answer_marks(record: Record, span_s: Scale, devices: int, row_px: float) -> str:
    """Mark where classes change and servers are: on a device that the job is on, or of the host.

    A class is marked by its number, servers by an S. Empty for a run without such answers, and if
    there are too many to be read.
    """
    answers = [one.decision for one in record.history.answers]
    # Each is looked up in the whole timeline.
    if sum(len(d.classes) + len(d.host_classes) + len(d.shapes) for d in answers) > MOST_MARKS:
        return ""
    marks = [*_class_marks(record, devices), *_server_marks(record, devices)]
    # Marks that would lie on one another become one mark with all their texts.
    at: dict[tuple[float, int], list[_Mark]] = defaultdict(list)
    for mark in marks:
        left = (mark.time_ns / 1e9 - span_s.low) / (span_s.high - span_s.low) * 100
        at[round(min(100.0, max(0.0, left)), 2), mark.device].append(mark)
    return "".join(
        f'<span class="kind" style="left:{left:.2f}%;top:{(device + 1) * row_px:g}px" '
        f'title="{escaped("; ".join(mark.told for mark in found))}">'
        f"{','.join(dict.fromkeys(mark.text for mark in found))}</span>"
        for (left, device), found in at.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """A mark of the chart: its place, its sign, and the text shown when it is pointed at."""

    time_ns: int
    device: int
    text: str
    told: str


def _class_marks(record: Record, devices: int) -> Iterator[_Mark]:
    """Yield the changes of classes, each on a row of the job that runs then, or else next.

    A class on one host is marked on the first device of the host.
    """
    line, jobs = record.history.timeline, record.run.workload.jobs
    first = _first_devices(record, devices)
    for one in record.history.answers:
        for job, kind in one.decision.classes.items():
            # A class may come before the first task.
            of_job = np.flatnonzero(
                (line.job_R == job) & (line.end_ns_R > one.time_ns) & (line.device_R < devices)
            )
            if len(of_job):
                row = of_job[np.lexsort((line.device_R[of_job], line.start_ns_R[of_job]))[0]]
                yield _Mark(
                    time_ns=max(one.time_ns, int(line.start_ns_R[row])),
                    device=int(line.device_R[row]),
                    text=str(kind),
                    told=f"{jobs[job].name}: class {kind}",
                )
        for (host, job), kind in one.decision.host_classes.items():
            if host in first:
                told = f"{jobs[job].name}: class {kind} on {_hosts(record, (host,))}"
                yield _Mark(time_ns=one.time_ns, device=first[host], text=str(kind), told=told)


def _server_marks(record: Record, devices: int) -> Iterator[_Mark]:
    """Yield where shapes put servers, each on the first device of its host."""
    first = _first_devices(record, devices)
    for one in record.history.answers:
        for job, shape in one.decision.shapes.items():
            for host in dict.fromkeys(shape.servers):
                if host in first:
                    name = record.run.workload.jobs[job].name
                    told = f"{name}: server on {_hosts(record, (host,))}"
                    yield _Mark(time_ns=one.time_ns, device=first[host], text="S", told=told)


def _first_devices(record: Record, devices: int) -> dict[int, int]:
    """Return the first device of each host, by index, among those that are shown."""
    place = {host.name: index for index, host in enumerate(record.run.cluster.hosts)}
    first: dict[int, int] = {}
    for device in record.run.cluster.devices[:devices]:
        first.setdefault(place[device.host], device.index)
    return first


def answers_of(record: Record, job: int) -> list[str]:
    """Return the classes and the servers of a job in words, for its tooltip."""
    told = []
    kinds = list(dict.fromkeys(kind for _, kind in record.history.classes_of(job)[1:]))
    if kinds:
        told.append("class " + ", ".join(map(str, kinds)))
    # Their places in the end: a shape may have been void.
    if servers := record.history.servers_of(job)[-1][1]:
        told.append(f"servers on {_hosts(record, servers)}")
    return told


def answer_lines(record: Record) -> list[tuple[str, str]]:
    """Return the first ``MOST_LINES`` answers in words, also the void ones, each with its time."""
    lines = [(one.time_ns, "; ".join(_words(record, one))) for one in record.history.answers]
    for event in record.history.void_moves:
        name = record.run.workload.jobs[event.job].name
        lines.append((event.time_ns, f"{name}: servers stay where they were, {event.reason}"))
    lines.sort(key=lambda line: line[0])
    told = [(duration(time_ns / 1e9), words) for time_ns, words in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        told.append(("", f"{len(lines) - MOST_LINES:,} more; the journal has all."))
    return told


def _words(record: Record, one: TimedAnswers) -> Iterator[str]:
    """Yield each answer of an instant in words."""
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
    for job, delay_ns in decision.delays_ns.items():
        yield f"{jobs[job].name}: next round {duration(delay_ns / 1e9)} later"


def _shape_words(record: Record, shape: Shape) -> str:
    """Return in words where a shape has workers and servers."""
    told = []
    if shape.servers:
        told.append(f"servers on {_hosts(record, shape.servers)}")
    if shape.workers is not None:
        told.append(f"workers on {_hosts(record, shape.workers)}")
    return ", ".join(told) or "any hosts"


def _hosts(record: Record, hosts: Sequence[int]) -> str:
    """Name hosts by their index."""
    return ", ".join(record.run.cluster.hosts[host].name for host in hosts)
