"""The devices of each job's tasks, and its fastest round, kept up to date from changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from immutables import Map

from warren.model.events import Event, JobArrived, RolledBack, RoundsDone, TasksDone
from warren.model.view import View

TOLD: Final[frozenset[type[Event]]] = frozenset({JobArrived, TasksDone, RoundsDone, RolledBack})
"""After which events a policy has to be asked that keeps this: a view tells of one instant."""


@dataclass(frozen=True, slots=True)
class JobTraffic:
    """Observations of the jobs that have not ended, by job; an immutable value.

    ``tasks``: how many tasks each device has run. ``barrier_ns``: the last barrier. ``fastest_ns``:
    the shortest round, between two barriers; a stretch counts as its mean.
    """

    tasks: Map[int, Map[int, int]] = field(default_factory=Map)
    barrier_ns: Map[int, int] = field(default_factory=Map)
    fastest_ns: Map[int, float] = field(default_factory=Map)

    def after(self, view: View) -> JobTraffic:
        """Return it with the events of this instant."""
        seen = self
        for event in view.changes:
            if isinstance(event, TasksDone):
                by: Map[int, int] = seen.tasks.get(event.job, Map())
                done = by.get(event.device, 0) + event.rounds * len(event.shards)
                seen = replace(seen, tasks=seen.tasks.set(event.job, by.set(event.device, done)))
            elif isinstance(event, RoundsDone):
                seen = seen._passed(event)
            elif isinstance(event, RolledBack) and event.job in seen.barrier_ns:
                # Until the next barrier more passes than rounds.
                seen = replace(seen, barrier_ns=seen.barrier_ns.delete(event.job))
        return seen

    def _passed(self, event: RoundsDone) -> JobTraffic:
        """Return it with a barrier that has passed."""
        before, fastest_ns = self.barrier_ns.get(event.job), self.fastest_ns
        if before is not None and event.barrier_ns > before:
            took_ns = (event.barrier_ns - before) / event.rounds
            if took_ns < fastest_ns.get(event.job, took_ns + 1):
                fastest_ns = fastest_ns.set(event.job, took_ns)
        barrier_ns = self.barrier_ns.set(event.job, event.barrier_ns)
        return replace(self, barrier_ns=barrier_ns, fastest_ns=fastest_ns)

    def hosts(self, view: View, job: int) -> frozenset[int]:
        """Return the hosts of a job's servers and of the tasks that it has run; empty: none yet."""
        ran = self.tasks.get(job)
        if not ran:
            return frozenset()
        return frozenset(view.servers_J[job]) | {int(view.hosts.host_D[one]) for one in ran}
