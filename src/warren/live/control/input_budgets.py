"""The controller's side of spilled input data: a budget and a table for each host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from warren.live.process.linux import parents
from warren.live.process.time_limit import size_text
from warren.live.training.input_data.host_memory import (
    HostBudget,
    HostMemoryTable,
    whole_bytes,
)
from warren.live.training.input_data.memory_shares import MemoryUse
from warren.model.cluster import Cluster
from warren.model.errors import Problem, SpecError
from warren.model.job import Job

_MARGIN: Final = 16
"""One part in this number of a host's memory stays free, for use that is not yet measured."""


class InputBudgets:
    """The memory budgets of the hosts of a cluster whose file says ``local.spill``.

    Parameters
    ----------
    cluster : Cluster
        The cluster.
    folder : Path
        The run's private folder, where the tables are.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        hosts = cluster.hosts
        names = [host.name for host in hosts]
        self._host_of_device = [names.index(device.host) for device in cluster.devices]
        self._budgets: list[HostBudget | None] = [None] * len(hosts)
        if cluster.local.spill:
            self._budgets = [
                _budget(folder / f"memory-{at}", host.name, host.memory_bytes, cluster)
                for at, host in enumerate(hosts)
            ]
        # This process keeps the rows of its own and of all that run no user code.
        self._tables: list[HostMemoryTable] = []

    def of_device(self, device: int) -> HostBudget | None:
        """Return the budget of a device's host; None: data stay in memory."""
        return self._budgets[self._host_of_device[device]]

    def of_host(self, host: int) -> HostBudget | None:
        """Return the budget of a host; None: data stay in memory."""
        return self._budgets[host]

    def measure(self) -> None:
        """Enter the memory of Warren's own processes, before any process runs user code.

        They are counted on the first host, where the controller is.

        Raises
        ------
        SpecError
            If that is more than the host has.
        """
        limited = [one for one in self._budgets if one is not None and one.table]
        self._tables = [HostMemoryTable(one.table) for one in limited]
        if limited and limited[0] is self._budgets[0]:
            taken = sum(whole_bytes(pid) for pid in _descendants(os.getpid()))
            if taken > limited[0].budget_bytes:
                stated = size_text(limited[0].stated_bytes)
                raise SpecError(
                    Problem(
                        file="cluster",
                        field="hosts[].memory",
                        message=f"of {limited[0].host}, {stated}, is too little for local.spill: "
                        f"Warren's own processes take {size_text(taken)}",
                    )
                )
            with self._tables[0].open():
                self._tables[0].put(MemoryUse(fixed_bytes=taken))

    def close(self) -> None:
        """Give up the tables."""
        for table in self._tables:
            table.close()
        self._tables = []


def refuse_rings(cluster: Cluster, jobs: tuple[Job, ...]) -> None:
    """Refuse to spill where ranks of rings would take memory that no budget counts."""
    ring = next((job for job in jobs if job.sync == "ring"), None)
    if cluster.local.spill and ring is not None:
        message = f"is for jobs with servers: {ring.name!r} has sync: ring, and keeps its data"
        raise SpecError(Problem(file="cluster", field="local.spill", message=message))


def refuse_blocks_on_gpus(cluster: Cluster, gpus: Sequence[int | None]) -> None:
    """Refuse models on disk where GPUs compute: states are pinned in memory there."""
    if cluster.local.model_on_disk and any(gpu is not None for gpu in gpus):
        message = "true is for devices that are processors: GPUs compute here"
        raise SpecError(Problem(file="cluster", field="local.model_on_disk", message=message))


def _budget(table: Path, host: str, memory_bytes: int | None, cluster: Cluster) -> HostBudget:
    ratio, model_on_disk = cluster.local.disk_ratio, cluster.local.model_on_disk
    if memory_bytes is None:
        return HostBudget(host=host, disk_ratio=ratio, model_on_disk=model_on_disk)
    return HostBudget(
        table=str(table),
        host=host,
        stated_bytes=memory_bytes,
        budget_bytes=memory_bytes - memory_bytes // _MARGIN,
        disk_ratio=ratio,
        model_on_disk=model_on_disk,
    )


def _descendants(pid: int) -> set[int]:
    """Return a process and all that came from it."""
    parent_of = parents()
    found, more = {pid}, True
    while more:
        new = {one for one, parent in parent_of.items() if parent in found} - found
        found |= new
        more = bool(new)
    return found
