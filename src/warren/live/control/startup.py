"""The barrier before time zero: executors, servers, and trainers that build their apps."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

from warren.live.control.devices import DeviceManager
from warren.live.control.ledger import Ledger
from warren.live.control.run_context import RunContext
from warren.live.control.servers import Servers
from warren.live.transport.messages import RehearseTask, TaskRehearsed
from warren.model.job import Job

WARM_LIMIT: Final = 512
"""Most apps (jobs times devices) built before time zero; if there are more, each when needed."""
_AT_ONCE: Final = 16
"""Most trainers that build their apps at once: each one's memory use shows before the next."""


class StartupBarrier:
    """The processes that time zero waits for.

    Ranks of rings are not among them: which devices they will be on is not known yet. Nor are
    trainers for which there is no memory: they are started when they are first needed. Nor is what
    is on an absent host.
    """

    def __init__(
        self, context: RunContext, ledger: Ledger, manager: DeviceManager, servers: Servers
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._manager = manager
        self._servers = servers
        # A device's number means its executor, ("servers", job) all servers of a job, and a
        # ``TaskRehearsed`` the trainer that will send it.
        self._waiting: set[object] = set(range(len(context.devices)))
        self._absent_devices: frozenset[int] = frozenset()
        self._to_build: deque[TaskRehearsed] = deque()

    @property
    def over(self) -> bool:
        """Tell whether no process is awaited any more."""
        return not self._waiting

    def begin(self) -> None:
        """Start servers, and trainers that build the apps of all jobs."""
        jobs = [job for job in self._server_jobs() if not self._ledger.ended(job.index)]
        for job in jobs:
            if not self._servers.reachable(job.index):
                continue
            self._servers.need(job, self._ledger.generation(job.index))
            if not self._servers.complete(job.index):
                self._waiting.add(("servers", job.index))
        devices = sorted(set(range(len(self._context.devices))) - self._absent_devices)
        self._to_build.extend(
            TaskRehearsed(device, job.index) for job in jobs for device in devices
        )
        self._build_next()

    def await_servers(self, job: int) -> None:
        """Wait for the restarted servers of a job before time zero."""
        if self._servers.reachable(job):
            self._waiting.add(("servers", job))

    def leave_out(self, devices: Collection[int]) -> None:
        """Wait for nothing on absent hosts, whose devices these are."""
        self._absent_devices = frozenset(devices)
        for one in list(self._waiting):
            device = one.device if isinstance(one, TaskRehearsed) else one
            far = isinstance(one, tuple) and not self._servers.reachable(one[1])
            if far or device in self._absent_devices:
                self._waiting.discard(one)
        self._to_build = deque(one for one in self._to_build if one.device not in devices)
        self._build_next()

    def again(self, device: int) -> None:
        """Send a device's new executor the startup messages of the one before it."""
        for one in list(self._waiting):
            if isinstance(one, TaskRehearsed) and one.device == device:
                self._build(one)

    def forget_ended(self) -> None:
        """Stop waiting for trainers of jobs that have ended."""
        for one in list(self._waiting):
            if isinstance(one, TaskRehearsed) and self._ledger.ended(one.job):
                self._waiting.discard(one)
        self._build_next()

    def mark_ready(self, who: object) -> None:
        """Stop waiting for one: a device's executor, a ``TaskRehearsed``, or ("servers", job)."""
        self._waiting.discard(who)
        self._build_next()

    def _build_next(self) -> None:
        """Let more trainers build their apps, up to ``_AT_ONCE`` at a time."""
        in_progress = sum(isinstance(one, TaskRehearsed) for one in self._waiting)
        while self._to_build and in_progress < _AT_ONCE:
            one = self._to_build.popleft()
            # The remaining apps are built when they are first needed.
            if self._manager.scarce():
                self._to_build.clear()
            elif not self._ledger.ended(one.job):
                self._waiting.add(one)
                self._build(one)
                in_progress += 1

    def _build(self, one: TaskRehearsed) -> None:
        """Start a trainer, and ask its executor to say when it has built its app."""
        self._manager.need_trainer(one.device, self._context.jobs[one.job])
        self._manager.tell(one.device, RehearseTask(one.job))

    def _server_jobs(self) -> list[Job]:
        """Return the jobs that synchronize through servers, not in a ring."""
        return [job for job in self._context.jobs if job.sync == "ps"]
