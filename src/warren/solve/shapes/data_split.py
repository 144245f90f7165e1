"""The split of data over workers of several kinds, so that the last of them ends soonest.

*What.* A worker of kind k takes ``item_s`` for an item and ``exchange_s`` for each mini-batch of
``batch`` items, the last of which may be smaller: (3.2) to (3.4) of Cruise. An epoch lasts until
the last worker has ended (3.1).

*Why it is exact.* The time of d items grows with d. So all end by T with D items in all just if the
workers' greatest d that end by T add up to D or more, and the least such T is the optimum. Of kind
k that greatest d is, with q = item_s batch + exchange_s and n = floor(T / q)::

    n batch + min(batch, max(0, floor((T - n q - exchange_s) / item_s)))

and floor(T / (item_s + exchange_s / batch)) where parts of a mini-batch cost a part, as in (3.5).
T is found by halving an interval, to the last bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray

_HALVINGS: Final = 60
_CLOSE: Final = 1e-12
"""Largest distance below a whole number at which a quotient counts as that number."""


class DataCost(NamedTuple):
    """Cost of data for workers of K kinds, in C cases: ``count_CK`` workers of each kind.

    ``exchange_s_CK``: one mini-batch's; ``whole``: whether a part of one costs as much.
    """

    count_CK: IntArray
    item_s_K: FloatArray
    exchange_s_CK: FloatArray
    batch: int
    whole: bool = True

    def cases(self, some: Sequence[int] | IntArray) -> DataCost:
        """Return some of the cases."""
        count_CK, exchange_s_CK = self.count_CK[some], self.exchange_s_CK[some]
        return self._replace(count_CK=count_CK, exchange_s_CK=exchange_s_CK)

    def time_s(self, items_CK: IntArray) -> FloatArray:
        """Return the time of these items for a worker of each kind; 0 for none."""
        batches_CK = self.batches(items_CK)
        time_CK: FloatArray = self.item_s_K * items_CK + batches_CK * self.exchange_s_CK
        return time_CK

    def batches(self, items: IntArray) -> FloatArray:
        """Return how many mini-batches these items cost."""
        parts: FloatArray = items / self.batch
        return np.ceil(parts) if self.whole else parts

    def most_items(self, until_s_C: FloatArray) -> FloatArray:
        """Return the most items that a worker of each kind has done until then (C, K)."""
        until_C1 = until_s_C[:, None]
        if not self.whole:
            return _floor(until_C1 / (self.item_s_K + self.exchange_s_CK / self.batch))
        batch_s_CK = self.item_s_K * self.batch + self.exchange_s_CK
        batches_CK = _floor(until_C1 / batch_s_CK)
        left_CK = until_C1 - batches_CK * batch_s_CK - self.exchange_s_CK
        more_CK = np.clip(_floor(left_CK / self.item_s_K), 0, self.batch)
        most_CK: FloatArray = batches_CK * self.batch + more_CK
        return most_CK


def bounds_s(cost: DataCost, items: int) -> FloatArray:
    """Compute a lower bound of epochs in each case (C,): data and mini-batches cut anywhere."""
    each_s_CK = cost.item_s_K + cost.exchange_s_CK / cost.batch
    bound_C: FloatArray = items / (cost.count_CK / each_s_CK).sum(axis=1)
    return bound_C


def least_epochs_s(cost: DataCost, items: int) -> FloatArray:
    """Compute how long an epoch of ``items`` items takes at least, in each case (C,).

    Each case has a worker.
    """
    # One kind alone, in equal parts: that many seconds are enough, and no more halving is needed.
    alone_CK = -(-items // np.maximum(1, cost.count_CK))
    enough_CK = np.where(cost.count_CK > 0, cost.time_s(alone_CK), np.inf)
    high_C: FloatArray = enough_CK.min(axis=1)
    if len(cost.item_s_K) == 1:
        return high_C
    low_C = np.zeros_like(high_C)
    for _ in range(_HALVINGS):
        middle_C = (low_C + high_C) / 2
        done_C = (cost.count_CK * cost.most_items(middle_C)).sum(axis=1) >= items
        high_C = np.where(done_C, middle_C, high_C)
        low_C = np.where(done_C, low_C, middle_C)
    return high_C


def split_items(cost: DataCost, items: int) -> list[IntArray]:
    """Split the items of the only case so that its epoch is the least: of each worker, by kind.

    Workers of a kind differ only because the total is just ``items``.
    """
    count_K, until_s_C = cost.count_CK[0], least_epochs_s(cost, items)
    most_K, more = np.zeros(len(count_K), dtype=np.int64), _CLOSE
    # By rounding a worker may get one item too few: then a moment later.
    while int((most_K * count_K).sum()) < items:
        most_C = np.where(count_K > 0, cost.most_items(until_s_C * (1 + more))[0], 0.0)
        most_K, more = most_C.astype(np.int64), 2 * more
    parts = [
        np.full(count, most, dtype=np.int64)
        for count, most in zip(count_K.tolist(), most_K.tolist(), strict=True)
    ]
    over = sum(int(part.sum()) for part in parts) - items
    for part in parts:
        # Evenly, as long as there are any: no worker takes longer for it.
        taken = min(over, int(part.sum()))
        if taken:
            even, one_more = divmod(int(part.sum()) - taken, len(part))
            part[:] = even
            part[:one_more] += 1
            over -= taken
    return parts


def _floor(value: FloatArray) -> FloatArray:
    """Round down, except for a value below a whole number by rounding alone."""
    down: FloatArray = np.floor(value * (1 + _CLOSE) + _CLOSE)
    return down
