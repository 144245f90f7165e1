"""Opportunistic hosts of a live run: which are there, and what follows when one comes or goes.

The pool says when a host has a lease and a warm zygote, and when it has lost them. Jobs with tasks
there go back to their last checkpoint, and the core hears of it, so that policies place their tasks
and servers elsewhere. (A job whose server was there goes back as for any lost server.) A host that
is not opportunistic says nothing: what is on it waits for it.
"""

from __future__ import annotations

from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger import Ledger
from warren.live.control.recovery import Recovery
from warren.live.control.run_context import RunContext
from warren.live.control.startup import StartupBarrier
from warren.model.cluster import Cluster
from warren.model.decision import Shape
from warren.model.events import HostJoined, HostLeft, ServersMoved


def absent_at_first(cluster: Cluster) -> set[int]:
    """Return the hosts that count as absent until they are known to be there."""
    # Without leases all hosts are this machine, or in it.
    return set() if cluster.lease_ns is None else set(cluster.opportunistic)


class HostPresence:
    """The opportunistic hosts of a run. ``context.absent`` has those that are not there."""

    def __init__(
        self,
        context: RunContext,
        ledger: Ledger,
        pending: PendingEvents,
        recovery: Recovery,
        startup: StartupBarrier,
    ) -> None:
        self._context, self._ledger, self._pending = context, ledger, pending
        self._recovery, self._startup = recovery, startup
        self._optional = context.run.cluster.opportunistic
        self._begun = False

    def look(self, host_ns: int) -> bool:
        """Take in which hosts have come and gone; tell whether jobs went back by that.

        ``host_ns``: the host time of now; 0 before time zero.
        """
        if not self._optional:
            return False
        lost = False
        for host, there in self._context.pool.changed_hosts():
            absent = self._context.absent
            if host not in self._optional or there != (host in absent):
                continue
            absent ^= {host}
            if self._begun:
                self._tell(host, self._ledger.cluster_ns(host_ns))
            if not there:
                lost = True
                self._recovery.host_left(self._devices({host}), host_ns)
        if not self._begun:
            self._startup.leave_out(self._devices(self._context.absent))
        return lost

    def begin(self, *, resumed: bool) -> None:
        """Tell which hosts are not there at time zero; of a resumed run also which are."""
        self._begun = True
        for host in sorted(self._optional):
            if resumed or host in self._context.absent:
                self._tell(host, self._pending.last_ns)

    def begins_at(self, job: int, shape: Shape, host_ns: int) -> None:
        """Tell that a job which goes back begins its round at servers elsewhere; no block moves."""
        at_ns, round_no = self._ledger.cluster_ns(host_ns), self._ledger.passed(job)
        placed = shape.servers, shape.model_bytes or ()
        self._ledger.servers_moved(ServersMoved(at_ns, job, round_no, 0, 0, *placed))

    def _tell(self, host: int, at_ns: int) -> None:
        gone = host in self._context.absent
        self._pending.push(HostLeft(at_ns, host) if gone else HostJoined(at_ns, host))

    def _devices(self, hosts: set[int]) -> list[int]:
        """Return the devices of some hosts."""
        names = {self._context.run.cluster.hosts[host].name for host in hosts}
        return [device.index for device in self._context.devices if device.host in names]
