"""What it takes to start the processes of a run and to talk to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warren.live.control.run_files import RunFiles
from warren.live.process.memory_limit import MemoryLimit
from warren.live.process.process_pool import ProcessPool
from warren.live.transport.sockets import Hub
from warren.model.cluster import Device, Local
from warren.model.job import Job
from warren.model.run import Run


@dataclass(slots=True, kw_only=True)
class RunContext:
    """Of one run. ``folder`` is its private one; ``pool`` is another after the zygote was lost.

    ``memory``: what holds for each trainer and server. ``rehearse``: processes do everything once
    before time zero, so that no pad pays for it; where times are emulated they always do.
    """

    run: Run
    folder: Path
    hub: Hub
    outputs: RunFiles
    pool: ProcessPool
    memory: MemoryLimit | None
    rehearse: bool

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs of the run."""
        return self.run.workload.jobs

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices of the cluster."""
        return self.run.cluster.devices

    @property
    def local(self) -> Local:
        """How the engine works on this machine."""
        return self.run.cluster.local

    def tmp(self, job: int) -> str:
        """The temporary folder of a job's processes; it goes with the run's own."""
        return str(self.folder / f"tmp-{job}")
