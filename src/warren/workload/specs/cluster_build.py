"""A checked cluster file becomes a ``Cluster``: hosts counted out, devices named."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator

from warren.model.cluster import Cluster, Device, DeviceType, Emulate, Host, Local
from warren.model.errors import Problem
from warren.workload.generators.cluster_shapes import HETEROGENEITY, hosts_of, servers_of
from warren.workload.specs.cluster import (
    MAX_DEVICES,
    MAX_HOSTS,
    ClusterSpec,
    EmulateSpec,
    HostSpec,
    LocalSpec,
    ServersSpec,
)
from warren.workload.specs.overheads_build import Nearby, network_of, overheads_of
from warren.workload.specs.switching_build import switching_of, wrong_switching
from warren.workload.text import hint, shown
from warren.workload.yaml_document import Document, Path


def build_cluster(
    spec: ClusterSpec, document: Document, at: Path, problems: list[Problem], nearby: Nearby
) -> Cluster | None:
    """The cluster, or None and problems. ``at`` is where the cluster stands in the document.

    ``nearby`` says what the paths in it are relative to.
    """
    listed = _listed(spec)
    types = _types(spec, listed)
    names = [kind.name for kind in types]
    found = [
        *_too_many(listed),
        *_same_names(listed),
        *_no_device(listed),
        *_unknown_types(spec, listed),
        *_unknown_slower(spec, listed),
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
        engine=spec.engine,
        emulate=_emulate(spec.emulate, nearby.folder) if spec.emulate else None,
        local=_local(spec.local),
        overheads=overheads,
        switching=switching_of(spec, names),
    )


def _listed(spec: ClusterSpec) -> list[HostSpec]:
    """The hosts as a list, those of a shape written out."""
    shape = spec.hosts
    if isinstance(shape, list):
        return shape
    if isinstance(shape, ServersSpec):
        return [
            HostSpec.model_validate(
                {"name": f"s-{index}", "devices": {"V100": gpus}, "nic": shape.nic,
                 "intra": shape.intra}
            )
            for index, gpus in enumerate(servers_of(shape.servers, shape.seed))
        ]  # fmt: skip
    parts = shape.mix if shape.mix is not None else HETEROGENEITY[shape.heterogeneity]
    return [
        HostSpec.model_validate(
            {"name": name, "count": count, "devices": devices, "nic": shape.nic}
        )
        for name, count, devices in hosts_of(shape.devices, parts, shape.per_host)
    ]


def host_names(spec: HostSpec) -> Iterator[str]:
    """``v-0``, ``v-1``, ... where a count is stated (also 1), else the plain name."""
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


def _unknown_types(spec: ClusterSpec, hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    """Where types are described, another one is a slip: no job would have a time on it."""
    allowed = list(spec.device_types)
    for index, host in enumerate(hosts):
        for kind in host.devices:
            if allowed and kind not in spec.device_types:
                message = f"{shown(kind)} is none of device_types; {hint(kind, allowed)}"
                yield ("hosts", index, "devices", kind), f"{message}allowed: {', '.join(allowed)}"


def _unknown_slower(spec: ClusterSpec, hosts: list[HostSpec]) -> Iterator[tuple[Path, str]]:
    allowed = list(dict.fromkeys(kind for host in hosts for kind in host.devices))
    for kind in spec.emulate.slower if spec.emulate else ():
        if kind not in allowed and kind not in spec.device_types:
            message = f"{shown(kind)} is no type of this cluster; {hint(kind, allowed)}"
            yield ("emulate", "slower", kind), f"{message}allowed: {', '.join(allowed)}"


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
    )


def _device_names(host: HostSpec, name: str) -> Iterator[tuple[str, str]]:
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
        )


def _devices(hosts: list[HostSpec]) -> Iterator[Device]:
    index = 0
    for host in hosts:
        for name in host_names(host):
            for kind, device in _device_names(host, name):
                yield Device(index=index, name=device, type=kind, host=name)
                index += 1


def _types(spec: ClusterSpec, hosts: list[HostSpec]) -> tuple[DeviceType, ...]:
    """Types in use: those described first, in that order, then the others as hosts name them."""
    used = dict.fromkeys(kind for host in hosts for kind in host.devices)
    order = [*(name for name in spec.device_types if name in used), *used]
    return tuple(
        DeviceType(
            name=name,
            memory_bytes=spec.device_types[name].memory if name in spec.device_types else None,
        )
        for name in dict.fromkeys(order)
    )
