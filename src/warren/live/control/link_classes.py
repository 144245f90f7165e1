"""The controller's side of classes on links: the present classes, and their way to processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warren.live.control.devices import DeviceManager
from warren.live.control.ledger import Ledger
from warren.live.control.servers import Servers
from warren.live.transport.server_messages import FlowClass
from warren.model.job import Job
from warren.model.run import Run


class StandingClasses:
    """The classes of the bytes of jobs, 0 where nothing is said. Hosts and jobs are indices."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._classes: dict[int, int] = {}
        self._host_classes: dict[tuple[int, int], int] = {}

    def apply(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Apply a policy's answer, as ``core.ports.AnswerPort.classify`` describes it."""
        for job, flow_class in classes.items():
            self.forget(job)
            self._classes[job] = flow_class
        self._host_classes |= host_classes

    def at(self, host: int, job: int) -> int:
        """Return the class of a job's traffic from a host; a ring has one class everywhere."""
        everywhere = self._classes.get(job, 0)
        if self._jobs[job].sync == "ring":
            return everywhere
        return self._host_classes.get((host, job), everywhere)

    def forget(self, job: int) -> None:
        """Forget the classes of a job."""
        self._classes.pop(job, None)
        for key in [key for key in self._host_classes if key[1] == job]:
            del self._host_classes[key]

    def known(self) -> set[int]:
        """Return the jobs of which something was said."""
        return {*self._classes, *(job for _, job in self._host_classes)}


class LinkClasses:
    """Sends executors and servers the classes of their traffic, at their own hosts.

    They get classes whenever one changes, and when they come up. An executor passes classes on to
    the ranks of rings on its device.
    """

    def __init__(
        self,
        run: Run,
        standing: StandingClasses,
        ledger: Ledger,
        manager: DeviceManager,
        servers: Servers,
    ) -> None:
        self._standing = standing
        self._ledger = ledger
        self._manager = manager
        self._servers = servers
        names = [host.name for host in run.cluster.hosts]
        self._host_D = [names.index(device.host) for device in run.cluster.devices]

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Apply a policy's answer, and send it to all processes that it concerns."""
        self._standing.apply(classes, host_classes)
        changed = {*classes, *(job for _, job in host_classes)}
        for device in range(len(self._host_D)):
            self._tell_device(device, changed)
        for job in sorted(changed):
            self.tell_servers(job)

    def tell_device(self, device: int) -> None:
        """Tell a new executor all that stands."""
        self._tell_device(device, self._standing.known())

    def tell_servers(self, job: int) -> None:
        """Send those servers of a job that are up the class of their hosts' traffic."""
        for part, host in enumerate(self._servers.homes(job)):
            self._servers.tell(job, part, FlowClass(job, self._standing.at(host, job)))

    def forget(self, job: int) -> None:
        """Forget a job that has ended."""
        self._standing.forget(job)

    def _tell_device(self, device: int, jobs: set[int]) -> None:
        """Tell an executor the classes of some jobs at its host, but for jobs that have ended."""
        host = self._host_D[device]
        for job in sorted(jobs):
            if not self._ledger.ended(job):
                self._manager.tell(device, FlowClass(job, self._standing.at(host, job)))
