"""What a run waits for before time zero: executors, servers, and trainers that build their apps."""

from __future__ import annotations

from collections import deque
from typing import Final

from warren.live.control.devices import DeviceManager
from warren.live.control.ledger import Ledger
from warren.live.control.run_context import RunContext
from warren.live.control.servers import Servers
from warren.live.transport.messages import RehearseTask, TaskRehearsed
from warren.model.job import Job

WARM_LIMIT: Final = 512
"""Apps (jobs times devices) that are built before time zero; beyond, when first needed."""
_AT_ONCE: Final = 16
"""So many trainers build their apps at a time: what each takes of memory shows before the next."""


class StartupBarrier:
    """Who is awaited. Ranks of rings are not: where they will be is not known yet.

    Nor are trainers for which there is no memory: they come when they are first needed.
    """

    def __init__(
        self, context: RunContext, ledger: Ledger, manager: DeviceManager, servers: Servers
    ) -> None:
        self._context, self._ledger = context, ledger
        self._manager, self._servers = manager, servers
        self._waiting: set[object] = set(range(len(context.devices)))
        self._to_build: deque[TaskRehearsed] = deque()

    @property
    def over(self) -> bool:
        """Whether nobody is awaited."""
        return not self._waiting

    def begin(self) -> None:
        """Start servers, and trainers that build the apps of all jobs."""
        jobs = [job for job in self._server_jobs() if not self._ledger.ended(job.index)]
        for job in jobs:
            self._servers.need(job, self._ledger.generation(job.index))
            if not self._servers.complete(job.index):
                self._waiting.add(("servers", job.index))
        devices = range(len(self._context.devices))
        self._to_build.extend(
            TaskRehearsed(device, job.index) for job in jobs for device in devices
        )
        self._build_next()

    def again(self, device: int) -> None:
        """A new executor has to be told what the one before it was."""
        for one in list(self._waiting):
            if isinstance(one, TaskRehearsed) and one.device == device:
                self._build(one)

    def forget_ended(self) -> None:
        """Nobody waits for trainers of jobs that have ended."""
        for one in list(self._waiting):
            if isinstance(one, TaskRehearsed) and self._ledger.ended(one.job):
                self._waiting.discard(one)
        self._build_next()

    def mark_ready(self, who: object) -> None:
        """A device's executor, ``TaskRehearsed``, or ("servers", job)."""
        self._waiting.discard(who)
        self._build_next()

    def _build_next(self) -> None:
        in_progress = sum(isinstance(one, TaskRehearsed) for one in self._waiting)
        while self._to_build and in_progress < _AT_ONCE:
            one = self._to_build.popleft()
            if self._manager.scarce():
                self._to_build.clear()
            elif not self._ledger.ended(one.job):
                self._waiting.add(one)
                self._build(one)
                in_progress += 1

    def _build(self, one: TaskRehearsed) -> None:
        self._manager.need_trainer(one.device, self._context.jobs[one.job])
        self._manager.tell(one.device, RehearseTask(one.job))

    def _server_jobs(self) -> list[Job]:
        return [job for job in self._context.jobs if job.sync == "ps"]
