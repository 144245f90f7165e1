"""Naive co-location: each job computes on devices of its own, whoever else is on the host.

What
    Job i of a run has device i of each host that its group and its shape leave to it (modulo the
    devices there that it fits); its rounds start as soon as they can. Where the devices of a host
    are one processor, jobs contend for it as processes do. ``group: fixed`` says which jobs share
    hosts; without groups all jobs share all hosts.
Source
    Harmony (dissertation 2020), 4.4.1, "Naively co-located": jobs share machines without any
    arrangement of their steps; the paper gives the best and the worst of all choices of groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from warren.model.decision import NOTHING, Assignment, Decision
from warren.model.events import Event, JobArrived, RolledBack, RoundsDone, TaskDropped
from warren.model.view import View
from warren.policy.common.round_spread import spread_tasks
from warren.policy.common.round_times import may_start


@dataclass(frozen=True, slots=True, kw_only=True)
class Naive:
    """Start rounds when they can, on devices that no other job has. It remembers nothing."""

    name: ClassVar[str] = "naive"
    source: ClassVar[str] = "Harmony (dissertation 2020) 4.4.1"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    keeps_to_shapes: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, RoundsDone, RolledBack, TaskDropped}
    )

    def initial(self, view: View) -> None:
        """Return None: there is nothing to remember."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        """Assign each round that can start to its job's own devices."""
        assignments: list[Assignment] = []
        for job in np.flatnonzero(view.open_J).tolist():
            if may_start(view, job):
                assignments += spread_tasks(view, job, _own_devices(view, job), view.queued_D)
        return (Decision(assign=tuple(assignments)) if assignments else NOTHING), None

    def explain(self, view: View, memory: None, job: int) -> str:
        """Say in one sentence why the job is where it is."""
        return "has devices of its own on each host, and waits for its barrier alone"


def _own_devices(view: View, job: int) -> np.ndarray:
    """Return one device of each host that the job may be on, of those that it fits."""
    bound, fits_D = view.task_hosts(job), view.costs.fits_JT[job, view.type_D]
    hosts = range(len(view.hosts.devices_H)) if bound is None else sorted(bound)
    own = []
    for host in hosts:
        devices = np.flatnonzero((view.hosts.host_D == host) & fits_D)
        if len(devices):
            own.append(int(devices[job % len(devices)]))
    return np.array(own, dtype=np.int64)
