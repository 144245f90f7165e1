"""Hosts that come and go during a simulation, and the jobs that go back when one is gone.

*What.* ``truth.absences`` says when a host is gone. A job that has a server or a task there goes
back to its last checkpoint, as it does live: what flows for it stops, its tasks are taken off all
devices, and its servers begin again where the policy has them then. Policies learn of it by the
events, as it happens.

*Differs.* A live job without ``checkpoint`` is saved as often as costs little; here each barrier
that is an event is a checkpoint of such a job. A new start of servers takes no time.
"""

from __future__ import annotations

from typing import Final

from warren.model.events import AnyEvent, HostJoined, HostLeft, RolledBack, RoundsDone
from warren.model.run import Run
from warren.sim.lanes import Lanes
from warren.sim.network.server_rounds import ServerRounds

_KINDS: Final = (HostLeft, HostJoined)


class OpportunisticHosts:
    """The part of a simulation whose hosts come and go.

    Parameters
    ----------
    run
        Its truth says when hosts are absent.
    lanes
        The queues of the devices.
    servers
        The rounds of jobs, all of which have servers.
    """

    __slots__ = ("_every_J", "_lanes", "_names_H", "_saved_J", "_servers", "_under_way")

    def __init__(self, run: Run, lanes: Lanes, servers: ServerRounds) -> None:
        self._lanes, self._servers = lanes, servers
        self._names_H = [host.name for host in run.cluster.hosts]
        jobs = run.workload.jobs
        self._every_J = [1 if job.checkpoint is None else job.checkpoint.every for job in jobs]
        self._saved_J = [0 for _ in jobs]
        self._under_way = {job.index for job in jobs}
        for one in run.truth.absences:
            host = self._names_H.index(one.host)
            lanes.emit(HostLeft(one.from_ns, host))
            if one.until_ns is not None:
                lanes.emit(HostJoined(one.until_ns, host))

    def passed(self, event: RoundsDone) -> None:
        """Note a barrier; after the last job's end no host comes or goes any more."""
        end = event.round + event.rounds
        if end % self._every_J[event.job] == 0:
            self._saved_J[event.job] = end
        if event.finished:
            self._under_way.discard(event.job)
            if not self._under_way:
                self._lanes.events.drop(lambda one: isinstance(one, _KINDS))

    def lose(self, event: HostLeft) -> list[RolledBack]:
        """Put the jobs back that have lost something with a host; they are in queues still."""
        lanes, reason = self._lanes, f"host {self._names_H[event.host]} is gone"
        found = []
        for job in self._servers.struck(event.host):
            round_ = self._saved_J[job]
            self._servers.go_back(job)
            lanes.events.drop(lambda one, job=job: _of(one) == job)  # type: ignore[misc]
            lanes.cut_short.pop(job, None)
            lanes.round_J[job] = round_
            lanes.left_J[job], lanes.barrier_J[job] = lanes.scale_J[job], 0
            found.append(RolledBack(event.time_ns, job, round_, reason))
        return found


def _of(event: AnyEvent) -> int:
    """Return the job of an event; -1: it has none."""
    return getattr(event, "job", -1)
