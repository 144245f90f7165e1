"""The context object of a live run: the means of its parts to start processes and talk to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from warren.live.control.input_budgets import InputBudgets
from warren.live.control.run_files import RunFiles
from warren.live.process.memory_limit import MemoryLimit
from warren.live.process.processes import Processes
from warren.live.transport.sockets import Hub
from warren.model.cluster import Cluster, Device, Local
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run


@dataclass(slots=True, kw_only=True)
class RunContext:
    """Everything of one run that the controller's parts share.

    Attributes
    ----------
    run : Run
        The run itself.
    folder : Path
        Its private temporary folder, with sockets and shared memory.
    hub : Hub
        The controller's listening socket.
    outputs : RunFiles
        Where its results lie.
    pool : Processes
        Its processes; another pool takes its place after a zygote was lost.
    memory : MemoryLimit or None
        The limit of each trainer, server and rank.
    rehearse : bool
        Whether processes do everything once before time zero, so that no pad pays for the first
        time; where times are emulated they always do.
    gpus : tuple of int or None
        The number of the GPU that each device is; None: it is a process on the CPU.
    inputs : InputBudgets
        The budgets within which input data are spilled.
    absent : set of int
        The opportunistic hosts that are not there now.
    """

    run: Run
    folder: Path
    hub: Hub
    outputs: RunFiles
    # This field and ``absent`` change: every holder of the context sees the new pool at once.
    pool: Processes
    memory: MemoryLimit | None
    rehearse: bool
    gpus: tuple[int | None, ...]
    inputs: InputBudgets
    absent: set[int] = field(default_factory=set)

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
        """The cluster file's settings of the ``local`` engine."""
        return self.run.cluster.local

    def gpus_of(self, job: Job) -> tuple[int, ...]:
        """Return the devices of a job if all that it may use are GPUs; else none.

        Such a job is kept and stepped on GPUs.
        """
        mine = [one.index for one in self.devices if job.may_use(one.type)]
        return tuple(mine) if all(self.gpus[one] is not None for one in mine) else ()

    def home_of(self, job: Job) -> int | None:
        """Return the device whose process serves a job and computes its tasks there; None: none.

        It is one of this machine, for a job with one server that no policy moves.
        """
        run, mine = self.run, self.gpus_of(job)
        moves = run.scheduler.shape != "static" or run.scheduler.servers > 1
        if not mine or moves or self.has_hosts or job.sync != "ps":
            return None
        return mine[job.index % len(mine)]

    @property
    def has_hosts(self) -> bool:
        """Whether processes are on the hosts of the cluster; else all are on this machine."""
        cluster = self.run.cluster
        return cluster.local.testbed is not None or cluster.lease_ns is not None

    def server_hosts(self, job: Job) -> tuple[int, ...]:
        """Return the hosts that may have servers of a job: with GPUs, if GPUs keep and step it."""
        hosts, mine = self.run.cluster.hosts, self.gpus_of(job)
        if not mine or not gpus_found_by_agents(self.run.cluster):
            return tuple(range(len(hosts)))
        names = {self.devices[one].host for one in mine}
        return tuple(at for at, host in enumerate(hosts) if host.name in names)

    def tmp(self, job: int) -> str:
        """Return the temporary folder of a job's processes; it is removed with the run's own."""
        return str(self.folder / f"tmp-{job}")


def gpus_found_by_agents(cluster: Cluster) -> bool:
    """Tell whether agents find the GPUs of devices; hosts of a testbed are this machine."""
    far = cluster.ray is not None or cluster.local.testbed is None
    return cluster.lease_ns is not None and far and cluster.emulate is None


def refuse_servers_without_gpus(context: RunContext) -> None:
    """Refuse a shape policy that may place servers where they cannot compute as their job does.

    Raises
    ------
    SpecError
        Names the policy, the first such job, and a host.
    """
    run = context.run
    if run.scheduler.shape == "static" or not gpus_found_by_agents(run.cluster):
        return
    for job in context.jobs:
        hosts = context.server_hosts(job)
        lacks = [host for at, host in enumerate(run.cluster.hosts) if at not in hosts]
        if job.sync == "ps" and lacks:
            message = (
                f"{run.scheduler.shape} may place servers of job {job.name} on host "
                f"{lacks[0].name}, which has no GPU of the types that the job may use; allowed: "
                "static, or such a GPU on each host"
            )
            raise SpecError(Problem(file=run.name, field="scheduler.shape", message=message))
