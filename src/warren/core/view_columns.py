"""The columns of the state that policies see: the same memory, but nothing can be written.

A policy that is blind (it neither plans before time starts nor needs rounds) sees no more than a
cluster would know: jobs that have arrived, and of none how many rounds it has. Jobs are sorted by
arrival, so these are always the first ones, and every column ends with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec.structs import force_setattr

from warren.core.answers.standing import StandingAnswers
from warren.model.cluster import REFERENCE_NIC_BPS, Cluster, static_server_hosts
from warren.model.costs import CostTable, IntArray
from warren.model.events import AnyEvent
from warren.model.job import Job
from warren.model.past import Past
from warren.model.run import Run
from warren.model.view import HostColumns, Observed, Progress, View

_T = TypeVar("_T")
_Scalar = TypeVar("_Scalar", bound=np.generic)
_OF_JOBS: Final = (
    "arrived_J",
    "done_J",
    "open_J",
    "round_J",
    "round_ns_J",
    "scale_J",
    "next_round_J",
    "next_shard_J",
    "arrival_ns_J",
    "weight_J",
)
_OF_DEVICES: Final = ("type_D", "queued_D")


def read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return the same memory as a read-only array."""
    # A plain view could be made writeable again through its flags or its base.
    view: npt.NDArray[_Scalar] = np.asarray(array.data.toreadonly())
    return view


def extended(
    column: npt.NDArray[_Scalar], values: Sequence[object] | IntArray
) -> npt.NDArray[_Scalar]:
    """Return a column with more values at its end, of its own type."""
    return np.concatenate([column, np.array(values, dtype=column.dtype)])


def known_rounds(jobs: Sequence[Job], *, blind: bool) -> IntArray:
    """Return how many rounds each job has, axis J; -1 where a policy does not know it."""
    return np.array([-1 if blind else job.rounds or -1 for job in jobs], dtype=np.int64)


def round_bytes(jobs: Sequence[Job], costs: CostTable) -> IntArray:
    """Return the most bytes that a round of each job sends, axis J; -1 where they are unknown.

    A task pulls the model from its servers and pushes as much, 2 m a task; a ring of w workers
    sends 2 m (w - 1). On links there are fewer: bytes within a host are on none, and a device pulls
    once for all its tasks of a round.
    """
    if costs.model_bytes_J is None:
        return np.full(len(jobs), -1, dtype=np.int64)
    sends_J = np.array([job.scale - (job.sync == "ring") for job in jobs], dtype=np.int64)
    known_J = costs.model_bytes_J[: len(jobs)] > 0
    return np.where(known_J, 2 * costs.model_bytes_J[: len(jobs)] * sends_J, -1)


def host_columns(cluster: Cluster, host_D: Sequence[int]) -> HostColumns:
    """Return the columns of hosts that policies see; ``host_D``: the host of each device."""
    hosts = cluster.hosts
    devices_HT = np.zeros((len(hosts), len(cluster.types)), dtype=np.int64)
    np.add.at(devices_HT, (list(host_D), list(cluster.type_of_device)), 1)
    memory_H = [-1 if one.memory_bytes is None else one.memory_bytes for one in hosts]
    return HostColumns(
        devices_H=read_only(np.array([len(one.devices) for one in hosts], dtype=np.int64)),
        devices_HT=read_only(devices_HT),
        memory_H=read_only(np.array(memory_H, dtype=np.int64)),
        nic_bps_H=read_only(np.array([one.nic_bps or REFERENCE_NIC_BPS for one in hosts])),
        intra_bps_H=read_only(np.array([one.intra_bps or inf for one in hosts])),
        host_D=read_only(np.array(host_D, dtype=np.int64)),
    )


class ViewColumns:
    """The columns of a view, by name; ``state`` has them under the same names.

    ``answers``: the standing answers to shape, group and flow. ``observed``: the metrics of jobs,
    kept once for all views of a state.
    """

    def __init__(
        self,
        state: object,
        run: Run,
        costs: CostTable,
        *,
        past: Past,
        blind: bool,
        answers: StandingAnswers,
        observed: Observed,
    ) -> None:
        self._state = state
        self._blind = blind
        self._answers = answers
        self._observed = observed
        self._rounds_J = np.zeros(0, dtype=np.int64)
        self._round_bytes_J = np.zeros(0, dtype=np.int64)
        # Jobs as a blind policy sees them, made when first looked at; jobs that ended before they
        # arrived; and how many jobs are shown.
        self._blind_jobs: dict[int, Job] = {}
        self._never: set[int] = set()
        self._count = 0
        self.columns: dict[str, Any] = {
            "cluster": run.cluster,
            "grain": run.grain,
            "seed": run.seed,
            "past": past,
            **{name: read_only(getattr(state, name)) for name in _OF_DEVICES},
            "progress": observed,
            "hosts": host_columns(run.cluster, answers.host_D),
            "host_classes": MappingProxyType(answers.host_classes),
            "groups": answers.groups,
        }
        # A view of these columns; None: they were changed since it was made.
        self._template: View | None = None
        self.add(run, costs, costs)

    def add(self, run: Run, costs: CostTable, new_costs: CostTable) -> None:
        """Take the columns of all jobs of a run, the last of which are new; to a blind policy
        they are shown when they arrive. ``new_costs``: of these alone.
        """
        jobs = self._jobs = run.workload.jobs
        self._costs = costs
        new = jobs[len(self._rounds_J) :]
        self._rounds_J = extended(self._rounds_J, known_rounds(new, blind=self._blind))
        self._round_bytes_J = extended(self._round_bytes_J, round_bytes(new, new_costs))
        self._columns_J = {name: read_only(getattr(self._state, name)) for name in _OF_JOBS}
        self._columns_J["rounds_J"] = read_only(self._rounds_J)
        self._columns_J["round_bytes_J"] = read_only(self._round_bytes_J)
        for name in ("class_J", "group_J"):
            self._columns_J[name] = read_only(getattr(self._answers, name))
        # Lists: of shapes and of hosts there is no column of one type.
        self.columns["servers_J"] = _ServerHosts(self._answers.servers_J, len(jobs), run)
        if self._blind:
            self._end_at(self._count)
            return
        self._template = None
        self.columns |= self._columns_J
        self.columns["jobs"] = jobs
        self.columns["costs"] = costs
        self.columns["shape_J"] = _FirstOf(self._answers.shape_J, len(jobs))

    def view(self, now_ns: int, changes: tuple[AnyEvent, ...]) -> View:
        """Return a view at ``now_ns``, after these events."""
        # A view is made at every step, and its columns are mostly those of the last one. Copying
        # the last one and setting the differences takes a quarter of the time, and no policy has
        # seen the copy yet.
        if self._template is None:
            self._template = View(now_ns=now_ns, changes=(), **self.columns)
        view = copy(self._template)
        force_setattr(view, "now_ns", now_ns)
        force_setattr(view, "changes", changes)
        return view

    def regroup(self) -> None:
        """Show the standing groups; all their jobs have arrived, so no future is revealed."""
        self.columns["groups"] = self._answers.groups
        self._template = None

    def show_absent(self, hosts: frozenset[int]) -> None:
        """Show which hosts are not there."""
        self.columns["absent"] = hosts
        self._template = None

    def show(self, job: int) -> None:
        """Show this job, and those before it, to the blind policy that sees these columns."""
        if job >= self._count:
            self._end_at(job + 1)

    def keep_back(self, job: int) -> None:
        """Keep from the blind policy a job that has ended before it arrived.

        Columns end with the last job shown, so to show it would show what arrives before it.
        """
        if job >= self._count:
            self._never.add(job)

    def told(self, events: tuple[AnyEvent, ...]) -> tuple[AnyEvent, ...]:
        """Return these events without those of jobs that the policy does not know."""
        if not self._never:
            return events
        return tuple(event for event in events if getattr(event, "job", -1) < self._count)

    def _end_at(self, count: int) -> None:
        """Cut all columns with axis J after the first ``count`` jobs."""
        self._count = count
        self._template = None
        for name, column in self._columns_J.items():
            self.columns[name] = column[:count]
        self.columns["shape_J"] = _FirstOf(self._answers.shape_J, count)
        self.columns["servers_J"] = self.columns["servers_J"].first(count)
        self.columns["jobs"] = _Jobs(self._jobs, self._blind_jobs, count)
        self.columns["costs"] = self._costs.first(count)
        self.columns["progress"] = _FirstObserved(self._observed, count)


class _FirstOf(Sequence[_T]):
    """The first values of a list, which cannot be written through it."""

    __slots__ = ("_count", "_values")

    def __init__(self, values: list[_T], count: int) -> None:
        self._values = values
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> _T: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[_T, ...]: ...

    def __getitem__(self, at: int | slice) -> _T | tuple[_T, ...]:
        if isinstance(at, slice):
            return tuple(self._at(i) for i in range(*at.indices(self._count)))
        at = at + self._count if at < 0 else at
        if not 0 <= at < self._count:
            raise IndexError(f"job {at} of {self._count} that are shown")
        return self._at(at)

    def _at(self, at: int) -> _T:
        return self._values[at]


class _ServerHosts(_FirstOf[tuple[int, ...]]):
    """The hosts of the servers of the first jobs: as shape was answered, else those of ``static``.

    The latter are found when they are looked at: most policies never do, and jobs are many.
    """

    __slots__ = ("_run",)

    def __init__(self, values: list[tuple[int, ...]], count: int, run: Run) -> None:
        super().__init__(values, count)
        self._run = run

    def first(self, count: int) -> _ServerHosts:
        """Return those of the first jobs only."""
        return _ServerHosts(self._values, count, self._run)

    def _at(self, at: int) -> tuple[int, ...]:
        answered = self._values[at]
        run = self._run
        if answered or run.workload.jobs[at].sync == "ring":
            return answered
        return static_server_hosts(run.cluster.hosts, at, run.scheduler.servers)


class _FirstObserved:
    """The observations that a blind policy sees: those of jobs that have arrived."""

    __slots__ = ("_all", "_count")

    def __init__(self, of_all: Observed, count: int) -> None:
        self._all, self._count = of_all, count

    def of(self, job: int) -> Progress:
        """See ``Observed``."""
        if not 0 <= job < self._count:
            raise IndexError(f"job {job} of {self._count} that have arrived")
        return self._all.of(job)


class _Jobs(Sequence[Job]):
    """The first jobs of a workload, without their numbers of rounds."""

    __slots__ = ("_blind_jobs", "_count", "_jobs")

    def __init__(self, jobs: tuple[Job, ...], blind_jobs: dict[int, Job], count: int) -> None:
        self._jobs = jobs
        self._blind_jobs = blind_jobs
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
        found = self._blind_jobs.get(at)
        if found is None:
            found = self._blind_jobs[at] = replace(self._jobs[at], rounds=None)
        return found
