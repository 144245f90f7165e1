"""Who keeps a job's state: its servers, or the ranks of its ring. One face for both."""

from __future__ import annotations

from collections.abc import Sequence

from warren.live.control.ring_gangs import Gangs
from warren.live.control.servers import Servers
from warren.model.job import Job


class Keepers:
    """Servers and gangs of a run, by job."""

    def __init__(self, jobs: Sequence[Job], servers: Servers, gangs: Gangs) -> None:
        self._jobs, self._servers, self.gangs = jobs, servers, gangs

    def of(self, job: int) -> Servers | Gangs:
        """Where to ask about a job."""
        return self.gangs if self._jobs[job].sync == "ring" else self._servers

    def end(self, job: int) -> None:
        """The job has ended, or begins a new era."""
        self.of(job).end(job)

    def go_back(self, job: int, passed: int) -> int:
        """End what keeps the job; gives the round at which it will begin again."""
        return self.of(job).go_back(job, passed)

    def era(self, job: int) -> int | None:
        """Of what is there."""
        return self.of(job).era(job)

    def kept(self, job: int, round_no: int) -> None:
        """The journal has reached a checkpoint of the job."""
        self.of(job).kept(job, round_no)
