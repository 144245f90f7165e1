"""Max-min fair rates of flows over links, from scratch, by progressive filling.

*Source.* Bertsekas and Gallager, Data Networks, 2nd edition, 6.5.2: all flows rise together; where
a link is full its flows stay, the others go on. The result is the only one in which each flow has
a *bottleneck link*: a full one on which no flow has a higher rate.

*Classes.* Ranks of classes are filled one after the other, each from the rest of the lower ones;
within a rank, flows rise in proportion to the weight of their class.

*How.* The links wait in a heap by a lower bound of the level at which they are full. It is the
level when they were last looked at: flows that stay elsewhere leave more to the others, so levels
only rise. The first one is looked at again; if it is still first, its flows stay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.heaps import IndexedHeap, new_indexed_heap, set_time, take_first
from warren.solve.flows.classes import FlowClasses
from warren.solve.flows.levels import NOTHING, key, rounded


class _Filling(NamedTuple):
    """Flows F over links L while they are filled.

    The links of flow f are in ``link_C`` from ``first_F[f]`` to ``first_F[f + 1]``, the flows of
    link l in ``flow_C`` from ``first_L[l]`` to ``first_L[l + 1]``. ``level_F`` is -1 for a flow
    that still rises. In the heap, L + f stands for the cap of flow f.
    """

    first_F: IntArray
    link_C: IntArray
    first_L: IntArray
    flow_C: IntArray
    rank_F: IntArray
    share_F: FloatArray
    most_F: FloatArray
    left_L: FloatArray
    level_F: FloatArray
    heap: IndexedHeap


def max_min(
    capacity_L: npt.ArrayLike,
    first_F: npt.ArrayLike,
    link_C: npt.ArrayLike,
    class_F: npt.ArrayLike,
    classes: FlowClasses,
    *,
    multiplicity_F: npt.ArrayLike = 1.0,
    cap_F: npt.ArrayLike = np.inf,
) -> FloatArray:
    """Return the max-min fair rate of each flow; of one of the flows where it stands for several.

    Parameters
    ----------
    capacity_L
        Bytes a second of each link, none negative.
    first_F, link_C
        The links of flow f, each once: ``link_C[first_F[f]:first_F[f + 1]]``.
    class_F
        The class of each flow.
    classes
        The sharing between classes.
    multiplicity_F
        How many equal flows each stands for, above 0; on a link it takes that multiple of its rate.
    cap_F
        The most that one of them takes, in bytes a second; may be infinite.

    Returns
    -------
    rate_F
        Bytes a second, rounded to 40 bits; infinite for a flow without link or cap.

    Raises
    ------
    ValueError
        If a flow crosses a link that does not exist.
    """
    capacity = np.array(capacity_L, dtype=np.float64)
    first, link = np.array(first_F, np.int64), np.array(link_C, np.int64)
    if len(link) and not 0 <= link.min() <= link.max() < len(capacity):
        raise ValueError("a flow crosses a link that does not exist")
    flows = len(first) - 1
    class_of = np.array(class_F, np.int64)
    weight_F = classes.weight_K[class_of]
    multiplicity = np.broadcast_to(np.asarray(multiplicity_F, np.float64), flows)
    cap = np.broadcast_to(np.asarray(cap_F, np.float64), flows)
    # The transposed incidence; the sort is stable, so the flows of a link ascend.
    flow_of_C = np.repeat(np.arange(flows, dtype=np.int64), np.diff(first))
    filling = _Filling(
        first_F=first,
        link_C=link,
        first_L=np.append(0, np.cumsum(np.bincount(link, minlength=len(capacity)))),
        flow_C=flow_of_C[np.argsort(link, kind="stable")],
        rank_F=classes.rank_K[class_of],
        share_F=multiplicity * weight_F,
        most_F=cap / weight_F,
        left_L=capacity.copy(),
        level_F=np.full(flows, -1.0),
        heap=new_indexed_heap(len(capacity) + flows),
    )
    for rank in range(classes.ranks):
        _fill_rank(filling, capacity, rank)
    rate_F: FloatArray = np.minimum(filling.level_F * weight_F, cap)
    _round_all(rate_F)
    return rate_F


@kernel
def _round_all(rate_F: FloatArray) -> None:
    """Round rates in place, so that equal ones are one number."""
    for flow in range(len(rate_F)):
        rate_F[flow] = rounded(rate_F[flow])


@kernel
def _fill_rank(filling: _Filling, capacity_L: FloatArray, rank: Int) -> None:
    """Raise the flows of a rank until all stay, and take their rates off their links."""
    heap, links = filling.heap, len(capacity_L)
    # The rounding rest of a link that lower ranks fill is nothing, not a small rate.
    for link in range(links):
        if filling.left_L[link] <= NOTHING * capacity_L[link]:
            filling.left_L[link] = 0.0
        level = _level(filling, link, rank)
        if level < np.inf:
            set_time(heap, link, key(level))
    for flow in range(len(filling.rank_F)):
        if filling.rank_F[flow] == rank and filling.most_F[flow] < np.inf:
            set_time(heap, links + flow, key(filling.most_F[flow]))
    # Then a_f t_f of each flow is not there for the ranks after this one.
    _raise_all(filling, links, rank)
    for flow in range(len(filling.rank_F)):
        if filling.rank_F[flow] != rank:
            continue
        if filling.level_F[flow] < 0.0:
            filling.level_F[flow] = np.inf  # neither a link nor a cap
        for cell in range(filling.first_F[flow], filling.first_F[flow + 1]):
            taken = filling.share_F[flow] * filling.level_F[flow]
            filling.left_L[filling.link_C[cell]] -= taken


@kernel
def _raise_all(filling: _Filling, links: Int, rank: Int) -> None:
    """Take links and caps by level; at each level the flows that are limited there stay."""
    heap, reached = filling.heap, 0.0
    while heap.count[0] > 0:
        first = heap.who_E[0]
        # The cap of a flow is like a link of its own that is full at the cap.
        if first >= links:
            take_first(heap)
            if filling.level_F[first - links] < 0.0:
                reached = filling.most_F[first - links]
                filling.level_F[first - links] = reached
            continue
        # The level only rises; if rounding makes it less, it is a tie with the level reached.
        level = max(_level(filling, first, rank), reached)
        if key(level) > heap.time_ns_N[first] and level < np.inf:
            set_time(heap, first, key(level))
            continue
        take_first(heap)
        if level == np.inf:
            continue
        # The link is the bottleneck of all its flows that still rise.
        reached = level
        for cell in range(filling.first_L[first], filling.first_L[first + 1]):
            flow = filling.flow_C[cell]
            if filling.rank_F[flow] == rank and filling.level_F[flow] < 0.0:
                filling.level_F[flow] = level


@kernel
def _level(filling: _Filling, link: Int, rank: Int) -> Float:
    """Return the level at which a link is full; infinite if no flow of the rank rises there::

    (left - sum of a_f t_f over flows that stay) / (sum of a_f over flows that rise)
    """
    left, rising = filling.left_L[link], 0.0
    for cell in range(filling.first_L[link], filling.first_L[link + 1]):
        flow = filling.flow_C[cell]
        if filling.rank_F[flow] != rank:
            continue
        if filling.level_F[flow] < 0.0:
            rising += filling.share_F[flow]
        else:
            left -= filling.share_F[flow] * filling.level_F[flow]
    if rising == 0.0:
        return np.inf
    level: Float = max(left, 0.0) / rising
    return level
