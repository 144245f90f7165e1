"""The best shape by ``published``: times of pulls are divided into boxes, with a proof.

*What.* Of all cases (servers of each kind), splits of the model and of the data the shortest epoch.
An epoch E(y) hangs on the times y of T_pull = T_push of workers of each rate alone, and never falls
where one of them rises; y can be had if ``published_split.holds`` says so.

*How.* In each case y lies in a box. Of all rates but the last, y is between ``low`` and ``high``;
the last one is then at least h(high), the least with which a split holds ``high``, since h falls
where others rise. So no epoch of the box is below E(low, h(high)), and (high, h(high)) can be had.
A box whose bound is not below the best epoch known, by a part of ``PROVED``, is left out. In others
each kind has items left to do where all others do the most that they can, at (low, h(high)), and so
waits no longer than some y: ``high`` is lowered to that (``_lower_ends``). Then they are halved,
across the rate whose items differ most between both corners. For one rate alone there is nothing to
divide. Epochs are compared not by E but by whether all items are done by that time, which is one
step where E is sixty.

*A better one* is improved at once: the least T at which a split lets all workers end with the items
that they have, the items by that split, and so on (``_improved``).

*Why it is exact.* Boxes of a case hold all y that matter, and only a bound leaves one out. So no
shape is better by a part of ``PROVED``, if boxes end before ``MOST_BOXES`` have been looked at.
Else boxes that were not looked at count with their bound, which is returned (``bound_s``). Ties: of
cases whose epochs differ by less than ``_EQUAL`` the case with fewest workers is taken.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.shapes.data_kernels import (
    Rounds,
    done_items,
    exchanges_of,
    first_round_until_s,
    least_epoch_s,
    most_of,
)
from warren.solve.shapes.published_split import holds

PROVED: Final = 1e-9
"""No shape is better than the one found by more than this part, where the search has ended."""
MOST_BOXES: Final = 1_000_000
_EQUAL: Final = 1e-11
"""Epochs of two cases that differ by this part are equal: a little more than by rounding."""
_ROUNDING: Final = 1e-12
_HALVINGS: Final = 60
_DEEPEST: Final = 1000
"""Most boxes that wait: each waits beside a box that was halved."""


class ServerCases(NamedTuple):
    """All C cases on machines of K kinds, by rising rate, of which workers have A rates.

    ``least_CA``, ``most_CA``: limits of T_pull of workers. Cases are in the order of ``bound_C``,
    which no epoch is below. ``servers_CK``: machines; ``workers_CK``: devices.
    """

    rate_K: FloatArray
    rate_A: FloatArray
    servers_CK: IntArray
    workers_CK: IntArray
    least_CA: FloatArray
    most_CA: FloatArray
    bound_C: FloatArray
    model_bytes: float


class _Search(NamedTuple):
    """The results of a search, and the boxes that wait.

    ``best``: epoch of the best; bound of the boxes left out without a look; the least epoch, below
    that of the best if an equal one has fewer workers. ``counts``: case of the best, workers in it,
    number of boxes looked at. ``other_A``, ``held_K`` and ``items_K`` are for sums.
    """

    best: FloatArray
    counts: IntArray
    best_A: FloatArray
    low_DA: FloatArray
    high_DA: FloatArray
    other_A: FloatArray
    held_K: FloatArray
    items_K: FloatArray


class PublishedShape(NamedTuple):
    """The case of the best shape, bytes of each server of a kind (K,), and a bound of all epochs.

    ``bound_s`` is no more than the epoch, and ``PROVED`` below it where the search has ended.
    """

    case: int
    split_K: FloatArray
    bound_s: float


def published_shape(
    cases: ServerCases, rounds: Rounds, most_boxes: int = MOST_BOXES
) -> PublishedShape:
    """Find the shape of the shortest epoch; of equal ones the one with fewest workers."""
    kinds, rates = len(cases.rate_K), len(cases.rate_A)
    search = _Search(
        best=np.full(3, np.inf),
        counts=np.zeros(3, np.int64),
        best_A=np.zeros(rates),
        low_DA=np.zeros((_DEEPEST, rates)),
        high_DA=np.zeros((_DEEPEST, rates)),
        other_A=np.zeros(rates),
        held_K=np.zeros(kinds),
        items_K=np.zeros(kinds),
    )
    _search_all(cases, rounds, search, most_boxes)
    case = int(search.counts[0])
    _holds(cases, case, search.best_A, search.held_K)
    held_K, servers_K = search.held_K, cases.servers_CK[case]
    split_K: FloatArray = held_K * (cases.model_bytes / float((held_K * servers_K).sum()))
    _, left_s, least_s = search.best.tolist()
    return PublishedShape(case, split_K, min(least_s * (1 - PROVED), left_s))


@kernel
def _search_all(cases: ServerCases, rounds: Rounds, search: _Search, most_boxes: Int) -> None:
    """Look at all cases that may be better than the best known."""
    for case in range(len(cases.bound_C)):
        if cases.bound_C[case] > search.best[2] * (1 + _EQUAL):
            break
        if search.best[0] < np.inf:
            aim_s = _aim_s(cases, search, case)
            if not _may_be(cases, rounds, case, cases.least_CA[case], aim_s):
                continue
        _search_case(cases, rounds, search, case, most_boxes)


@kernel
def _search_case(
    cases: ServerCases, rounds: Rounds, search: _Search, case: Int, most_boxes: Int
) -> None:
    """Look at all boxes of a case, halving those that may have a better epoch."""
    last, low_DA, high_DA = len(cases.rate_A) - 1, search.low_DA, search.high_DA
    _set(low_DA[0], cases.least_CA[case])
    _set(high_DA[0], cases.most_CA[case])
    waiting = 1 if _set_last(cases, search, case, high_DA[0]) else 0
    while waiting:
        waiting -= 1
        low_A, high_A = low_DA[waiting], high_DA[waiting]
        low_A[last] = high_A[last]
        aim_s = _aim_s(cases, search, case)
        if not _may_be(cases, rounds, case, low_A, aim_s):
            continue
        if not _lower_ends(cases, rounds, search, case, low_A, high_A, aim_s):
            continue
        if _may_be(cases, rounds, case, high_A, aim_s):
            _take(cases, rounds, search, case, high_A)
            # Not once more with lower ends: they might creep, an item at a time.
            aim_s = _aim_s(cases, search, case)
            if not _may_be(cases, rounds, case, low_A, aim_s):
                continue
        search.counts[2] += 1
        if search.counts[2] > most_boxes or waiting + 2 >= _DEEPEST:
            bound_s = least_epoch_s(rounds, cases.workers_CK[case], low_A)
            search.best[1] = min(search.best[1], bound_s)
            continue
        waiting += _halve(cases, rounds, search, case, waiting, aim_s)


@kernel
def _lower_ends(
    cases: ServerCases, rounds: Rounds, search: _Search, case: Int, low_A: FloatArray,
    high_A: FloatArray, aim_s: Float,
) -> bool:  # fmt: skip
    """Lower the upper ends of a box by an epoch as short; return whether a split is left."""
    if aim_s == np.inf:
        return True
    workers_K, last = cases.workers_CK[case], len(low_A) - 1
    until_s = first_round_until_s(rounds, workers_K, low_A, aim_s)
    over = done_items(rounds, workers_K, low_A, until_s) - rounds.items_R[0]
    last_s, lower = np.inf, False
    for kind in range(len(workers_K)):
        if workers_K[kind] == 0:
            continue
        # All others do as much as they can: the rest of the items is left to each of this kind.
        fewest = most_of(rounds, kind, low_A, until_s) - np.floor(over / workers_K[kind])
        if fewest <= 0:
            continue
        waits_s = (until_s - fewest * rounds.item_s_K[kind]) / exchanges_of(rounds, fewest)
        at = rounds.rate_of_K[kind]
        if at == last:
            last_s = min(last_s, waits_s)
        elif waits_s < high_A[at]:
            high_A[at], lower = waits_s, True
    if lower and not _set_last(cases, search, case, high_A):
        return False
    low_A[last] = high_A[last]
    return bool(high_A[last] <= last_s)


@kernel
def _halve(
    cases: ServerCases, rounds: Rounds, search: _Search, case: Int, box: Int, aim_s: Float
) -> int:
    """Put both halves of a box in its place, the better one last; return how many there are."""
    workers_K, last = cases.workers_CK[case], len(cases.rate_A) - 1
    low_A, high_A = search.low_DA[box], search.high_DA[box]
    at = _across(rounds, workers_K, low_A, high_A, aim_s)
    if at < 0:
        return 0
    middle = (low_A[at] + high_A[at]) / 2
    # The lower half has other ends, so its last time is another; the upper one's is as it was.
    lower = box + 1
    _set(search.low_DA[lower], low_A)
    _set(search.high_DA[lower], high_A)
    search.high_DA[lower, at] = middle
    low_A[at] = middle
    if not _set_last(cases, search, case, search.high_DA[lower]):
        return 1
    search.low_DA[lower, last] = search.high_DA[lower, last]
    upper_done = done_items(rounds, workers_K, low_A, aim_s)
    if done_items(rounds, workers_K, search.low_DA[lower], aim_s) < upper_done:
        for rate in range(last + 1):
            held = low_A[rate], high_A[rate]
            low_A[rate], high_A[rate] = search.low_DA[lower, rate], search.high_DA[lower, rate]
            search.low_DA[lower, rate], search.high_DA[lower, rate] = held
    return 2


@kernel
def _across(
    rounds: Rounds, workers_K: IntArray, low_A: FloatArray, high_A: FloatArray, until_s: Float
) -> int:
    """Return the rate, but for the last, whose items differ most; -1 if no time can be halved."""
    most, across = -1.0, -1
    for at in range(len(low_A) - 1):
        if high_A[at] - low_A[at] <= _ROUNDING * low_A[at]:
            continue
        # A small part of the width decides where no items differ.
        differ = (high_A[at] - low_A[at]) / high_A[at] / 2
        for kind in range(len(workers_K)):
            if workers_K[kind] and rounds.rate_of_K[kind] == at:
                most_items = most_of(rounds, kind, low_A, until_s)
                differ += workers_K[kind] * (most_items - most_of(rounds, kind, high_A, until_s))
        if differ > most:
            most, across = differ, at
    return across


@kernel
def _take(
    cases: ServerCases, rounds: Rounds, search: _Search, case: Int, transfer_s_A: FloatArray
) -> None:
    """Take times that can be had and are better than the best known; go on from them."""
    workers_K = cases.workers_CK[case]
    search.best[0] = least_epoch_s(rounds, workers_K, transfer_s_A)
    _set(search.best_A, transfer_s_A)
    search.counts[0], search.counts[1] = case, workers_K.sum()
    while True:
        _set_improved(cases, rounds, search, case)
        epoch_s = least_epoch_s(rounds, workers_K, search.other_A)
        if epoch_s >= search.best[0] * (1 - _ROUNDING):
            break
        search.best[0] = epoch_s
        _set(search.best_A, search.other_A)
    search.best[2] = min(search.best[2], search.best[0])


@kernel
def _set_improved(cases: ServerCases, rounds: Rounds, search: _Search, case: Int) -> None:
    """Set ``other_A`` to the times at which the items of the best shape end soonest.

    The first of the rounds count.
    """
    workers_K, items_K = cases.workers_CK[case], search.items_K
    high = first_round_until_s(rounds, workers_K, search.best_A, search.best[0])
    over = -rounds.items_R[0]
    for kind in range(len(workers_K)):
        items_K[kind] = most_of(rounds, kind, search.best_A, high) if workers_K[kind] else 0.0
        over += workers_K[kind] * items_K[kind]
    for kind in range(len(workers_K)):
        if workers_K[kind] and over >= workers_K[kind]:
            fewer = min(items_K[kind], np.floor(over / workers_K[kind]))
            items_K[kind] -= fewer
            over -= fewer * workers_K[kind]
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        _set_times(cases, rounds, search, case, middle)
        if _holds(cases, case, search.other_A, search.held_K):
            high = middle
        else:
            low = middle
    _set_times(cases, rounds, search, case, high)
    if not _holds(cases, case, search.other_A, search.held_K):
        _set(search.other_A, search.best_A)


@kernel
def _set_times(
    cases: ServerCases, rounds: Rounds, search: _Search, case: Int, until_s: Float
) -> None:
    """Set ``other_A`` to how long workers may wait if they are to end their items by then."""
    _set(search.other_A, cases.most_CA[case])
    for kind in range(len(search.items_K)):
        items, at = search.items_K[kind], rounds.rate_of_K[kind]
        if items > 0:
            waits_s = (until_s - items * rounds.item_s_K[kind]) / exchanges_of(rounds, items)
            search.other_A[at] = min(search.other_A[at], max(waits_s, 0.0))


@kernel
def _set_last(cases: ServerCases, search: _Search, case: Int, transfer_s_A: FloatArray) -> bool:
    """Set the last rate's time to the least that can be had with the others; return if there is."""
    last = len(transfer_s_A) - 1
    low, high = cases.least_CA[case, last], cases.most_CA[case, last]
    transfer_s_A[last] = low
    if _holds(cases, case, transfer_s_A, search.held_K):
        return True
    transfer_s_A[last] = high
    if not _holds(cases, case, transfer_s_A, search.held_K):
        return False
    for _ in range(_HALVINGS):
        transfer_s_A[last] = (low + high) / 2
        if _holds(cases, case, transfer_s_A, search.held_K):
            high = transfer_s_A[last]
        else:
            low = transfer_s_A[last]
    transfer_s_A[last] = high
    return True


@kernel
def _aim_s(cases: ServerCases, search: _Search, case: Int) -> float:
    """Return the epoch time that this case must reach to be taken in place of the best."""
    fewer = cases.workers_CK[case].sum() < search.counts[1]
    return float(search.best[2] * (1 + _EQUAL if fewer else 1 - PROVED))


@kernel
def _may_be(
    cases: ServerCases, rounds: Rounds, case: Int, transfer_s_A: FloatArray, epoch_s: Float
) -> bool:
    """Return whether an epoch may be as short, if workers wait as long."""
    if epoch_s == np.inf:
        return True
    workers_K = cases.workers_CK[case]
    until_s = first_round_until_s(rounds, workers_K, transfer_s_A, epoch_s)
    if until_s < 0.0:
        return False
    return bool(done_items(rounds, workers_K, transfer_s_A, until_s) >= rounds.items_R[0])


@kernel
def _set(into_A: FloatArray, from_A: FloatArray) -> None:
    """Set a row to another."""
    for at in range(len(into_A)):
        into_A[at] = from_A[at]


@kernel
def _holds(cases: ServerCases, case: Int, transfer_s_A: FloatArray, held_K: FloatArray) -> bool:
    """Return whether a split of the model lets workers wait at most ``transfer_s_A``."""
    is_held: bool = holds(
        cases.rate_K, cases.rate_A, cases.servers_CK[case], cases.workers_CK[case].sum(),
        cases.model_bytes, transfer_s_A, held_K,
    )  # fmt: skip
    return is_held
