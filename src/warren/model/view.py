"""A policy's view: read-only columns kept incrementally, and the events that changed them.

A view is cheap to make: its arrays are the core's own columns behind read-only flags, never copies.
It is valid during one ``decide`` call; a policy that wants to remember copies values into its
memory. ``Progress`` is how far a job has come, as far as it is known: values of the metric of its
``stop`` rule (the core's side: ``warren.core.metric_history``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import numpy as np

from warren.model.cluster import Cluster
from warren.model.costs import BoolArray, CostTable, FloatArray, IntArray
from warren.model.decision import Group, Shape
from warren.model.events import AnyEvent
from warren.model.job import Job
from warren.model.past import Past
from warren.model.run import Grain


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """The curve of one job's metric: ``values_P[i]`` after ``rounds_P[i]`` rounds; P points.

    Rounds rise strictly. Points that a roll-back took back are not in it.
    """

    rounds_P: IntArray
    values_P: FloatArray

    def __len__(self) -> int:
        return len(self.rounds_P)


class Observed(Protocol):
    """The progress of all jobs that a policy may know of."""

    def of(self, job: int) -> Progress:
        """Return one job's progress, of no points if it has no ``stop`` or none was observed yet.

        Raises
        ------
        IndexError
            If the policy does not know of the job: it is blind, and the job has not arrived.
        """
        ...


NO_PROGRESS: Final = Progress(np.empty(0, dtype=np.int64), np.empty(0))
"""The progress of a job without observations."""
# One value for all such jobs, so no policy may change it.
NO_PROGRESS.rounds_P.setflags(write=False)
NO_PROGRESS.values_P.setflags(write=False)


# No equality (``eq=False``): comparing arrays gives arrays, not an answer.
class HostColumns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The hosts of a cluster, in its order (axis H), and the host of each device. Never changes.

    ``nic_bps_H`` is the rate of a host's link and ``intra_bps_H`` that between its own processes,
    in bits per second; a host that states none has the reference link, and no limit inside.
    """

    devices_H: IntArray
    """Devices on each host."""
    devices_HT: IntArray
    """Devices of each type on each host; how fast one is for a job says ``costs.comp_ns_JT``."""
    memory_H: IntArray
    """Bytes; -1: not stated, and not limited."""
    nic_bps_H: FloatArray
    intra_bps_H: FloatArray
    host_D: IntArray
    """The host of each device."""


class View(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The cluster as it stands at ``now_ns``. Axes: J jobs, D devices, H hosts, T device types.

    A policy that is neither ``offline`` nor ``needs_rounds`` sees no future. Jobs are sorted by
    arrival, and every array with axis J, ``jobs`` and ``costs`` included, ends with the last
    arrived job; the number of rounds is hidden (``rounds_J`` -1, ``Job.rounds`` None). An online
    policy that needs rounds may make estimates of all jobs when it begins, but must not let jobs
    decide anything before ``arrived_J`` is True.

    ``rounds_J`` is -1 where the number of rounds is unknown. ``round_J`` counts barriers that have
    passed. ``next_round_J``/``next_shard_J`` name the first unassigned task; a job with ``open_J``
    has one. It can start at once if ``next_round_J == round_J``.

    From ``class_J`` on: the latest answers to flow, shape and group, by this policy or another; a
    question that is asked earlier at the same instant has its answer in here already.
    """

    now_ns: int
    cluster: Cluster
    costs: CostTable
    grain: Grain
    seed: int
    jobs: Sequence[Job]
    past: Past
    """Jobs that had ended before this run, their rounds included: no secret to any policy."""
    type_D: IntArray
    queued_D: IntArray
    """Assignments on each device whose COMP has not ended; 0 means idle."""
    arrived_J: BoolArray
    done_J: BoolArray
    open_J: BoolArray
    round_J: IntArray
    rounds_J: IntArray
    scale_J: IntArray
    next_round_J: IntArray
    next_shard_J: IntArray
    arrival_ns_J: IntArray
    weight_J: FloatArray
    round_bytes_J: IntArray
    """The bytes that a round sends at most, of all tasks; -1 where the model's size is unknown."""
    round_ns_J: IntArray
    """Time of a job's last round: between its last two barriers, by their rounds.

    -1 before its second barrier, and after a roll-back until two have passed again.
    """
    progress: Observed
    """``progress.of(job)``: values of the stop rule's metric of the job so far."""
    hosts: HostColumns
    class_J: IntArray
    """The class of a job's bytes on all hosts that ``host_classes`` does not name; 0 at first."""
    host_classes: Mapping[tuple[int, int], int]
    """Classes by (host, job), where they differ from ``class_J``."""
    shape_J: Sequence[Shape | None]
    servers_J: Sequence[tuple[int, ...]]
    """The host of each server of a job, under shape ``static`` too; a ring has none."""
    group_J: IntArray
    """The place of a job's group in ``groups``; -1: it is in none, and may run anywhere."""
    groups: tuple[Group, ...]
    absent: frozenset[int] = frozenset()
    """Opportunistic hosts that are not there now: nothing may be placed on them."""
    changes: tuple[AnyEvent, ...]
    """Events of this instant, in order; none of those at which the policy was not asked."""

    @property
    def rate_J(self) -> FloatArray:
        """Compute the bytes a second that each job sent in its last round; -1: not known.

        ``round_bytes_J`` over ``round_ns_J``: a mean over computation and waiting, too, and of all
        bytes that a round may send, on links or within hosts.
        """
        known_J = (self.round_bytes_J >= 0) & (self.round_ns_J > 0)
        rate_J = np.full(len(known_J), -1.0)
        np.divide(self.round_bytes_J * 1e9, self.round_ns_J, out=rate_J, where=known_J)
        return rate_J

    @property
    def link_share_J(self) -> FloatArray:
        """Compute ``rate_J`` over the rate of the slowest link that a job may use; -1: not known.

        These are the links of the hosts of its servers, and of those that its shape and its group
        leave to its tasks: without either, of all hosts. It may be above 1, as a job's bytes pass
        several links.
        """
        rate_J, rate_H = self.rate_J, self.cluster.link_bytes_per_s
        slowest_J = np.full(len(rate_J), min(rate_H))
        for job in np.flatnonzero(rate_J >= 0).tolist():
            bound = self.task_hosts(job)
            if bound is not None:
                hosts = bound.union(self.servers_J[job])
                slowest_J[job] = min((rate_H[host] for host in hosts), default=min(rate_H))
        return np.where(rate_J >= 0, rate_J / slowest_J, -1.0)

    def task_hosts(self, job: int) -> frozenset[int] | None:
        """Return the hosts that a job's shape and its group leave to its tasks; None: all.

        Absent hosts are not among them.
        """
        shape, group = self.shape_J[job], self.group_J.item(job)
        workers = None if shape is None or shape.workers is None else frozenset(shape.workers)
        shared = None if group < 0 else frozenset(self.groups[group].hosts)
        bounds = [one for one in (workers, shared) if one is not None]
        if self.absent:
            bounds.append(frozenset(range(len(self.hosts.devices_H))) - self.absent)
        return frozenset.intersection(*bounds) if bounds else None
