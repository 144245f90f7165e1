"""Flows that share links, as arrays that are kept from one change to the next.

Flows of a link are in one list a rank. A list is doubly linked over *cells*, one for each link of
each flow, so that a flow comes and goes in the number of its links.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, Float, FloatArray, Int, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import IndexedHeap, new_indexed_heap
from warren.solve.flows.classes import FlowClasses


class SharingState(NamedTuple):
    """Flows F over links L in classes K of ranks R; cells C.

    Flow f has the cells ``first_F[f]`` to ``first_F[f] + links_F[f]``. Rates in bytes a second; a
    level is the rate of a flow of weight 1.

    Between changes, ``level_F`` is the least of the flow's cap and of ``level_LR`` over its links,
    and ``load_LR`` the sum of share times level over the flows of a link; see ``level_sweep``.
    """

    capacity_L: FloatArray
    rank_K: IntArray
    weight_K: FloatArray

    first_F: IntArray
    links_F: IntArray
    class_F: IntArray
    multiplicity_F: FloatArray
    cap_F: FloatArray
    share_F: FloatArray  # multiplicity times the weight of the class
    level_F: FloatArray
    rate_F: FloatArray

    link_C: IntArray
    flow_C: IntArray
    next_C: IntArray  # the next cell of the same link and rank, -1 after the last
    before_C: IntArray
    head_LR: IntArray  # the first cell, -1 for none
    level_LR: FloatArray  # infinite where the link limits no flow
    load_LR: FloatArray  # not summed for the last rank, after which none comes
    spare_LR: FloatArray  # the rest of a link that limits no flow, at least
    limited_LR: FloatArray  # the shares of the flows that a link limits, at least

    # The rest is of one change or one sweep, and means nothing between.
    heap: IndexedHeap  # links that may have another level
    bound_L: FloatArray  # the level it waits for; where it is not stale, its level happens there
    rises_L: BoolArray  # the link is raised there, not settled
    stale_L: BoolArray  # flows of the link have changed since ``bound_L`` was computed
    settled_L: IntArray  # the sweep in which the link was settled last
    loaded_L: IntArray  # the sweep in which the link's load was summed last
    touched_L: IntArray  # links whose flows or room in later ranks have changed
    touched_in_L: IntArray  # the change in which the link was touched last
    changed_F: IntArray  # flows whose level has changed
    changed_in_F: IntArray  # the change in which the flow did so last
    before_F: FloatArray  # its rate before
    most_N: FloatArray  # of the flows of one link, for ``levels.fill``
    share_N: FloatArray
    number: Any  # IntArray: CHANGE, SWEEP, TOUCHED, CHANGED


CHANGE = 0
"""Cell of ``number``: how many changes there were."""
SWEEP = 1
"""Cell of ``number``: how many sweeps there were."""
TOUCHED = 2
"""Cell of ``number``: how many entries of ``touched_L`` are in use."""
CHANGED = 3
"""Cell of ``number``: how many entries of ``changed_F`` are in use."""


def new_sharing_state(
    capacity_L: FloatArray, classes: FlowClasses, flows: int, cells: int
) -> SharingState:
    """Make a state without flows, with room for ``flows`` flows and ``cells`` cells."""
    links = len(capacity_L)
    shape = (links, classes.ranks)
    return SharingState(
        capacity_L=capacity_L.astype(np.float64),
        rank_K=classes.rank_K.astype(np.int64),
        weight_K=classes.weight_K.astype(np.float64),
        first_F=np.zeros(flows, np.int64),
        links_F=np.full(flows, -1, np.int64),
        class_F=np.zeros(flows, np.int64),
        multiplicity_F=np.ones(flows),
        cap_F=np.full(flows, np.inf),
        share_F=np.ones(flows),
        level_F=np.zeros(flows),
        rate_F=np.zeros(flows),
        link_C=np.zeros(cells, np.int64),
        flow_C=np.zeros(cells, np.int64),
        next_C=np.full(cells, -1, np.int64),
        before_C=np.full(cells, -1, np.int64),
        head_LR=np.full(shape, -1, np.int64),
        level_LR=np.full(shape, np.inf),
        load_LR=np.zeros(shape),
        spare_LR=np.zeros(shape),
        limited_LR=np.zeros(shape),
        heap=new_indexed_heap(links),
        bound_L=np.zeros(links),
        rises_L=np.zeros(links, np.bool_),
        stale_L=np.zeros(links, np.bool_),
        settled_L=np.zeros(links, np.int64),
        loaded_L=np.zeros(links, np.int64),
        touched_L=np.zeros(links, np.int64),
        touched_in_L=np.zeros(links, np.int64),
        changed_F=np.zeros(flows, np.int64),
        changed_in_F=np.zeros(flows, np.int64),
        before_F=np.zeros(flows),
        most_N=np.zeros(flows),
        share_N=np.zeros(flows),
        number=np.zeros(4, np.int64),
    )


_OF_FLOWS = ("most_N", "share_N")
_OF_CELLS = ("link_C", "flow_C", "next_C", "before_C")


def with_room(state: SharingState, flows: int, cells: int) -> SharingState:
    """Return the state with room for ``flows`` flows and ``cells`` cells, no fewer than before."""
    fresh: dict[str, Any] = {}
    of_flows = [name for name in state._fields if name.endswith("_F")]
    for name in [*of_flows, *_OF_FLOWS, *_OF_CELLS]:
        old = getattr(state, name)
        more = (cells if name in _OF_CELLS else flows) - len(old)
        # A slot without a flow has -1 links.
        filler = np.full(more, -1 if name == "links_F" else 0, old.dtype)
        fresh[name] = np.concatenate((old, filler))
    return state._replace(**fresh)


@inlined
def most_level(state: SharingState, flow: Int, rank: Int) -> Float:
    """Return the least of the flow's cap and of the levels of its links."""
    first = state.first_F[flow]
    least: Float = state.cap_F[flow] / state.weight_K[state.class_F[flow]]
    for cell in range(first, first + state.links_F[flow]):
        least = min(least, state.level_LR[state.link_C[cell], rank])
    return least


@kernel
def touch(state: SharingState, link: Int) -> None:
    """Note a link whose flows, or whose room for later ranks, have changed."""
    if state.touched_in_L[link] != state.number[CHANGE]:
        state.touched_in_L[link] = state.number[CHANGE]
        state.touched_L[state.number[TOUCHED]] = link
        state.number[TOUCHED] += 1


@inlined
def note_changed(state: SharingState, flow: Int) -> None:
    """Note a flow whose level changes, with the rate that it had before."""
    if state.changed_in_F[flow] != state.number[CHANGE]:
        state.changed_in_F[flow] = state.number[CHANGE]
        state.before_F[flow] = state.rate_F[flow]
        state.changed_F[state.number[CHANGED]] = flow
        state.number[CHANGED] += 1


@kernel
def enter(state: SharingState, flow: Int, rank: Int) -> None:
    """Put a flow in front of the lists of its links, at the level that these have."""
    first = state.first_F[flow]
    state.share_F[flow] = state.multiplicity_F[flow] * state.weight_K[state.class_F[flow]]
    for cell in range(first, first + state.links_F[flow]):
        link = state.link_C[cell]
        after = state.head_LR[link, rank]
        state.next_C[cell] = after
        state.before_C[cell] = -1
        if after >= 0:
            state.before_C[after] = cell
        state.head_LR[link, rank] = cell
        touch(state, link)
    note_changed(state, flow)
    state.level_F[flow] = most_level(state, flow, rank)


@kernel
def leave(state: SharingState, flow: Int, rank: Int) -> None:
    """Take a flow out of the lists of its links."""
    first = state.first_F[flow]
    for cell in range(first, first + state.links_F[flow]):
        link, after, before = state.link_C[cell], state.next_C[cell], state.before_C[cell]
        if after >= 0:
            state.before_C[after] = before
        if before >= 0:
            state.next_C[before] = after
        else:
            state.head_LR[link, rank] = after
        touch(state, link)
