"""The columns of the state that policies see: the same memory, but nothing can be written.

A policy that is blind (it neither plans before time starts nor needs rounds) sees no more than a
cluster would know: jobs that have arrived, and of none how many rounds it has. Jobs are sorted by
arrival, so these are always the first ones, and every column ends with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, overload

from warren.core.metric_history import MetricHistory, read_only
from warren.model.costs import CostTable
from warren.model.events import AnyEvent
from warren.model.job import Job
from warren.model.past import Past
from warren.model.run import Run
from warren.policy.protocol import AnyPolicy

_OF_JOBS: Final = (
    "arrived_J",
    "done_J",
    "open_J",
    "round_J",
    "rounds_J",
    "scale_J",
    "next_round_J",
    "next_shard_J",
    "arrival_ns_J",
    "weight_J",
)
_OF_DEVICES: Final = ("type_D", "queued_D")


def is_blind(policy: AnyPolicy) -> bool:
    """Tell whether a policy is to know nothing of the future, nor how long a job will run."""
    return not policy.offline and not policy.needs_rounds


class ViewColumns:
    """The columns of a view, by name; ``state`` has them under the same names."""

    def __init__(
        self, state: object, run: Run, costs: CostTable, *, past: Past, blind: bool
    ) -> None:
        self._jobs = run.workload.jobs
        self._costs = costs
        self._blind = blind
        self._columns_J = {name: read_only(getattr(state, name)) for name in _OF_JOBS}
        self.observed = MetricHistory(self._jobs)
        # Jobs as a blind policy sees them, made when first looked at; jobs that ended before they
        # arrived; and how many jobs are shown.
        self._told: dict[int, Job] = {}
        self._never: set[int] = set()
        self._count = 0
        self.columns: dict[str, Any] = {
            "cluster": run.cluster,
            "grain": run.grain,
            "seed": run.seed,
            "past": past,
            **{name: read_only(getattr(state, name)) for name in _OF_DEVICES},
            **self._columns_J,
            "jobs": self._jobs,
            "costs": costs,
            "progress": self.observed,
        }
        if blind:
            self._end_at(0)

    def show(self, job: int) -> None:
        """Show this job, and those before it, to a blind policy from now on."""
        if self._blind and job >= self._count:
            self._end_at(job + 1)

    def keep_back(self, job: int) -> None:
        """Keep from a blind policy a job that has ended before it arrived.

        Columns end with the last job shown, so to show it would show what arrives before it.
        """
        if self._blind and job >= self._count:
            self._never.add(job)

    def told(self, events: tuple[AnyEvent, ...]) -> tuple[AnyEvent, ...]:
        """Return these events without those of jobs that the policy does not know."""
        if not self._never:
            return events
        return tuple(event for event in events if getattr(event, "job", -1) < self._count)

    def _end_at(self, count: int) -> None:
        """Let all that has J for its axis end with the first ``count`` jobs."""
        self._count = count
        for name, column in self._columns_J.items():
            self.columns[name] = column[:count]
        self.columns["jobs"] = _Jobs(self._jobs, self._told, count)
        self.columns["costs"] = self._costs.first(count)
        self.columns["progress"] = self.observed.first(count)


class _Jobs(Sequence[Job]):
    """The first jobs of a workload, without their numbers of rounds."""

    __slots__ = ("_count", "_jobs", "_told")

    def __init__(self, jobs: tuple[Job, ...], told: dict[int, Job], count: int) -> None:
        self._jobs = jobs
        self._told = told
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Job: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Job, ...]: ...

    def __getitem__(self, at: int | slice) -> Job | tuple[Job, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(self._count)))
        at = at + self._count if at < 0 else at
        if not 0 <= at < self._count:
            raise IndexError(f"job {at} of {self._count} that have arrived")
        found = self._told.get(at)
        if found is None:
            found = self._told[at] = replace(self._jobs[at], rounds=None)
        return found
