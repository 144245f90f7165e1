"""Small clusters, workloads and costs made by seed, shared by the tests of several rooms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warren.model.cluster import Cluster, Device, DeviceType, Host, Network, NetworkModel
from warren.model.costs import CostTable
from warren.model.job import Job, Workload
from warren.model.run import Grain, Run, Scheduler, Truth
from warren.model.units import NEVER_NS, NS_PER_S


def cluster(types: Sequence[str], network: NetworkModel = "constant") -> Cluster:
    """One host with one device for each entry of ``types``."""
    devices = tuple(
        Device(index=i, name=f"h/{name}-{i}", type=name, host="h") for i, name in enumerate(types)
    )
    names = list(dict.fromkeys(types))
    return Cluster(
        hosts=(Host(name="h", devices=tuple(device.name for device in devices)),),
        devices=devices,
        types=tuple(DeviceType(name=name) for name in names),
        network=Network(model=network),
    )


def job(index: int, *, scale: int = 1, rounds: int | None = 1, **fields: object) -> Job:
    """A job named ``j<index>``."""
    return Job(index=index, name=f"j{index}", scale=scale, rounds=rounds, **fields)  # type: ignore[arg-type]


def costs(comp_s: Sequence[Sequence[float]], sync_s: Sequence[Sequence[float]]) -> CostTable:
    """A cost table from seconds, shape (J, T); infinity: does not fit."""
    comp, sync = np.array(comp_s, dtype=float), np.array(sync_s, dtype=float)
    fits = np.isfinite(comp)
    as_ns = [
        np.where(fits, np.where(fits, one, 0) * NS_PER_S, NEVER_NS).astype(np.int64)
        for one in (comp, sync)
    ]
    return CostTable(comp_ns_JT=as_ns[0], sync_ns_JT=as_ns[1], fits_JT=fits)


def first_rows(first: CostTable, count: int, then: CostTable, rows: Sequence[int]) -> CostTable:
    """The first rows of one table, then these of another, which fit everywhere."""
    types = first.comp_ns_JT.shape[1]
    kinds = [i % then.comp_ns_JT.shape[1] for i in range(types)]

    def joined(name: str, instead: object) -> Any:
        more = np.where(then.fits_JT, getattr(then, name), instead)[list(rows)][:, kinds]
        return np.concatenate([getattr(first, name)[:count], more])

    return CostTable(
        comp_ns_JT=joined("comp_ns_JT", NS_PER_S),
        sync_ns_JT=joined("sync_ns_JT", 0),
        fits_JT=joined("fits_JT", True),
    )


def run(
    devices: Cluster,
    jobs: Sequence[Job],
    *,
    place: str = "hare",
    grain: Grain | None = None,
    truth: Truth | None = None,
    seed: int = 0,
) -> Run:
    """A run named ``test``."""
    return Run(
        name="test",
        cluster=devices,
        workload=Workload(jobs=tuple(jobs)),
        scheduler=Scheduler(place=place),
        grain=grain or Grain(),
        truth=truth or Truth(),
        seed=seed,
    )


def random_world(
    seed: int,
    *,
    jobs: int = 6,
    devices: int = 4,
    network: NetworkModel = "constant",
    truth: Truth | None = None,
    grain: Grain | None = None,
) -> tuple[Run, CostTable]:
    """A random small run: up to three types, scales 1-4, rounds 1-6, some misfits."""
    random = np.random.default_rng(seed)
    types = [f"T{i}" for i in random.integers(0, 3, size=devices)]
    made = cluster(types, network)
    arrivals = np.sort(random.integers(0, 20, size=jobs)) * NS_PER_S // 2
    listed = [
        job(
            index,
            scale=int(random.integers(1, 5)),
            rounds=int(random.integers(1, 7)),
            weight=float(random.integers(1, 5)),
            arrival_ns=int(arrivals[index]),
        )
        for index in range(jobs)
    ]
    shape = (jobs, len(made.types))
    comp = random.integers(1, 9, size=shape) / 4
    sync = random.integers(0, 5, size=shape) / 8
    if shape[1] > 1:
        comp[random.random(size=jobs) < 0.2, 0] = np.inf
    return run(made, listed, truth=truth, grain=grain), costs(comp, sync)
