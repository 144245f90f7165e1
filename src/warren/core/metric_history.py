"""Metrics of jobs so far: the values that ``RoundsDone`` carries, kept in growing buffers.

Only the metric that ends a job is kept, and of jobs without ``stop`` nothing. If the job is
evaluated, these are the values of the evaluations; else, for a metric named ``loss``, the mean loss
that rounds report. Both in one curve would not be one curve. Values that are not finite are left
out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from warren.core.view_columns import read_only
from warren.model.costs import FloatArray, IntArray
from warren.model.events import RoundsDone
from warren.model.job import Job
from warren.model.view import NO_PROGRESS, Progress

_FIRST_ROOM: Final = 16
"""Points that a job's buffers hold before they are doubled for the first time."""
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(slots=True, eq=False)
class MetricHistory:
    """The points of every job that has any; ``Observed`` for a policy that knows all jobs.

    ``jobs`` is set again when jobs are added.
    """

    jobs: Sequence[Job]
    _points: dict[int, _Points] = field(init=False, default_factory=dict)

    def note(self, event: RoundsDone) -> None:
        """Keep the value at the end of these rounds, if the event has one. O(1), amortized."""
        job = self.jobs[event.job]
        if job.stop is None:
            return
        # Evaluations and mean losses of rounds are different curves: a job has one or the other.
        value = dict(event.metrics).get(job.stop.metric)
        if value is None and job.evaluate is None and job.stop.metric == "loss":
            value = event.loss
        if value is None or not math.isfinite(value):
            return
        points = self._points.get(event.job)
        if points is None:
            points = self._points[event.job] = _Points()
        points.add(event.round + event.rounds, value)

    def go_back(self, job: int, round_no: int) -> None:
        """Put the job back to its state after ``round_no`` rounds, and drop later observations."""
        points = self._points.get(job)
        if points is not None:
            points.cut(round_no)

    def of(self, job: int) -> Progress:
        """Return one job's points, as ``Observed`` says; O(1), nothing is copied."""
        points = self._points.get(job)
        if points is not None:
            return points.shown()
        if not 0 <= job < len(self.jobs):
            raise IndexError(f"job {job} of {len(self.jobs)}")
        return NO_PROGRESS


class _Points:
    """One job's points: buffers that double when they are full, and read-only sight of them."""

    __slots__ = ("_count", "_rounds", "_seen_rounds", "_seen_values", "_shown", "_values")

    def __init__(self) -> None:
        self._count = 0
        self._keep(np.empty(_FIRST_ROOM, dtype=np.int64), np.empty(_FIRST_ROOM))

    def _keep(self, rounds: IntArray, values: FloatArray) -> None:
        self._rounds, self._values = rounds, values
        self._seen_rounds = read_only(rounds)
        self._seen_values = read_only(values)
        self._shown: Progress | None = None

    def add(self, rounds: int, value: float) -> None:
        count = self._count
        if count == len(self._rounds):
            self._keep(_doubled(self._rounds), _doubled(self._values))
        self._rounds[count] = rounds
        self._values[count] = value
        self._count, self._shown = count + 1, None

    def cut(self, rounds: int) -> None:
        # The values shown to a policy must not change while it still holds them.
        self._count = int(np.searchsorted(self._rounds[: self._count], rounds, side="right"))
        self._keep(self._rounds.copy(), self._values.copy())

    def shown(self) -> Progress:
        if self._shown is None:
            count = self._count
            self._shown = Progress(self._seen_rounds[:count], self._seen_values[:count])
        return self._shown


def _doubled(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    return np.concatenate([array, np.empty_like(array)])
