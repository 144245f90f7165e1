"""The numbers of hosts that should work on a job and serve it, before it has run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from warren.cost.parameter_server import RateReading
from warren.model.cluster import Cluster
from warren.model.costs import IntArray
from warren.model.errors import Problem, SpecError
from warren.model.job import EpochCost, Job
from warren.runs.inputs import jobs_of
from warren.runs.machine import hosts_here
from warren.runs.studies.shape_change import BLOCKS, ShapeChange, shape_change
from warren.solve.shapes.kinds import MachineKinds, kinds_of
from warren.solve.shapes.shape_search import Epoch, KindShape, best_shape, refused
from warren.store.files import read
from warren.workload.run_file import load_cluster

BatchForm = Literal["per-worker", "fixed-round"]
Reading = RateReading
"""The reading of a rate, for commands, which do not know of costs."""
_MOST_POINTS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeAdvice:
    """The shape of a job whose epoch is predicted to be the shortest.

    ``hosts``: all, in the order of the cluster. ``items``: items of the data, by host that works;
    ``server_bytes``: bytes of the model, by host that serves. ``epochs_s``: the shortest epoch for
    several numbers of working hosts. ``change``: from a stated shape to this one, if one was
    stated. ``bound_s``: no shape has a shorter epoch. Except for a part in 10^9 it is the epoch,
    unless a search by ``published`` ended without a proof.
    """

    job: str
    form: BatchForm
    reading: RateReading
    epoch_s: float
    bound_s: float
    hosts: tuple[str, ...]
    items: Mapping[str, int]
    server_bytes: Mapping[str, int]
    epochs_s: Mapping[int, float]
    change: ShapeChange | None = None


def advised_shapes(
    jobs_file: str,
    cluster_file: str,
    *,
    names: tuple[str, ...] = (),
    form: BatchForm = "fixed-round",
    reading: RateReading = "nic",
    ways: int = 2,
    curve: bool = False,
    stated: str | None = None,
    blocks: tuple[int, int] = BLOCKS,
) -> list[ShapeAdvice]:
    """Find the best shape of each job of a file on all hosts of a cluster.

    Parameters
    ----------
    form
        ``per-worker``: each worker has mini-batches of its own, as Cruise's; with more workers an
        epoch has fewer updates. ``fixed-round``: a mini-batch is split over all workers, so that
        the result does not depend on their number.
    reading
        The reading of b_ij; ``warren.cost.parameter_server``.
    ways
        Number of times that a mini-batch moves the model: 2 for a pull and a push, 1 as (3.4) is
        printed.
    curve
        Whether ``epochs_s`` has up to 100 numbers of working hosts; otherwise the best one's
        neighbors.
    stated, blocks
        The present shape of the job, such as ``18,14``, and the blocks of its data and model, for a
        plan of the way to the best shape; ``shape_change``.

    Raises
    ------
    SpecError
        If a file is wrong; if a job does not state its cost, or has none for a device of the
        cluster; or if the cluster has too few hosts, too many kinds of them, or no shape like the
        stated one.
    """
    cluster = load_cluster(cluster_file, read, hosts_here)
    found = []
    for job in jobs_of(jobs_file, list(names)):
        cost = _stated_cost(jobs_file, job, cluster)
        kinds, kind_N = _kinds(cluster_file, cost, cluster)
        if problem := refused(kinds):
            raise SpecError(Problem(file=cluster_file, field="hosts", message=problem))
        epoch = Epoch(
            items=cost.items,
            model_bytes=float(cost.model_bytes),
            batch=cost.batch,
            round_items=None if form == "per-worker" else cost.batch,
            ways=ways,
            reading=reading,
        )
        shape = best_shape(kinds, epoch)
        hosts = tuple(host.name for host in cluster.hosts)
        items, server_bytes = _by_host(shape, kind_N, hosts, cost.model_bytes)
        epochs_s = {
            count: best_shape(kinds, epoch, count).epoch_s for count in _counts(kinds, shape, curve)
        }
        change = None
        if stated is not None:
            change = shape_change(
                stated, blocks, cost, hosts, kind_N, kinds.works_K, items, server_bytes
            )
        found.append(
            ShapeAdvice(
                job=job.name, form=form, reading=reading, epoch_s=shape.epoch_s,
                bound_s=shape.bound_s, hosts=hosts, items=items, server_bytes=server_bytes,
                epochs_s=epochs_s, change=change,
            )
        )  # fmt: skip
    return found


def _stated_cost(jobs_file: str, job: Job, cluster: Cluster) -> EpochCost:
    """Return the epoch cost that a job states; raises SpecError if values are missing."""

    def problem(field: str, message: str) -> SpecError:
        return SpecError(Problem(file=jobs_file, field=f"{job.name}.{field}", message=message))

    cost = job.epoch_cost
    if cost is None:
        wanted = "{items: N, item: {TYPE: TIME}, model: SIZE, batch: N}"
        named = f"names row {job.cost}; a shape needs {wanted}"
        raise problem("cost", named if job.cost else f"is required: {wanted}")
    types = {device.type for device in cluster.devices}
    if missing := sorted(types - set(cost.item_s)):
        raise problem("cost.item", f"has no time for {', '.join(missing)}, of the cluster")
    return cost


def _kinds(cluster_file: str, cost: EpochCost, cluster: Cluster) -> tuple[MachineKinds, IntArray]:
    """Return the kinds of hosts, and each host's kind: by devices, time of an item, and rate."""
    held: dict[str, list[str]] = {host.name: [] for host in cluster.hosts}
    for device in cluster.devices:
        held[device.host].append(device.type)
    item_s, devices = [], []
    for host in cluster.hosts:
        mine = held[host.name]
        if len({cost.item_s[one] for one in mine}) > 1:
            message = f"{host.name} has devices of several types; allowed: of one, for a shape"
            raise SpecError(Problem(file=cluster_file, field="hosts", message=message))
        # Without a device a host can only serve.
        item_s.append(cost.item_s[mine[0]] if mine else math.inf)
        devices.append(len(mine) or 1)
    rates = np.array(cluster.link_bytes_per_s, dtype=float)
    return kinds_of(np.array(item_s, dtype=float), rates, np.array(devices))


def _by_host(
    shape: KindShape, kind_N: IntArray, hosts: tuple[str, ...], model_bytes: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the items of each host that works, and the bytes of each that serves."""
    items, held = dict[str, int](), dict[str, float]()
    for kind, working in enumerate(shape.machines_K.tolist()):
        names = [hosts[at] for at in np.flatnonzero(kind_N == kind).tolist()]
        parts = shape.items[kind].reshape(working, -1).sum(axis=1) if working else shape.items[kind]
        items |= dict(zip(names[:working], parts.tolist(), strict=True))
        holds = int(shape.holding_K[kind])
        for at, name in enumerate(names[working:]):
            held[name] = float(shape.server_bytes_K[kind]) if at < holds else 0.0
    order = {name: at for at, name in enumerate(hosts)}
    return (
        dict(sorted(items.items(), key=lambda one: order[one[0]])),
        _whole(dict(sorted(held.items(), key=lambda one: order[one[0]])), model_bytes),
    )


def _whole(parts: Mapping[str, float], total: int) -> dict[str, int]:
    """Round parts so that they sum to the total: the largest remainders up."""
    down = {name: int(part) for name, part in parts.items()}
    # A float holds no number of twenty digits: the remainder may be many bytes, or too many.
    more, left = divmod(total - sum(down.values()), len(parts))
    up = sorted(parts, key=lambda one: down[one] - parts[one])[:left]
    return {name: max(0, part + more + (name in up)) for name, part in down.items()}


def _counts(kinds: MachineKinds, shape: KindShape, curve: bool) -> list[int]:
    """Return numbers of hosts that work: the best one's neighbors, or many for a picture."""
    best = int(shape.machines_K.sum())
    most = min(int(kinds.count_K[kinds.works_K].sum()), int(kinds.count_K.sum()) - 1)
    if not curve:
        return [count for count in (best - 1, best + 1) if 1 <= count <= most]
    some = np.unique(np.linspace(1, most, min(most, _MOST_POINTS)).round().astype(int))
    return sorted({*some.tolist(), best})
