"""Hosts that are machines of their own: folders, agents, leases, one listener.

*Opportunistic* ones may come and go. The pool says when such a host has a lease and a warm zygote,
and when it has lost them. Jobs with tasks there go back to their last checkpoint, and the core
hears of it, so that policies place their tasks and servers elsewhere. (A job whose server was there
goes back as for any lost server.) Any other host says nothing: what is on it waits for it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger import Ledger
from warren.live.control.recovery import Recovery
from warren.live.control.run_context import RunContext, gpus_found_by_agents
from warren.live.control.startup import StartupBarrier
from warren.live.process.agents.agent_pool import AgentPool
from warren.live.process.agents.launcher import AgentLauncher, Launcher
from warren.live.process.agents.leased_processes import LeasedProcesses
from warren.live.process.agents.messages import StartZygote
from warren.live.process.agents.ray_helper import RayPlan
from warren.live.process.agents.ray_launcher import RayLauncher
from warren.live.process.agents.spec import AgentSpec, WantedGpus
from warren.live.process.device_claims import claims_folder, shares
from warren.live.process.host_placement import HostPlacement
from warren.live.process.leases.lease_grants import LeaseGrants
from warren.live.process.leases.timing import LeaseTiming
from warren.live.testbed.namespaces import HERE, inside
from warren.live.training.checkpoints.files import write_whole
from warren.live.transport.sockets import controller_address
from warren.live.transport.tcp_listener import SUFFIX, TcpListener
from warren.model.cluster import PROCESSOR, Cluster
from warren.model.decision import Shape
from warren.model.errors import Problem, SpecError
from warren.model.events import HostJoined, HostLeft, ServersMoved
from warren.model.job import Job
from warren.store.files import read

_AGENTS: Final = "agents"
"""Name, in the controller's folder, of the address at which agents find it."""
_EPOCH: Final = "epoch"
"""The file of a run's folder that counts its controllers."""


def refuse_agents(cluster: Cluster, jobs: tuple[Job, ...]) -> None:
    """Refuse jobs that hosts with agents cannot run: rings, where hosts may come and go."""
    ring = next((job for job in jobs if job.sync == "ring"), None)
    if cluster.lease_ns is not None and cluster.opportunistic and ring is not None:
        host = min(cluster.opportunistic)
        message = (
            f"{cluster.hosts[host].name} may come and go, which rings cannot: {ring.name!r} has "
            "sync: ring; allowed: sync: ps, or only hosts that stay"
        )
        field = f"hosts[{host}].opportunistic"
        raise SpecError(Problem(file="cluster", field=field, message=message))
    if cluster.local.testbed is not None and 0 in cluster.opportunistic:
        message = f"{cluster.hosts[0].name} is where the run's controller is: it cannot come and go"
        raise SpecError(Problem(file="cluster", field="hosts[0].opportunistic", message=message))


def epoch_of(out_dir: Path) -> int:
    """Return the number of controllers that a run has had.

    Raises SpecError if the file that says so is damaged: a controller without a number of its own
    could give leases that an earlier one has given.
    """
    path = out_dir / _EPOCH
    try:
        return int(read(path))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        message = f"is damaged ({error}); write into it a number larger than any before, such as 99"
        raise SpecError(Problem(file=str(path), message=message)) from None


def next_epoch(out_dir: Path) -> int:
    """Return the number of the run's controllers, with the calling one, and write it down."""
    path = out_dir / _EPOCH
    epoch = epoch_of(out_dir) + 1
    write_whole(path, f"{epoch}\n".encode())
    return epoch


def _is_last(out_dir: Path, epoch: int) -> bool:
    """Tell whether no later controller is known of; a disk that cannot be read says nothing."""
    try:
        return epoch_of(out_dir) <= epoch
    except (OSError, ValueError):
        return True


def agent_pool(
    cluster: Cluster,
    placement: HostPlacement,
    folder: Path,
    log: Path,
    zygote: StartZygote,
    files: Mapping[str, bytes],
) -> AgentPool:
    """Start the agents of hosts, directly or through Ray; return the pool of their processes.

    Parameters
    ----------
    cluster
        The hosts.
    placement
        The addresses of the hosts.
    folder
        The controller's folder, in which it listens.
    log
        The file that agents and zygotes print to.
    zygote, files
        See ``LeasedProcesses``.
    """
    assert cluster.lease_ns is not None
    timing = LeaseTiming(cluster.lease_ns)
    epoch = next_epoch(log.parent)
    grants = LeaseGrants(epoch, len(cluster.hosts), timing, time.monotonic_ns())
    here = placement.identity(0)
    epoll = select.epoll()
    with inside(placement.places_H[0]):
        listener = TcpListener(f"{folder}/{_AGENTS}", here, epoll)
    folders_H = [f"{folder}.{host}" for host in range(len(cluster.hosts))]
    specs_H = tuple(
        AgentSpec(
            host=host,
            controller=listener.address,
            port=listener.port,
            secret=here.secret.hex(),
            folder=folders_H[host],
            lock=_lock_name(log, host),
            place=HERE if cluster.local.testbed is None else placement.places_H[host],
            timing=timing,
            gpus=wanted_gpus(cluster, log.parent, host),
            memory_bytes=cluster.local.memory_bytes,
        )
        for host in range(len(cluster.hosts))
    )
    names_H = tuple(host.name for host in cluster.hosts)
    launcher: Launcher
    if cluster.ray is None:
        launcher = AgentLauncher(specs_H, log)
    else:
        texts = tuple(msgspec.json.encode(spec).decode() for spec in specs_H)
        gpus_H = tuple(len(spec.gpus.devices) for spec in specs_H)
        plan = RayPlan(cluster.ray, names_H, texts, str(log), gpus_H, specs_H[0].place)
        launcher = RayLauncher(plan)
    hub = Path(controller_address(str(folder)) + SUFFIX)
    own = {**files, hub.name: hub.read_bytes()}
    processes = LeasedProcesses(
        placement,
        grants,
        names_H,
        str(folder),
        folders_H,
        zygote,
        own,
        cluster.opportunistic,
        [device for spec in specs_H for device in spec.gpus.devices],
    )
    return AgentPool(
        processes, len(names_H), listener, epoll, launcher, lambda: _is_last(log.parent, epoch)
    )


def wanted_gpus(cluster: Cluster, out_dir: Path, host: int) -> WantedGpus:
    """Return the devices of a host for which its agent finds GPUs, and how it claims them."""
    if not gpus_found_by_agents(cluster):
        return WantedGpus()
    devices = tuple(
        device
        for device in cluster.devices
        if device.host == cluster.hosts[host].name and not device.type.upper().startswith(PROCESSOR)
    )
    return WantedGpus(devices, str(out_dir.absolute()), claims_folder(), shares())


def _lock_name(log: Path, host: int) -> str:
    """Return the name of a host's lock: the same for all controllers of a run."""
    status = log.parent.stat()
    return f"warren-agent-{os.getuid()}-{status.st_dev:x}-{status.st_ino:x}-{host}.lock"


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
