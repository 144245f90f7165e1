"""Which machines serve and which work, so that an epoch of a parameter-server job is the shortest.

*What.* The problem of Cruise's Figure 3.2: each machine is a worker or a server, data is split in
whole items, the model in parts of any size, and the longest epoch of a worker counts.

*Source.* Cruise (dissertation 2020), 3.2: (3.1) to (3.4). The paper solves a mixed integer program
with a library, for 32 machines in 37 s, and gives (3.5) for equal machines.

*Why it is exact.* Machines of one kind can be exchanged, so all that matters is how many of each
serve: N - 1 cases for equal machines, at most the product of N_k + 1 for K kinds, and none is left
out but by a bound. Of each case the best split of the data is known (``data_split``), and by the
readings ``nic`` and ``server`` that of the model, too (``model_split``). By ``published`` both are
searched together, to one part in 10^9 or with a bound (``published_search``).

*Differs.* A machine may have several devices, each of which is a worker. A round may be fixed: then
an epoch is rounds of a given number of items in all, the last one perhaps of fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.shapes.data_kernels import Rounds
from warren.solve.shapes.data_split import DataCost, bounds_s, least_epochs_s, split_items
from warren.solve.shapes.kinds import MachineKinds
from warren.solve.shapes.model_split import holding, nic_transfer_s, server_transfer_s, workers_C
from warren.solve.shapes.published_search import MOST_BOXES, ServerCases, published_shape
from warren.solve.shapes.published_split import (
    published_transfer_s,
    transfer_ranges,
    worker_rates,
)

MOST_CASES: Final = 1_000_000
_AT_ONCE: Final = 256
_EQUAL: Final = 1e-12
"""Epochs that differ by this part are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """An epoch of a job, as Cruise's Figure 3.2 has it.

    ``round_items``: of all workers together, where a round is fixed; None: each worker has
    mini-batches of its own, of ``batch`` items. ``whole``: whether a part of a mini-batch costs as
    much as one, as in (3.4) and not in (3.5). ``ways``: how often a mini-batch moves the model: 1
    as printed, 2 for a pull and a push. ``reading``: nic, server or published.
    """

    items: int
    model_bytes: float
    batch: int
    round_items: int | None = None
    whole: bool = True
    ways: int = 2
    reading: str = "nic"

    @property
    def rounds(self) -> tuple[tuple[int, int], ...]:
        """Return the items of all workers together, and how often: an epoch, or its rounds."""
        if self.round_items is None:
            return ((self.items, 1),)
        full, rest = divmod(self.items, self.round_items)
        return tuple(one for one in ((self.round_items, full), (rest, 1)) if all(one))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShape:
    """The best shape: how many of each kind serve, ``machines_K`` work, and the share of each.

    ``items``: of each worker, by kind; ``server_bytes_K``: of each server of a kind that holds
    something, ``holding_K`` of them. ``bound_s``: no epoch is below that. It is the epoch, by
    ``published`` less the part ``PROVED``, or less still where ``most_boxes`` did not suffice.
    """

    servers_K: IntArray
    machines_K: IntArray
    items: tuple[IntArray, ...]
    server_bytes_K: FloatArray
    holding_K: IntArray
    epoch_s: float
    bound_s: float


def best_shape(
    kinds: MachineKinds,
    epoch: Epoch,
    working: int | None = None,
    servers_K: IntArray | None = None,
    *,
    most_boxes: int = MOST_BOXES,
) -> KindShape:
    """Find the shape of the shortest epoch; of equal ones the one with fewest workers.

    ``working``: only shapes in which this many machines work. ``servers_K``: only shapes in which
    these numbers of each kind serve. ``most_boxes``: boxes after which a search by ``published``
    ends without a proof.

    Raises
    ------
    ValueError
        If no machine works beside a server, or there are more cases than ``MOST_CASES``.
    """
    if problem := refused(kinds):
        raise ValueError(problem)
    servers_CK = kinds.servers_CK()
    if servers_K is not None:
        servers_CK = servers_CK[(servers_CK == servers_K).all(axis=1)]
    if working is not None:
        servers_CK = servers_CK[servers_CK.sum(axis=1) == kinds.count_K.sum() - working]
    if not len(servers_CK):
        raise ValueError(f"there is no shape in which {working or 'such'} machines work")
    if epoch.reading == "published":
        return _published(kinds, epoch, servers_CK, most_boxes)
    cost = _cost(kinds, epoch, servers_CK)
    case = _least_case(cost, epoch, workers_C(kinds, servers_CK))
    serving_K = holding_K = servers_CK[case]
    if epoch.reading == "server":
        holding_K = holding(kinds, serving_K[None])[0]
    bytes_K = epoch.model_bytes * kinds.rate_K / float((holding_K * kinds.rate_K).sum())
    return _shape(kinds, epoch, serving_K, bytes_K * (holding_K > 0), holding_K, cost.cases([case]))


def refused(kinds: MachineKinds) -> str:
    """Return why the best shape on these machines cannot be found; empty if it can."""
    works = int(kinds.count_K[kinds.works_K].sum())
    if not works or kinds.count_K.sum() < 2:
        return "a worker and a server need two machines, of which one computes"
    if kinds.case_count > MOST_CASES:
        return (
            f"{len(kinds.count_K)} kinds of machines have {kinds.case_count} ways to serve; "
            f"allowed: {MOST_CASES}"
        )
    return ""


def _cost(kinds: MachineKinds, epoch: Epoch, servers_CK: IntArray) -> DataCost:
    """Return the cost of data for workers in each case, the model split as well as can be."""
    transfer_s = server_transfer_s if epoch.reading == "server" else nic_transfer_s
    return _data_cost(kinds, epoch, servers_CK, transfer_s(kinds, servers_CK, epoch.model_bytes))


def _data_cost(
    kinds: MachineKinds, epoch: Epoch, servers_CK: IntArray, transfer_s_CK: FloatArray
) -> DataCost:
    """Return the cost of data for workers with these transfer times."""
    return DataCost(
        (kinds.count_K - servers_CK) * kinds.devices_K,
        # A kind that cannot work has no items, whatever the time of an item.
        np.where(kinds.works_K, kinds.item_s_K, 1.0),
        epoch.ways * transfer_s_CK,
        epoch.batch if epoch.round_items is None else epoch.round_items,
        epoch.whole,
    )


def _epochs_s(cost: DataCost, epoch: Epoch) -> FloatArray:
    """Return the least epoch of each case."""
    each = [count * least_epochs_s(cost, items) for items, count in epoch.rounds]
    epoch_s_C: FloatArray = np.sum(each, axis=0)
    return epoch_s_C


def _bounds_s(cost: DataCost, epoch: Epoch) -> FloatArray:
    """Return a lower bound of epochs in each case."""
    each = [count * bounds_s(cost, items) for items, count in epoch.rounds]
    bound_s_C: FloatArray = np.sum(each, axis=0)
    return bound_s_C


def _least_case(cost: DataCost, epoch: Epoch, workers_of_C: IntArray) -> int:
    """Return the case of the shortest epoch: by bounds, so that few are looked at closely."""
    bound_s_C = _bounds_s(cost, epoch)
    order_C = np.argsort(bound_s_C, kind="stable")
    epoch_s_C = np.full(len(order_C), np.inf)
    for begin in range(0, len(order_C), _AT_ONCE):
        some = order_C[begin : begin + _AT_ONCE]
        if bound_s_C[some[0]] > epoch_s_C.min() * (1 + _EQUAL):
            break
        epoch_s_C[some] = _epochs_s(cost.cases(some), epoch)
    equal_C = np.flatnonzero(epoch_s_C <= epoch_s_C.min() * (1 + _EQUAL))
    return int(equal_C[workers_of_C[equal_C].argmin()])


def _published(
    kinds: MachineKinds, epoch: Epoch, servers_CK: IntArray, most_boxes: int
) -> KindShape:
    """Find the best shape by ``published``."""
    least_CA, most_CA = transfer_ranges(kinds, servers_CK, epoch.model_bytes)
    rate_A, rate_of_K = worker_rates(kinds)
    least = _data_cost(kinds, epoch, servers_CK, least_CA[:, rate_of_K])
    bound_s_C = _bounds_s(least, epoch)
    order_C, by_rate_K = np.argsort(bound_s_C, kind="stable"), np.argsort(kinds.rate_K)
    cases = ServerCases(
        rate_K=kinds.rate_K[by_rate_K],
        rate_A=rate_A,
        servers_CK=np.ascontiguousarray(servers_CK[order_C][:, by_rate_K], np.int64),
        workers_CK=np.ascontiguousarray(least.count_CK[order_C][:, by_rate_K], np.int64),
        least_CA=least_CA[order_C],
        most_CA=most_CA[order_C],
        bound_C=bound_s_C[order_C],
        model_bytes=float(epoch.model_bytes),
    )
    items_R, often_R = np.array(epoch.rounds, dtype=float).T.copy()
    rounds = Rounds(
        item_s_K=least.item_s_K[by_rate_K],
        rate_of_K=rate_of_K[by_rate_K],
        items_R=items_R,
        often_R=often_R,
        batch=float(least.batch),
        ways=float(epoch.ways),
        whole=epoch.whole,
    )
    found = published_shape(cases, rounds, most_boxes)
    servers_K, split_K = servers_CK[order_C[found.case]], np.empty(len(by_rate_K))
    split_K[by_rate_K] = found.split_K
    transfer_s_K = published_transfer_s(kinds, servers_K, split_K)
    cost = _data_cost(kinds, epoch, servers_K[None], transfer_s_K[None])
    shape = _shape(kinds, epoch, servers_K, split_K, servers_K * (split_K > 0), cost)
    return replace(shape, bound_s=min(found.bound_s, shape.epoch_s))


def _shape(
    kinds: MachineKinds,
    epoch: Epoch,
    servers_K: IntArray,
    bytes_K: FloatArray,
    holding_K: IntArray,
    cost: DataCost,
) -> KindShape:
    """Return the shape of a case, data and all. ``cost``: of this case alone."""
    parts = [np.zeros(count, dtype=np.int64) for count in cost.count_CK[0].tolist()]
    epoch_s = 0.0
    for items, count in epoch.rounds:
        split = split_items(cost, items)
        most_K = np.array([part.max(initial=0) for part in split])
        epoch_s += count * float(cost.time_s(most_K[None]).max())
        parts = [part + count * more for part, more in zip(parts, split, strict=True)]
    return KindShape(
        servers_K=servers_K,
        machines_K=kinds.count_K - servers_K,
        items=tuple(parts),
        server_bytes_K=bytes_K,
        holding_K=holding_K,
        epoch_s=epoch_s,
        bound_s=epoch_s,
    )
