"""Bringing up a run's hosts as machines of their own: folders, agents, leases, one listener."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from warren.live.process.agents.agent_pool import AgentPool
from warren.live.process.agents.launcher import AgentLauncher, Launcher
from warren.live.process.agents.leased_processes import LeasedProcesses
from warren.live.process.agents.messages import StartZygote
from warren.live.process.agents.ray_helper import RayPlan
from warren.live.process.agents.ray_launcher import RayLauncher
from warren.live.process.agents.spec import AgentSpec
from warren.live.process.host_placement import HostPlacement
from warren.live.process.leases.lease_grants import LeaseGrants
from warren.live.process.leases.timing import LeaseTiming
from warren.live.testbed.namespaces import HERE, inside
from warren.live.training.checkpoints.files import write_whole
from warren.live.transport.sockets import controller_address
from warren.live.transport.tcp_listener import SUFFIX, TcpListener
from warren.model.cluster import Cluster
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.store.files import read

_AGENTS: Final = "agents"
"""Name, in the controller's folder, of the address at which agents find it."""
_EPOCH: Final = "epoch"
"""The file of a run's folder that counts its controllers."""


def refuse_agents(cluster: Cluster, jobs: tuple[Job, ...]) -> None:
    """Refuse jobs that hosts with agents cannot run: rings, whose ranks meet in one folder."""
    ring = next((job for job in jobs if job.sync == "ring"), None)
    if cluster.lease_ns is not None and ring is not None:
        message = f"is for jobs with servers: {ring.name!r} has sync: ring"
        raise SpecError(Problem(file="cluster", field="local.lease", message=message))
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
        )
        for host in range(len(cluster.hosts))
    )
    names_H = tuple(host.name for host in cluster.hosts)
    launcher: Launcher
    if cluster.ray is None:
        launcher = AgentLauncher(specs_H, log)
    else:
        texts = tuple(msgspec.json.encode(spec).decode() for spec in specs_H)
        place = specs_H[0].place
        launcher = RayLauncher(RayPlan(cluster.ray, names_H, texts, str(log), place))
    hub = Path(controller_address(str(folder)) + SUFFIX)
    own = {**files, hub.name: hub.read_bytes()}
    processes = LeasedProcesses(
        placement, grants, names_H, str(folder), folders_H, zygote, own, cluster.opportunistic
    )
    return AgentPool(
        processes, len(names_H), listener, epoll, launcher, lambda: _is_last(log.parent, epoch)
    )


def _lock_name(log: Path, host: int) -> str:
    """Return the name of a host's lock: the same for all controllers of a run."""
    status = log.parent.stat()
    return f"warren-agent-{os.getuid()}-{status.st_dev:x}-{status.st_ino:x}-{host}.lock"
