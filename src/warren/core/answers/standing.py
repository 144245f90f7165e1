"""The answers to shape, group and flow that hold now: each stands until it is replaced.

Classes act on bytes, so they belong to hosts and jobs; shapes and groups also bind where tasks of a
job may be assigned from now on. Assignments already queued stay where they are. Delays do not
stand: the port serves each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from warren.model.costs import BoolArray
from warren.model.decision import Assignment, Decision, Group, Shape
from warren.model.run import Run


class StandingAnswers:
    """The class, shape and group of every job, nothing at first. Changed by ``apply`` alone.

    ``worker_hosts`` and ``group_hosts`` hold, by job, the hosts on which its shape and its group
    allow its tasks; a job that is in neither may run anywhere. ``shapes``: those of ``shape_J``
    whose jobs have not ended. ``planned_hosts``: by job, the hosts where a plan has placed tasks;
    empty without a plan. ``any``: whether there was ever an answer; most runs have none.
    """

    __slots__ = (
        "any",
        "class_J",
        "group_J",
        "group_hosts",
        "groups",
        "host_D",
        "host_classes",
        "planned_hosts",
        "servers_J",
        "shape_J",
        "shapes",
        "worker_hosts",
    )

    def __init__(self, run: Run) -> None:
        cluster = run.cluster
        position = {host.name: index for index, host in enumerate(cluster.hosts)}
        self.host_D = [position[device.host] for device in cluster.devices]
        self.class_J = np.zeros(0, dtype=np.int64)
        self.group_J = np.zeros(0, dtype=np.int64)
        self.host_classes: dict[tuple[int, int], int] = {}
        self.shape_J: list[Shape | None] = []
        self.servers_J: list[tuple[int, ...]] = []
        self.shapes: dict[int, Shape] = {}
        self.groups: tuple[Group, ...] = ()
        self.worker_hosts: dict[int, frozenset[int]] = {}
        self.group_hosts: dict[int, frozenset[int]] = {}
        self.planned_hosts: dict[int, set[int]] = {}
        self.any = False
        self.add(len(run.workload.jobs))

    def add(self, jobs: int) -> None:
        """Make room for more jobs, of which nothing has been answered; ``jobs`` counts them."""
        self.class_J = np.append(self.class_J, np.zeros(jobs, dtype=np.int64))
        self.group_J = np.append(self.group_J, np.full(jobs, -1, dtype=np.int64))
        self.shape_J += [None] * jobs
        self.servers_J += [()] * jobs

    def classes(self, done_J: BoolArray) -> dict[int, int]:
        """Return the class of each job that has not ended and has another one than 0."""
        jobs = np.flatnonzero(self.class_J * ~done_J).tolist()
        return {job: self.class_J.item(job) for job in jobs}

    def apply(self, decision: Decision) -> None:
        """Apply the checked answers of a decision, except for place's."""
        self.any = True
        if decision.shapes:
            self._reshape(decision.shapes)
        if decision.groups is not None:
            self._regroup(decision.groups)
        for job, kind in decision.classes.items():
            self.class_J[job] = kind
            # A class of the whole job replaces its earlier classes on single hosts.
            for key in [key for key in self.host_classes if key[1] == job]:
                del self.host_classes[key]
        for (host, job), kind in decision.host_classes.items():
            if kind == self.class_J[job]:
                self.host_classes.pop((host, job), None)
            else:
                self.host_classes[host, job] = kind

    def adopt(self, assignments: Iterable[Assignment]) -> None:
        """Note where a plan has placed tasks: later answers must leave them there."""
        for one in assignments:
            self.planned_hosts.setdefault(one.job, set()).add(self.host_D[one.device])

    def allows(self, job: int, device: int) -> bool:
        """Tell whether the job's shape and group leave this device to its tasks."""
        if not self.worker_hosts and not self.group_hosts:
            return True
        host = self.host_D[device]
        return all(
            host in bound[job] for bound in (self.worker_hosts, self.group_hosts) if job in bound
        )

    def keep_servers(
        self, job: int, servers: tuple[int, ...], model_bytes: tuple[int, ...]
    ) -> None:
        """Keep a job's servers in place: the servers of its shape are void."""
        workers = self.shapes[job].workers
        self._reshape({job: Shape(workers, servers, model_bytes or None)})

    def forget(self, job: int) -> None:
        """Release a job that has ended; its last class, shape and group can still be read.

        So its servers take no memory any more, and its classes no place.
        """
        self.shapes.pop(job, None)
        self.worker_hosts.pop(job, None)
        self.group_hosts.pop(job, None)
        for key in [key for key in self.host_classes if key[1] == job]:
            del self.host_classes[key]

    def _reshape(self, shapes: Mapping[int, Shape]) -> None:
        for job, shape in shapes.items():
            self.shape_J[job] = self.shapes[job] = shape
            self.servers_J[job] = shape.servers
            self.worker_hosts.pop(job, None)
            if shape.workers is not None:
                self.worker_hosts[job] = frozenset(shape.workers)

    def _regroup(self, groups: tuple[Group, ...]) -> None:
        self.groups = groups
        self.group_J[:] = -1
        self.group_hosts.clear()
        for index, group in enumerate(groups):
            hosts = frozenset(group.hosts)
            for job in group.jobs:
                self.group_J[job] = index
                self.group_hosts[job] = hosts
