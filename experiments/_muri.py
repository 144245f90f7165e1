"""Jobs of Muri's traces in virtual time: gangs of GPUs that jobs may share in turns.

A job has iterations, the time of one alone, and what it takes of three resources (storage and CPU,
GPU, network). Whenever a job comes or ends it is decided anew who runs; nothing is lost by that.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Final

import numpy as np

from warren.solve.job_groups.priced_groups import GroupTime, SharingJobs, groups_that_run

RESOURCES: Final = 3
_DONE: Final = 1e-9
"""Of its time alone: a job of which less is left has ended."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Columns of a trace; times in seconds. ``kinds``: time alone, and of each resource."""

    submit_s: np.ndarray
    iterations: np.ndarray
    gpus: np.ndarray
    kind: np.ndarray
    kinds: tuple[tuple[float, ...], ...]

    @property
    def alone_s(self) -> np.ndarray:
        """An iteration of each job alone."""
        return np.array([one[0] for one in self.kinds])[self.kind]


def read(path: Path) -> Trace:
    """Read a trace."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    known: dict[tuple[float, ...], int] = {}
    kind = [
        known.setdefault(
            tuple(
                float(row[name]) / 1e3
                for name in ("iteration_time", *(f"resource_time_{at}" for at in range(RESOURCES)))
            ),
            len(known),
        )
        for row in rows
    ]
    return Trace(
        submit_s=np.array([float(row["submit_time"]) / 1e3 for row in rows]),
        iterations=np.array([float(row["iterations"]) for row in rows]),
        gpus=np.array([int(row["num_gpu"]) for row in rows]),
        kind=np.array(kind),
        kinds=tuple(known),
    )


def in_stages(trace: Trace) -> GroupTime:
    """Jobs go through the resources in one order, each on another one, and wait for each other.

    The time is the sum over stages of the longest; of the ways to begin the best, and no less than
    any job alone, whose own stages overlap.
    """
    kinds = trace.kinds

    @cache
    def group_s(group: tuple[int, ...]) -> float:
        if len(group) == 1:
            return kinds[group[0]][0]
        sums = [
            sum(
                max(
                    kinds[kind][1 + (stage + shift) % RESOURCES]
                    for kind, shift in zip(group, shifts, strict=True)
                )
                for stage in range(RESOURCES)
            )
            for shifts in permutations(range(RESOURCES), len(group))
        ]
        return max(min(sums), *(kinds[kind][0] for kind in group))

    return group_s


def in_lanes(trace: Trace) -> GroupTime:
    """Each resource serves one job after the other, as in (4.1) of Harmony, with three of them."""
    kinds = trace.kinds

    @cache
    def group_s(group: tuple[int, ...]) -> float:
        alone = max(kinds[kind][0] for kind in group)
        if len(group) == 1:
            return alone
        return max(alone, *(sum(kinds[kind][1 + at] for kind in group) for at in range(RESOURCES)))

    return group_s


Rule = Callable[[Trace, np.ndarray, np.ndarray], list[tuple[int, ...]]]
"""Says which groups run, as jobs of the trace, of those that are there and the iterations left."""


def shortest_first(gpus: int, *, by_gpus: bool = False) -> Rule:
    """Run the jobs with the least time left, or the least time of GPUs, that fit."""

    def rule(trace: Trace, present: np.ndarray, left: np.ndarray) -> list[tuple[int, ...]]:
        time_s = left[present] * trace.alone_s[present] * (trace.gpus[present] if by_gpus else 1)
        free, found = gpus, []
        for job in present[np.argsort(time_s, kind="stable")].tolist():
            if trace.gpus[job] <= free:
                free -= int(trace.gpus[job])
                found.append((job,))
        return found

    return rule


def sharing(gpus: int, most: int, group_s: GroupTime) -> Rule:
    """Run groups that are worth most: each job weighs one over its iterations left."""

    def rule(trace: Trace, present: np.ndarray, left: np.ndarray) -> list[tuple[int, ...]]:
        jobs = SharingJobs(
            weight_J=1 / left[present],
            kind_J=trace.kind[present],
            devices_J=trace.gpus[present],
            devices=gpus,
            most=most,
            group_s=group_s,
        )
        return [tuple(present[list(group)].tolist()) for group in groups_that_run(jobs)]

    return rule


def simulate(trace: Trace, rule: Rule, group_s: GroupTime) -> np.ndarray:
    """Return when each job ends, in seconds."""
    left = trace.iterations.copy()
    to_come = np.argsort(trace.submit_s, kind="stable").tolist()
    present: list[int] = []
    end_s, now_s = np.full(len(left), np.nan), 0.0
    while to_come or present:
        if not present:
            now_s = max(now_s, float(trace.submit_s[to_come[0]]))
        while to_come and trace.submit_s[to_come[0]] <= now_s:
            present.append(to_come.pop(0))
        there = np.array(sorted(present))
        rate = {
            job: 1 / group_s(tuple(sorted(trace.kind[list(group)].tolist())))
            for group in rule(trace, there, left)
            for job in group
        }
        span_s = min(left[job] / per_s for job, per_s in rate.items())
        if to_come:
            span_s = min(span_s, float(trace.submit_s[to_come[0]]) - now_s)
        now_s += span_s
        for job, per_s in rate.items():
            left[job] -= span_s * per_s
            if left[job] <= _DONE * trace.iterations[job]:
                end_s[job] = now_s
                present.remove(job)
    return end_s
