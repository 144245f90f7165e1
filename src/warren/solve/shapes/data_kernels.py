"""The least epoch of one case, as ``data_split`` has it, in machine code: for searches.

The formulas are those of ``data_split``, where they are proved; tests hold both together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel

_HALVINGS: Final = 60
_CLOSE: Final = 1e-12


class Rounds(NamedTuple):
    """Work of workers of K kinds: ``often_R`` times a round of ``items_R`` items in all.

    ``rate_of_K``: the place of a kind's rate among all rates of workers, whose times are T_pull.
    ``ways``: how often a mini-batch waits for one.
    """

    item_s_K: FloatArray
    rate_of_K: IntArray
    items_R: FloatArray
    often_R: FloatArray
    batch: float
    ways: float
    whole: bool


@kernel
def most_of(rounds: Rounds, kind: Int, transfer_s_A: FloatArray, until_s: Float) -> float:
    """Return the most items that a worker of a kind has done until then."""
    item_s, batch = rounds.item_s_K[kind], rounds.batch
    exchange_s = rounds.ways * transfer_s_A[rounds.rate_of_K[kind]]
    if not rounds.whole:
        return float(_floor(until_s / (item_s + exchange_s / batch)))
    batch_s = item_s * batch + exchange_s
    batches = _floor(until_s / batch_s)
    more = _floor((until_s - batches * batch_s - exchange_s) / item_s)
    return float(batches * batch + min(max(more, 0.0), batch))


@kernel
def exchanges_of(rounds: Rounds, items: Float) -> float:
    """Return how often a worker of ``items`` items waits for T_pull or T_push."""
    parts = items / rounds.batch
    return float(rounds.ways * (np.ceil(parts) if rounds.whole else parts))


@kernel
def done_items(
    rounds: Rounds, workers_K: IntArray, transfer_s_A: FloatArray, until_s: Float
) -> float:
    """Return the most items that all workers have done until then."""
    done = 0.0
    for kind in range(len(workers_K)):
        if workers_K[kind]:
            done += workers_K[kind] * most_of(rounds, kind, transfer_s_A, until_s)
    return done


@kernel
def least_round_s(
    rounds: Rounds, workers_K: IntArray, transfer_s_A: FloatArray, at: Int
) -> float:  # fmt: skip
    """Return how long one round takes at least."""
    items, high = rounds.items_R[at], np.inf
    for kind in range(len(workers_K)):
        if workers_K[kind]:
            alone = np.ceil(items / workers_K[kind])
            waits_s = exchanges_of(rounds, alone) * transfer_s_A[rounds.rate_of_K[kind]]
            high = min(high, rounds.item_s_K[kind] * alone + waits_s)
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if done_items(rounds, workers_K, transfer_s_A, middle) >= items:
            high = middle
        else:
            low = middle
    return float(high)


@kernel
def least_epoch_s(rounds: Rounds, workers_K: IntArray, transfer_s_A: FloatArray) -> float:
    """Return how long an epoch takes at least."""
    epoch_s = 0.0
    for at in range(len(rounds.items_R)):
        epoch_s += rounds.often_R[at] * least_round_s(rounds, workers_K, transfer_s_A, at)
    return epoch_s


@kernel
def first_round_until_s(
    rounds: Rounds, workers_K: IntArray, transfer_s_A: FloatArray, epoch_s: Float
) -> float:
    """Return the time left for a first round in an epoch of that length, the others at their least.

    The epoch can be as short just if all items of the first round are done in that time.
    """
    left_s = epoch_s
    for at in range(1, len(rounds.items_R)):
        left_s -= rounds.often_R[at] * least_round_s(rounds, workers_K, transfer_s_A, at)
    return float(left_s / rounds.often_R[0])


@kernel
def _floor(value: Float) -> float:
    """Round down, except for a value below a whole number by rounding alone."""
    return float(np.floor(value * (1 + _CLOSE) + _CLOSE))
