"""Build a ``Cluster`` of a checked cluster file: hosts counted out, devices named, costs measured.

Measured values are inside the file or in one of their own: overheads, network, switching.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from warren.model.cluster import Cluster, Device, DeviceType, Emulate, Host, Local, Network
from warren.model.errors import Problem, SpecError
from warren.model.measured import PCIE3_X16_BYTES_PER_S, Overheads, Switching
from warren.workload.generators.cluster_shapes import HETEROGENEITY, hosts_of, servers_of
from warren.workload.specs.cluster import (
    HERE,
    MAX_DEVICES,
    MAX_HOSTS,
    ClusterSpec,
    EmulateSpec,
    HostSpec,
    LocalSpec,
    NetworkFileSpec,
    NetworkSpec,
    ServersSpec,
)
from warren.workload.specs.measured import OverheadsSpec
from warren.workload.specs.types import Spec
from warren.workload.text import HostsHere, Reader, fetch_text, hint, shown
from warren.workload.validation import check
from warren.workload.yaml_document import Document, Path, parse_document

SomeSpec = TypeVar("SomeSpec", bound=Spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesBeside:
    """The place of files that a cluster names: relative to ``folder``, which is in ``base``.

    ``here`` looks at this machine, which a cluster may be; None: no look at the machine.
    """

    read: Reader
    base: str = ""
    folder: str = ""
    here: HostsHere | None = None


def overheads_of(
    spec: ClusterSpec, document: Document, at: Path, nearby: FilesBeside, problems: list[Problem]
) -> Overheads | None:
    """Return the overheads that the cluster at ``at`` states or names; None: none, or problems."""
    stated = spec.overheads
    if isinstance(stated, str):
        by = document.where((*at, "overheads"))
        stated = _followed(OverheadsSpec, stated, nearby, by, problems)
    return None if stated is None else _overheads(stated)


def network_of(
    spec: ClusterSpec, document: Document, at: Path, nearby: FilesBeside, problems: list[Problem]
) -> Network | None:
    """Return the network that the cluster at ``at`` states or names; None: problems."""
    stated = spec.network
    if isinstance(stated, str):
        by = document.where((*at, "network"))
        found = _followed(NetworkFileSpec, stated, nearby, by, problems)
        return None if found is None else _network(found)
    return _network(stated)


def _followed(
    kind: type[SomeSpec], named: str, nearby: FilesBeside, by: str, problems: list[Problem]
) -> SomeSpec | None:
    """Read and check a file that a cluster names; None and problems where it is wrong."""
    # The path is relative to the file that names it, as all paths in files are.
    path = posixpath.join(nearby.base, nearby.folder, named)
    try:
        document = parse_document(path, fetch_text(path, nearby.read, by))
    except SpecError as error:
        problems += error.problems
        return None
    return check(kind, document, problems)


def _network(spec: NetworkSpec) -> Network:
    return Network(
        model=spec.model,  # type: ignore[arg-type]
        xi1=spec.xi1,
        xi2_s=spec.xi2,
        alpha=spec.alpha,
        reading=spec.reading,  # type: ignore[arg-type]
        outer_bps=spec.outer,
        inner_bps=spec.inner,
        latency_s=spec.latency,
        class_weights=None if isinstance(spec.classes, str) else tuple(spec.classes.weights),
    )


def _overheads(spec: OverheadsSpec) -> Overheads:
    stated = spec.constants
    return Overheads(
        cores=stated.cores,
        dispatch_ns=stated.dispatch,
        task_cpu_ns=stated.task_cpu,
        round_cpu_ns=stated.round_cpu,
        task_cpu_bytes_per_s=stated.task_cpu_rate,
        round_cpu_bytes_per_s=stated.round_cpu_rate,
        slowdown=stated.slowdown,
        ring_start_ns=stated.ring_start,
        ring_rank_ns=stated.ring_rank,
        ring_move_ns=stated.ring_move,
    )


def wrong_switching(spec: ClusterSpec, types: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield the faults of switching: types without a time or unknown, costs counted twice."""
    if spec.switching is None:
        return
    # Measured rows have a ``switch`` column already; charging both would count it twice.
    if spec.overheads is not None and spec.emulate is None and spec.engine == "local":
        yield ("switching",), "rows measured with overheads tell it; allowed: one of the two"
    stated = spec.switching.times
    if stated is None:
        return
    for kind in stated:
        if kind not in types and kind not in spec.device_types:
            message = f"{shown(kind)} is no type of this cluster; {hint(kind, list(types))}"
            yield ("switching", "times", kind), f"{message}allowed: {', '.join(types)}"
    missing = [kind for kind in types if kind not in stated]
    if missing:
        yield ("switching", "times"), f"has no time for {', '.join(missing)}"


def switching_of(spec: ClusterSpec, types: Sequence[str]) -> Switching | None:
    """Return the switching of a cluster with these types and nothing wrong; None: not charged."""
    stated = spec.switching
    if stated is None:
        return None
    if stated.scheme is not None:
        bus = PCIE3_X16_BYTES_PER_S if stated.bus is None else stated.bus
        return Switching(scheme=stated.scheme, bus_bytes_per_s=bus)
    # ``time`` is short for the same time on every type.
    times_ns = stated.times or dict.fromkeys(types, stated.time or 0)
    return Switching(time_ns={kind: times_ns[kind] for kind in types})


def build_cluster(
    spec: ClusterSpec, document: Document, at: Path, problems: list[Problem], nearby: FilesBeside
) -> Cluster | None:
    """Build the cluster, or return None and add problems; ``at`` is its place in the document.

    ``nearby`` gives the folder of relative paths in it.
    """
    if spec.hosts == HERE and nearby.here is None:
        message = f"{HERE} is this machine, which is not looked at here; allowed: a list of hosts"
        problems.append(document.problem((*at, "hosts"), message))
        return None
    listed = _listed(spec, nearby.here)
    types = _types(spec, listed)
    names = [kind.name for kind in types]
    # All checks run before anything is built, so that one reading reports all problems.
    found = [
        *_too_many(listed),
        *_same_names(listed),
        *_no_device(listed),
        *_none_stays(listed),
        *_some_prices(listed),
        *_unknown_types(spec, listed),
        *_unknown_slower(spec, listed),
        *_wrong_spill(spec, listed),
        *_wrong_lease(spec),
        *wrong_switching(spec, names),
    ]
    problems += [document.problem((*at, *path), message) for path, message in found]
    overheads = overheads_of(spec, document, at, nearby, problems)
    network = network_of(spec, document, at, nearby, problems)
    if found or network is None:
        return None
    hosts = tuple(host for one in listed for host in _hosts(one))
    devices = tuple(_devices(listed))
    return Cluster(
        hosts=hosts,
        devices=devices,
        types=types,
        network=network,
        engine="ray" if isinstance(spec.engine, dict) else spec.engine,
        ray=spec.engine["ray"] if isinstance(spec.engine, dict) else None,
        emulate=_emulate(spec.emulate, nearby.folder) if spec.emulate else None,
        local=_local(spec.local),
        overheads=overheads,
        switching=switching_of(spec, names),
    )


def _listed(spec: ClusterSpec, here: HostsHere | None) -> list[HostSpec]:
    """Return the hosts as a list, those of a shape, or of this machine, written out."""
    shape = spec.hosts
    if isinstance(shape, list):
        return shape
    if isinstance(shape, str):
        assert here is not None
        return [HostSpec.model_validate(one) for one in here()]
    # Each server has its own draw, so no two share an entry.
    if isinstance(shape, ServersSpec):
        return [
            HostSpec.model_validate(
                {
                    "name": f"s-{index}",
                    "devices": {"V100": gpus},
                    "nic": shape.nic,
                    "intra": shape.intra,
                }
            )
            for index, gpus in enumerate(servers_of(shape.servers, shape.seed))
        ]
    parts = shape.mix if shape.mix is not None else HETEROGENEITY[shape.heterogeneity]
    return [
        HostSpec.model_validate(
            {"name": name, "count": count, "devices": devices, "nic": shape.nic}
        )
        for name, count, devices in hosts_of(shape.devices, parts, shape.per_host)
    ]


def host_names(spec: HostSpec) -> Iterator[str]:
    """Yield ``v-0``, ``v-1``, ... if a count is stated (also 1), otherwise the plain name."""
    if spec.count is None:
        yield spec.name
    else:
        yield from (f"{spec.name}-{index}" for index in range(spec.count))


def _too_many(hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    count = sum(host.count or 1 for host in hosts)
    devices = sum((host.count or 1) * sum(host.devices.values()) for host in hosts)
    if count > MAX_HOSTS:
        yield ("hosts",), f"{count} hosts; allowed: at most {MAX_HOSTS}"
    if devices > MAX_DEVICES:
        yield ("hosts",), f"{devices} devices; allowed: at most {MAX_DEVICES}"


def _same_names(hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    """Yield a problem for each entry with a host name that an earlier one has."""
    # Too many hosts are a problem already, and their names are not worth writing out.
    if sum(host.count or 1 for host in hosts) > MAX_HOSTS:
        return
    seen: Counter[str] = Counter()
    for index, host in enumerate(hosts):
        names = tuple(host_names(host))
        again = [name for name in names if seen[name]]
        seen.update(names)
        if again:
            yield ("hosts", index, "name"), f"host {again[0]} stands twice; names must differ"


def _no_device(hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    if not any(host.devices for host in hosts):
        yield ("hosts",), "no host has a device; allowed: devices: {TYPE: COUNT}"


def _none_stays(hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    """Yield that all devices may go: no job could go on then."""
    if all(host.opportunistic for host in hosts if host.devices) and any(
        host.opportunistic for host in hosts
    ):
        yield (
            ("hosts",),
            "all hosts with devices are opportunistic; at least one must stay",
        )


def _some_prices(hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    """Yield a host without a price beside hosts with a price."""
    without = [index for index, host in enumerate(hosts) if host.price is None]
    if without and len(without) < len(hosts):
        yield ("hosts", without[0], "price"), "other hosts have a price; allowed: all or none"


def _unknown_types(spec: ClusterSpec, hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    """Yield types of hosts that are not described, if any are: no job would have a time there."""
    allowed = list(spec.device_types)
    for index, host in enumerate(hosts):
        for kind in host.devices:
            if allowed and kind not in spec.device_types:
                message = f"{shown(kind)} is none of device_types; {hint(kind, allowed)}"
                yield ("hosts", index, "devices", kind), f"{message}allowed: {', '.join(allowed)}"


def _unknown_slower(spec: ClusterSpec, hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    """Yield types of ``emulate.slower`` that the cluster does not have."""
    allowed = list(dict.fromkeys(kind for host in hosts for kind in host.devices))
    for kind in spec.emulate.slower if spec.emulate else ():
        if kind not in allowed and kind not in spec.device_types:
            message = f"{shown(kind)} is no type of this cluster; {hint(kind, allowed)}"
            yield ("emulate", "slower", kind), f"{message}allowed: {', '.join(allowed)}"


def _wrong_spill(spec: ClusterSpec, hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    """Yield the faults of spilling: without its amount, or an amount without spilling."""
    local = spec.local
    for name in ("disk_ratio", "model_on_disk"):
        if getattr(local, name) is not None and not local.spill:
            yield ("local", name), "is read with spill: true only"
    unlimited = [host.name for host in hosts if host.memory is None]
    if local.spill and local.disk_ratio is None and unlimited:
        message = f"needs the memory of every host, or disk_ratio; {unlimited[0]} states none"
        yield ("local", "spill"), message


def _wrong_lease(spec: ClusterSpec) -> Iterator[tuple[Path, str]]:
    """Yield the features that hosts with agents do not have (yet)."""
    local, ray = spec.local, isinstance(spec.engine, dict)
    if local.lease is None and not ray:
        return
    if local.testbed is None and not ray:
        yield ("local", "lease"), "is read with testbed: NAME or engine: {ray: HOST:PORT} only"
    for name in ("spill", "pin"):
        if getattr(local, name):
            yield ("local", name), f"cannot be had with {'engine: ray' if ray else 'lease'}"


def _emulate(spec: EmulateSpec, folder: str) -> Emulate:
    jitter = "" if spec.jitter is None else posixpath.join(folder, spec.jitter)
    return Emulate(time_scale=spec.time_scale, jitter=jitter, slower=spec.slower)


def _local(spec: LocalSpec) -> Local:
    return Local(
        look_ahead=spec.look_ahead,
        pin=spec.pin,
        memory_bytes=spec.memory,
        log_bytes=spec.log_limit,
        testbed=spec.testbed,
        lease_ns=spec.lease,
        spill=spec.spill,
        disk_ratio=spec.disk_ratio,
        model_on_disk=spec.model_on_disk,
    )


def _device_names(host: HostSpec, name: str) -> Iterator[tuple[str, str]]:
    """Yield type and name of each device of a host, as ``v-0/V100-3``."""
    for kind, count in host.devices.items():
        for index in range(count):
            yield kind, f"{name}/{kind}-{index}"


def _hosts(spec: HostSpec) -> Iterator[Host]:
    for name in host_names(spec):
        yield Host(
            name=name,
            devices=tuple(device for _, device in _device_names(spec, name)),
            memory_bytes=spec.memory,
            nic_bps=spec.nic,
            intra_bps=spec.intra,
            disk_bytes_per_s=spec.disk,
            opportunistic=spec.opportunistic,
            price=spec.price,
        )


def _devices(hosts: list[HostSpec]) -> Iterator[Device]:
    """Yield all devices, numbered in the order of the hosts in the file."""
    index = 0
    for host in hosts:
        for name in host_names(host):
            for kind, device in _device_names(host, name):
                yield Device(index=index, name=device, type=kind, host=name)
                index += 1


def _types(spec: ClusterSpec, hosts: list[HostSpec]) -> tuple[DeviceType, ...]:
    """Return the types in use: those described, in that order, then others as hosts name them."""
    used = dict.fromkeys(kind for host in hosts for kind in host.devices)
    # A dict drops the repetition of types that are described and used.
    order = [*(name for name in spec.device_types if name in used), *used]
    return tuple(
        DeviceType(
            name=name,
            memory_bytes=spec.device_types[name].memory if name in spec.device_types else None,
        )
        for name in dict.fromkeys(order)
    )
