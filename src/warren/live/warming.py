"""What a run waits for before time zero: executors, servers, and trainers that build their apps."""

from __future__ import annotations

from warren.live.crew import Crew
from warren.live.hands import Hands
from warren.live.ledger import Ledger
from warren.live.messages import Warm, Warmed
from warren.live.servers import Servers
from warren.model.job import Job


class Warming:
    """Who is awaited. Ranks of rings are not: where they will be is not known yet."""

    def __init__(self, hands: Hands, ledger: Ledger, crew: Crew, servers: Servers) -> None:
        self._hands, self._ledger = hands, ledger
        self._crew, self._servers = crew, servers
        self._waiting: set[object] = set(range(len(hands.devices)))

    @property
    def over(self) -> bool:
        """Whether nobody is awaited."""
        return not self._waiting

    def begin(self) -> None:
        """Start servers, and trainers that build the apps of all jobs."""
        jobs = [job for job in self._served() if not self._ledger.ended(job.index)]
        for job in jobs:
            self._servers.need(job, self._ledger.era(job.index))
            if not self._servers.complete(job.index):
                self._waiting.add(("servers", job.index))
        for device in range(len(self._hands.devices)):
            for job in jobs:
                self._waiting.add(Warmed(device, job.index))
                self._warm(device, job)

    def again(self, device: int) -> None:
        """A new executor has to be told what the one before it was."""
        for one in list(self._waiting):
            if isinstance(one, Warmed) and one.device == device:
                self._warm(device, self._hands.jobs[one.job])

    def forget_ended(self) -> None:
        """Nobody waits for trainers of jobs that have ended."""
        for one in list(self._waiting):
            if isinstance(one, Warmed) and self._ledger.ended(one.job):
                self._waiting.discard(one)

    def here(self, who: object) -> None:
        """A device's executor, ``Warmed``, or ("servers", job)."""
        self._waiting.discard(who)

    def _warm(self, device: int, job: Job) -> None:
        if not self._ledger.ended(job.index):
            self._crew.need_trainer(device, job)
            self._crew.tell(device, Warm(job.index))

    def _served(self) -> list[Job]:
        return [job for job in self._hands.jobs if job.sync == "ps"]
