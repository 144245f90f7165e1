"""Which machines serve and which work, so that an epoch of a parameter-server job is the shortest.

*What.* The problem of Cruise's Figure 3.2: each machine is a worker or a server, data is split in
whole items, the model in parts of any size, and the longest epoch of a worker counts.

*Source.* Cruise (dissertation 2020), 3.2: (3.1) to (3.4). The paper solves a mixed integer program
with a library, for 32 machines in 37 s, and gives (3.5) for equal machines.

*Why it is exact*, by the readings ``nic`` and ``server``. Machines of one kind can be exchanged, so
all that matters is how many of each serve. Of each such case the best split of the model
(``model_split``) and then of the data (``data_split``) are known, and no case is left out but by a
bound: N - 1 for equal machines, at most the product of N_k + 1 for K kinds. By ``published`` the
split of the model is the best one where data may be cut anywhere, and else has no proof
(``published_split``).

*Differs.* A machine may have several devices, each of which is a worker. A round may be fixed: then
an epoch is rounds of so many items in all, the last one perhaps of fewer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.shapes.data_split import DataCost, bounds_s, least_epochs_s, split_items
from warren.solve.shapes.kinds import MachineKinds
from warren.solve.shapes.model_split import holding, nic_transfer_s, server_transfer_s, workers_C
from warren.solve.shapes.published_split import (
    corner_splits,
    published_transfer_s,
    split_for,
)

MOST_CASES: Final = 1_000_000
MOST_CORNERED: Final = 4
"""So many kinds may there be by ``published``: with more a case has too many corners."""
_AT_ONCE: Final = 256
_FROM: Final = 16
"""From so many corners of a case, the best ones, other splits are tried."""
_NEAR: Final = 1e-4
"""Nothing better is looked for than what is so near its bound."""
_EQUAL: Final = 1e-12
"""Epochs that differ by this part are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """What an epoch of a job consists of, as Cruise's Figure 3.2 has it.

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
        """Return what all workers end together, and how often: an epoch, or its rounds."""
        if self.round_items is None:
            return ((self.items, 1),)
        full, rest = divmod(self.items, self.round_items)
        return tuple(one for one in ((self.round_items, full), (rest, 1)) if all(one))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShape:
    """The best shape: how many of each kind serve, ``machines_K`` work, and what each has.

    ``items``: of each worker, by kind; ``server_bytes_K``: of each server of a kind that holds
    something, ``holding_K`` of them.
    """

    servers_K: IntArray
    machines_K: IntArray
    items: tuple[IntArray, ...]
    server_bytes_K: FloatArray
    holding_K: IntArray
    epoch_s: float


def best_shape(
    kinds: MachineKinds,
    epoch: Epoch,
    working: int | None = None,
    servers_K: IntArray | None = None,
) -> KindShape:
    """Find the shape of the shortest epoch; of equal ones the one with fewest workers.

    ``working``: among those in which so many machines work. ``servers_K``: among those in which so
    many of each kind serve.

    Raises
    ------
    ValueError
        If no machine works beside one that serves, or there are more cases than ``MOST_CASES``, or
        by ``published`` more kinds than ``MOST_CORNERED``.
    """
    if problem := refused(kinds, epoch.reading):
        raise ValueError(problem)
    servers_CK = kinds.servers_CK()
    if servers_K is not None:
        servers_CK = servers_CK[(servers_CK == servers_K).all(axis=1)]
    if working is not None:
        servers_CK = servers_CK[servers_CK.sum(axis=1) == kinds.count_K.sum() - working]
    if not len(servers_CK):
        raise ValueError(f"there is no shape in which {working or 'such'} machines work")
    cost = _cost(kinds, epoch, servers_CK)
    if epoch.reading == "published":
        return _published(kinds, epoch, servers_CK, _epochs_s(cost, epoch))
    case = _least_case(cost, epoch, workers_C(kinds, servers_CK))
    serving_K = holding_K = servers_CK[case]
    if epoch.reading == "server":
        holding_K = holding(kinds, serving_K[None])[0]
    bytes_K = epoch.model_bytes * kinds.rate_K / float((holding_K * kinds.rate_K).sum())
    return _shape(kinds, epoch, serving_K, bytes_K * (holding_K > 0), holding_K, cost.cases([case]))


def refused(kinds: MachineKinds, reading: str) -> str:
    """Return why the best shape on these machines cannot be found; empty if it can."""
    works = int(kinds.count_K[kinds.works_K].sum())
    if not works or kinds.count_K.sum() < 2:
        return "a worker and a server need two machines, of which one computes"
    if kinds.case_count > MOST_CASES:
        return (
            f"{len(kinds.count_K)} kinds of machines have {kinds.case_count} ways to serve; "
            f"allowed: {MOST_CASES}"
        )
    if reading == "published" and len(kinds.count_K) > MOST_CORNERED:
        return f"{len(kinds.count_K)} kinds of machines; allowed by published: {MOST_CORNERED}"
    return ""


def _cost(kinds: MachineKinds, epoch: Epoch, servers_CK: IntArray) -> DataCost:
    """Return what data costs workers in each case, the model split as well as can be.

    Of ``published`` what ``nic`` says of machines that are one worker each, which is no more:
    min(b_i, b_j) is neither above b_j, in the first term, nor above b_i, in the second.
    """
    transfer_s = server_transfer_s if epoch.reading == "server" else nic_transfer_s
    told = kinds
    if epoch.reading == "published":
        told = replace(kinds, devices_K=np.ones_like(kinds.devices_K))
    return _data_cost(kinds, epoch, servers_CK, transfer_s(told, servers_CK, epoch.model_bytes))


def _data_cost(
    kinds: MachineKinds, epoch: Epoch, servers_CK: IntArray, transfer_s_CK: FloatArray
) -> DataCost:
    """Return what data costs workers whose transfers take so long."""
    return DataCost(
        (kinds.count_K - servers_CK) * kinds.devices_K,
        # Who cannot work has no items, whatever one would take.
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
    """Return what no epoch is below, of each case."""
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
    kinds: MachineKinds, epoch: Epoch, servers_CK: IntArray, bound_s_C: FloatArray
) -> KindShape:
    """Find the best shape by ``published``: cases by their bounds, each with all its corners."""
    best_s, fewest, best = math.inf, 0, None
    for case in np.argsort(bound_s_C, kind="stable").tolist():
        if bound_s_C[case] > best_s * (1 + _EQUAL):
            break
        servers_K = servers_CK[case]
        workers = int(workers_C(kinds, servers_K[None])[0])
        corners_GK = corner_splits(kinds, servers_K, epoch.model_bytes)
        cost = _split_cost(kinds, epoch, servers_K, corners_GK)
        # A corner is the best where all may be cut, so no split of this case is below that.
        bound_s = float(_bounds_s(cost, epoch).min())
        if bound_s > best_s * (1 + _EQUAL):
            continue
        epoch_s_G = _epochs_s(cost, epoch)
        for corner in np.argsort(epoch_s_G, kind="stable")[:_FROM].tolist():
            split_K, epoch_s = corners_GK[corner], float(epoch_s_G[corner])
            if epoch_s > bound_s * (1 + _NEAR):
                split_K, epoch_s = _improved(kinds, epoch, servers_K, split_K, epoch_s)
            is_equal = epoch_s <= best_s * (1 + _EQUAL) and workers < fewest
            if epoch_s < best_s * (1 - _EQUAL) or is_equal:
                best_s, fewest, best = min(best_s, epoch_s), workers, (servers_K, split_K)
    assert best is not None, "there is a case"
    servers_K, split_K = best
    cost = _split_cost(kinds, epoch, servers_K, split_K[None])
    return _shape(kinds, epoch, servers_K, split_K, servers_K * (split_K > 0), cost)


def _split_cost(
    kinds: MachineKinds, epoch: Epoch, servers_K: IntArray, split_GK: FloatArray
) -> DataCost:
    """Return what data costs workers by ``published``, by each split of the model."""
    transfer_s_GK = published_transfer_s(kinds, servers_K, split_GK)
    return _data_cost(kinds, epoch, np.broadcast_to(servers_K, split_GK.shape), transfer_s_GK)


def _improved(
    kinds: MachineKinds, epoch: Epoch, servers_K: IntArray, split_K: FloatArray, epoch_s: float
) -> tuple[FloatArray, float]:
    """Go on from a split: the best for the items that workers have, then items by it, and so on.

    Of rounds the full ones count.
    """
    items, _ = epoch.rounds[0]
    while True:
        cost = _split_cost(kinds, epoch, servers_K, split_K[None])
        items_K = np.array([part.max(initial=0) for part in split_items(cost, items)])
        exchanges_K = epoch.ways * cost.batches(items_K)
        other_K = split_for(
            kinds, servers_K, epoch.model_bytes, cost.item_s_K * items_K, exchanges_K
        )
        other_s = float(_epochs_s(_split_cost(kinds, epoch, servers_K, other_K[None]), epoch)[0])
        if other_s >= epoch_s * (1 - _EQUAL):
            return split_K, epoch_s
        split_K, epoch_s = other_K, other_s


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
    )
