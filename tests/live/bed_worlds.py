"""Runs in the hosts of a testbed: made, looked at from outside, and removed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.names import NAMESPACES
from warren.model.cluster import Device, Host, Local
from warren.model.run import Run
from warren.model.testbed import Bed, BedHost

NAME = f"beds-{os.getpid()}"


@contextmanager
def standing_bed(hosts: int, mbit: int = 200, cpus: float | None = None) -> Iterator[Bed]:
    """Equal hosts h0, h1, ... that are up inside the block."""
    every = (BedHost(name=f"h{i}", link_bps=mbit * 10**6, cpus=cpus) for i in range(hosts))
    bed = Bed(name=NAME, subnet="10.81.0.0/24", hosts=tuple(every))
    make(bed)
    try:
        yield bed
    finally:
        remove(bed.name)


def on_hosts(
    run: Run,
    host_of_device: Sequence[str],
    memory_bytes: int | None = None,
    host_bytes: Mapping[str, int] = MappingProxyType({}),
) -> Run:
    """The same run with its devices on these hosts of the testbed.

    ``memory_bytes``: the limit of each process; ``host_bytes``: the memory that hosts state.
    """
    names = tuple(dict.fromkeys(host_of_device))
    devices = tuple(
        Device(index=index, name=f"{host}/cpu-{index}", type="cpu", host=host)
        for index, host in enumerate(host_of_device)
    )
    of_host = {name: tuple(one.name for one in devices if one.host == name) for name in names}
    cluster = replace(
        run.cluster,
        hosts=tuple(
            Host(name=name, devices=of_host[name], memory_bytes=host_bytes.get(name))
            for name in names
        ),
        devices=devices,
        local=Local(testbed=NAME, memory_bytes=memory_bytes),
    )
    return replace(run, cluster=cluster)


def host_of(pid: int) -> int | None:
    """The host whose network a process is in; None: it is outside.

    Raises
    ------
    OSError
        If the process has ended.
    """
    mark = _mark(Path(f"/proc/{pid}/ns/net"))
    known = sorted(NAMESPACES.glob(f"warren-{NAME}-[0-9]"))
    found = [int(path.name.rpartition("-")[2]) for path in known if _mark(path) == mark]
    return found[0] if found else None


def _mark(path: Path) -> tuple[int, int]:
    return path.stat().st_dev, path.stat().st_ino
