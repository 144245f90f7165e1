"""Which devices the tasks of each job ran on, and its fastest round, kept from what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warren.model.events import RolledBack, RoundsDone, TasksDone
from warren.model.view import View


@dataclass(frozen=True, slots=True)
class JobTraffic:
    """What was seen of the jobs that have not ended, by job; it is never changed, but made anew.

    ``tasks``: how many tasks each device has run. ``barrier_ns``: the last barrier. ``fastest_ns``:
    the shortest round, between two barriers; a stretch counts as its mean.
    """

    tasks: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    barrier_ns: Mapping[int, int] = field(default_factory=dict)
    fastest_ns: Mapping[int, float] = field(default_factory=dict)

    def after(self, view: View) -> JobTraffic:
        """Return it with what has changed since the last call."""
        if not view.changes:
            return self
        tasks = {job: dict(by) for job, by in self.tasks.items()}
        barrier, fastest = dict(self.barrier_ns), dict(self.fastest_ns)
        for event in view.changes:
            if isinstance(event, TasksDone):
                by = tasks.setdefault(event.job, {})
                by[event.device] = by.get(event.device, 0) + event.rounds * len(event.shards)
            elif isinstance(event, RoundsDone):
                before = barrier.get(event.job)
                if before is not None and event.barrier_ns > before:
                    took = (event.barrier_ns - before) / event.rounds
                    fastest[event.job] = min(took, fastest.get(event.job, took))
                barrier[event.job] = event.barrier_ns
            elif isinstance(event, RolledBack):
                # Until the next barrier more passes than rounds.
                barrier.pop(event.job, None)
        ended = [job for job in (*tasks, *barrier) if view.done_J[job]]
        for job in ended:
            for column in (tasks, barrier, fastest):
                column.pop(job, None)
        return JobTraffic(tasks, barrier, fastest)

    def hosts(self, view: View, job: int) -> frozenset[int]:
        """Return the hosts of a job's servers and of the tasks that it has run; empty: none yet."""
        ran = self.tasks.get(job)
        if not ran:
            return frozenset()
        return frozenset(view.servers_J[job]) | {int(view.hosts.host_D[one]) for one in ran}
