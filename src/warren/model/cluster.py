"""The cluster: hosts, their devices, and the network model between them. Immutable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Final, Literal

from warren.model.measured import Overheads, Switching
from warren.model.units import NS_PER_S

NetworkModel = Literal["constant", "lane", "contention", "fluid"]
RingReading = Literal["ours", "published"]
EngineName = Literal["plain", "local", "ray"]
LEASE_NS: Final = 10 * NS_PER_S
"""Longest time that a host of Ray may be cut off, in ns, unless the cluster file states another."""
PROCESSOR: Final = "CPU"
"""Prefix of device types that are processors of the machine that a run trains on."""
REFERENCE_NIC_BPS: Final = 25e9
"""The rate of a host that states no ``nic``, in bits per second."""
LOG_BYTES: Final = 100_000_000
"""Most bytes that one job may print, unless the cluster file states another limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceType:
    """A kind of accelerator, for example ``V100``. ``memory_bytes`` None: not limited."""

    name: str
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator. ``index`` is its position in ``Cluster.devices``; name ``v-0/V100-2``."""

    index: int
    name: str
    type: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine. Rates in bits per second (disk in bytes per second); None: not stated.

    ``opportunistic``: it may come and go during a run, unannounced. ``price``: what an hour of it
    costs, in any currency.
    """

    name: str
    devices: tuple[str, ...]
    memory_bytes: int | None = None
    nic_bps: float | None = None
    intra_bps: float | None = None
    disk_bytes_per_s: float | None = None
    opportunistic: bool = False
    price: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The model that prices synchronization, and its parameters.

    All but ``model`` are parameters of ``contention``, (6)-(8) of SJF-BCO (``warren.cost.ring``).
    ``xi1``, read as ``reading`` says: the part of the other rings on a host's link that is felt.
    ``xi2_s``: the time that each host of a ring adds to a round. ``alpha``: the bandwidth that
    sharing itself loses. ``outer_bps`` and ``inner_bps``: measured bits/s between and within hosts;
    None: the hosts' stated rates hold. ``fluid`` (``warren.cost.max_min``) has these and ``xi2_s``;
    ``latency_s``, the wait for the first byte of a transfer between a server and a device of
    another host; and ``class_weights``, by which classes 1 to 7 of flows share a link. None: each
    is served before the next, as class 0 is before all.
    """

    model: NetworkModel = "constant"
    xi1: float = 1.0
    xi2_s: float = 0.0
    alpha: float = 0.0
    reading: RingReading = "ours"
    outer_bps: float | None = None
    inner_bps: float | None = None
    latency_s: float = 0.0
    class_weights: tuple[float, ...] | None = None

    @property
    def slows_rings(self) -> bool:
        """Tell whether rings share links; else their exchanges take T^s."""
        return self.model in ("contention", "fluid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulate:
    """Emulated devices of a live run: profile times are padded to ``time_scale`` of them.

    The rest is hidden from the simulator and from every policy: ``jitter`` names a NumPy file of
    measured iteration times, from which each task draws its own (divided by their median);
    ``slower`` multiplies the pads of a device type.
    """

    time_scale: float = 1.0
    jitter: str = ""
    slower: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Options of the ``local`` engine on this machine.

    ``look_ahead``: tasks whose state a device fetches before their turn. ``pin``: device i, with
    its trainers, runs on core i (modulo the cores there are). ``memory_bytes``: most memory of one
    trainer or one server; None: not limited. ``log_bytes``: most bytes that user code of one job
    may print. ``testbed``: its processes run in the hosts of this testbed, which have the names of
    the cluster's hosts; None: all processes run on this machine directly. ``lease_ns``: the hosts
    count as machines of their own, each with an agent that may go on for this time while it hears
    nothing; None: they are this machine's. ``spill``: input data go to disk as far as the memory of
    their host does not hold them; ``disk_ratio``: their share on disk, where it is fixed.
    ``model_on_disk``: whether blocks of models are on disk, too; None: where memory is still short.
    """

    look_ahead: int = 2
    pin: bool = False
    memory_bytes: int | None = None
    log_bytes: int = LOG_BYTES
    testbed: str | None = None
    lease_ns: int | None = None
    spill: bool = False
    disk_ratio: float | None = None
    model_on_disk: bool | None = None


# Without slots: ``cached_property`` keeps its values in ``__dict__``.
@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Hosts and devices in file order. ``types`` fixes the type axis of every cost matrix.

    ``overheads``: measured on the machine that plays the cluster; they make a simulation predict a
    live run that emulates nothing, and in any run when gangs of rings are there. ``switching``: the
    charge in a simulation for a device that goes from one job to another; None: nothing. ``ray``:
    where the cluster of the engine ``ray`` is, as ``HOST:PORT``.
    """

    hosts: tuple[Host, ...]
    devices: tuple[Device, ...]
    types: tuple[DeviceType, ...]
    network: Network = field(default_factory=Network)
    engine: EngineName = "local"
    ray: str | None = None
    emulate: Emulate | None = None
    local: Local = field(default_factory=Local)
    overheads: Overheads | None = None
    switching: Switching | None = None

    @cached_property
    def type_names(self) -> tuple[str, ...]:
        """Return the names of the device types, in the order of the type axis."""
        return tuple(device_type.name for device_type in self.types)

    @cached_property
    def is_scheduled(self) -> bool:
        """Tell whether a policy decides over a live run.

        False under the plain engine: it trains the jobs one after the other, in one process, as a
        script without Warren would. Nothing is padded then, and profiles are not asked.
        """
        return self.engine != "plain"

    @cached_property
    def lease_ns(self) -> int | None:
        """Length of a host's lease in ns; None: hosts are this machine's, and have none."""
        stated = self.local.lease_ns
        return LEASE_NS if self.engine == "ray" and stated is None else stated

    @cached_property
    def live_emulate(self) -> Emulate | None:
        """The padding of tasks in a live run; None: they last as long as they take."""
        return self.emulate if self.is_scheduled else None

    @cached_property
    def raises_times(self) -> bool:
        """Tell whether a simulation adds measured overheads to tasks.

        It does where they are stated and no task is padded.
        """
        # Padded tasks last as long as the profile says, whatever Warren's own processes take. The
        # plain engine has none of these processes.
        stated = self.overheads is not None and self.overheads.of_tasks
        return stated and self.emulate is None and self.is_scheduled

    @cached_property
    def delays_gangs(self) -> bool:
        """Tell whether a simulation lets gangs of rings take time to start.

        Pads hide that time in part, so it holds for emulated runs too.
        """
        return self.overheads is not None and self.overheads.of_gangs and self.is_scheduled

    @cached_property
    def link_bytes_per_s(self) -> tuple[float, ...]:
        """Return the rate of each host's uplink, which is that of its downlink, bytes a second.

        ``network: fluid`` shares these rates: a measured rate of the network stands for all hosts,
        and a host without ``nic`` has the reference rate.
        """
        outer_bps = self.network.outer_bps
        return tuple((outer_bps or one.nic_bps or REFERENCE_NIC_BPS) / 8 for one in self.hosts)

    @cached_property
    def opportunistic(self) -> frozenset[int]:
        """Return the hosts, by index, that may come and go during a run."""
        return frozenset(at for at, host in enumerate(self.hosts) if host.opportunistic)

    @cached_property
    def type_of_device(self) -> tuple[int, ...]:
        """Return the position of each device's type on the type axis."""
        # The type axis of every matrix follows ``types``, not the order in which devices stand.
        position = {name: index for index, name in enumerate(self.type_names)}
        return tuple(position[device.type] for device in self.devices)


def static_server_hosts(hosts: Sequence[Host], job: int, servers: int) -> tuple[int, ...]:
    """Return the host of each parameter server of a job under shape ``static``, by its index.

    It holds as long as no shape policy has answered for the job.

    Hosts stand in order of their memory, most first; a host that states none stands before all
    others, and equal hosts stand as in the cluster. Server p of job j is on number j + p of them,
    round and round, so that neighbors in the workload have their first servers on different hosts.
    """
    memory_H = [inf if one.memory_bytes is None else float(one.memory_bytes) for one in hosts]
    # The sort is stable, so that hosts of one memory stay in the cluster's order.
    order = sorted(range(len(hosts)), key=lambda host: -memory_H[host])
    return tuple(order[(job + server) % len(order)] for server in range(servers))
