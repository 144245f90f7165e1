"""Max-min fair rates after a change: a sweep over levels that looks only at what changes.

*What.* Within a rank, rates are max-min fair if and only if two things hold: each flow has the
least level of its links, or its cap, and each link that limits a flow is full. Every flow then has
a bottleneck link (Bertsekas and Gallager, Data Networks, 6.5.2). Whether a link is full at level v
depends on levels below v alone: the flows it limits do not rise further, whatever their other links
would allow.

*How.* So levels are set right in ascending order, as Dijkstra's algorithm settles distances; for
changes, as Ramalingam and Reps (J. Algorithms 21, 1996) do it for shortest paths. A link whose
flows have changed waits in a heap by the level at which something happens to it:

- It would be overfull: it is *settled* at the lower level v at which it is full, and its flows
  above v come down to v. All that happens below v has happened, so this is final.
- It is not full any more: at its old level it is *raised* to the one at which it is full as its
  other links stand now, and the flows that it limited rise. Those links may still change, at
  levels above; then it is looked at again.
- It is full: nothing happens, and its flows are not looked at.

Flows that rise may overfill their other links, and flows that come down may leave them with more
than they use, all at levels no lower than the sweep's. The sweep ends: a link is settled at most
once, and is raised again only where one of its flows has come down. When nothing is left to look
at, each link holds what the condition above asks for, whatever the order was.

*Ranks* are swept in ascending order. To a rank, a link is the rest that lower ranks leave of it; if
that has not changed, nor the link's flows of this rank, the link is looked at only if the sweep
meets it.
"""

from __future__ import annotations

import numpy as np

from warren.solve.common.arrays import Float, Int, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import set_time, take_first
from warren.solve.flows.levels import NOTHING, TOLERANCE, fill, key, rounded
from warren.solve.flows.sharing_state import (
    CHANGE,
    CHANGED,
    SWEEP,
    TOUCHED,
    SharingState,
    enter,
    leave,
    most_level,
    note_changed,
    touch,
)


@kernel
def change_flows(
    state: SharingState, gone_N: IntArray, moved_N: IntArray, class_N: IntArray, new_N: IntArray
) -> int:
    """Remove flows, change classes and add flows, and update the rates of their links.

    Parameters
    ----------
    gone_N
        Flows that end.
    moved_N, class_N
        Flows that stay, with their class from now on.
    new_N
        Flows that begin; the columns of the state have their values, except for their share.

    Returns
    -------
    changed
        Number of flows with a changed rate; these are the first of ``changed_F``.
    """
    state.number[CHANGE] += 1
    state.number[TOUCHED] = 0
    state.number[CHANGED] = 0
    # Ranks below all that flows leave or enter keep their rates: later ranks do not count there.
    lowest = state.head_LR.shape[1]
    for place in range(len(gone_N)):
        rank = state.rank_K[state.class_F[gone_N[place]]]
        lowest = min(lowest, rank)
        leave(state, gone_N[place], rank)
    for place in range(len(moved_N)):
        flow = moved_N[place]
        left, taken = state.rank_K[state.class_F[flow]], state.rank_K[class_N[place]]
        lowest = min(lowest, left, taken)
        leave(state, flow, left)
        state.class_F[flow] = class_N[place]
        enter(state, flow, taken)
    for place in range(len(new_N)):
        rank = state.rank_K[state.class_F[new_N[place]]]
        lowest = min(lowest, rank)
        enter(state, new_N[place], rank)
    for rank in range(lowest, state.head_LR.shape[1]):
        _sweep(state, rank)
        _set_rates(state, rank)
        if rank + 1 < state.head_LR.shape[1]:
            _sum_loads(state, rank)
    changed: int = _really_changed(state)
    return changed


@kernel
def _sweep(state: SharingState, rank: Int) -> None:
    """Set the levels of one rank right, in ascending order."""
    state.number[SWEEP] += 1
    heap = state.heap
    for place in range(state.number[TOUCHED]):
        link = state.touched_L[place]
        if state.head_LR[link, rank] < 0:
            # A level of flows that have left must not limit the next flow that comes.
            state.level_LR[link, rank] = np.inf
            continue
        # New flows count from level 0 on, so nothing is known yet of where this link is full.
        state.stale_L[link] = True
        _wait(state, link, 0.0)
    level = 0.0  # all levels below are right
    while heap.count[0] > 0:
        link = heap.who_E[0]
        if state.stale_L[link]:
            # Its bound has come: look at the link again before anything is done.
            state.stale_L[link] = False
            due = _due(state, link, rank)
            if due < 0.0:
                take_first(heap)
            else:
                # Rounding alone can make it less than the level that was reached: that is a tie.
                _wait(state, link, max(due, level))
            continue
        take_first(heap)
        level = state.bound_L[link]
        if state.rises_L[link]:
            _raise(state, link, rank, level)
        else:
            _settle(state, link, rank, level)


@inlined
def _wait(state: SharingState, link: Int, bound: Float) -> None:
    """Make a link wait in the heap until the sweep reaches a level."""
    state.bound_L[link] = bound
    set_time(state.heap, link, key(bound))


@kernel
def _due(state: SharingState, link: Int, rank: Int) -> Float:
    """Return the level at which a link is raised or settled; -1 if it is right as it stands.

    Sets ``rises_L``.
    """
    room = _room(state, link, rank)
    tolerance = TOLERANCE * state.capacity_L[link]
    limits: Float = state.level_LR[link, rank]
    load = 0.0
    limited = 0.0
    flows = 0
    # load = sum_f a_f t_f; and the part of the shares a_f whose flows have the link's own level.
    cell = state.head_LR[link, rank]
    while cell >= 0:
        flow = state.flow_C[cell]
        state.most_N[flows] = state.level_F[flow]
        state.share_N[flows] = state.share_F[flow]
        load += state.share_F[flow] * state.level_F[flow]
        if state.level_F[flow] >= limits:
            limited += state.share_F[flow]
        flows += 1
        cell = state.next_C[cell]
    state.rises_L[link] = False
    # Counted at every look: flows that have left the list since the last one are in it no more.
    state.limited_LR[link, rank] = limited
    # If nothing is left, a rate of next to nothing is one too many.
    if load > room + tolerance or (room == 0.0 and load > 0.0):
        filled: Float = fill(state.most_N, state.share_N, flows, room)
        return filled
    if limits == np.inf:
        # Not full, and the limit of no flow; or full by chance with all its flows limited
        # elsewhere.
        state.spare_LR[link, rank] = room - load
        return -1.0
    if load >= room - tolerance:
        return -1.0
    state.rises_L[link] = True
    return limits


@inlined
def _room(state: SharingState, link: Int, rank: Int) -> Float:
    """Return the capacity that lower ranks leave of a link."""
    room: Float = state.capacity_L[link]
    for lower in range(rank):
        room -= state.load_LR[link, lower]
    if room <= NOTHING * state.capacity_L[link]:
        return 0.0
    return room


@kernel
def _raise(state: SharingState, link: Int, rank: Int, level: Float) -> None:
    """Raise a link that is not full at its level, and the flows that it limits."""
    limited_by = state.level_LR[link, rank]  # less than ``level`` by rounding alone
    _fill_anew(state, link, rank)
    limits = state.level_LR[link, rank]
    limited = 0.0
    place = 0
    cell = state.head_LR[link, rank]
    while cell >= 0:
        flow = state.flow_C[cell]
        cell = state.next_C[cell]
        most = min(state.most_N[place], limits)
        place += 1
        if most >= limits:
            limited += state.share_F[flow]
        before = state.level_F[flow]
        if before < limited_by or most <= before:
            continue
        note_changed(state, flow)
        state.level_F[flow] = most
        # Each other link carries a_f (t'_f - t_f) more. A settled one would limit the flow, so that
        # there is none here but by the rounding of a tie.
        first = state.first_F[flow]
        for other_cell in range(first, first + state.links_F[flow]):
            other = state.link_C[other_cell]
            if other != link and state.settled_L[other] != state.number[SWEEP]:
                _load_more(state, other, rank, level, state.share_F[flow] * (most - before))
    state.limited_LR[link, rank] = limited


@kernel
def _fill_anew(state: SharingState, link: Int, rank: Int) -> None:
    """Set a link's level to where it is full as its other links stand, infinite if there is none.

    Leaves in ``most_N`` the rate that each of its flows could have if this link did not limit it.
    """
    limited_by = state.level_LR[link, rank]
    state.level_LR[link, rank] = np.inf
    load = 0.0
    flows = 0
    cell = state.head_LR[link, rank]
    while cell >= 0:
        flow = state.flow_C[cell]
        most = state.level_F[flow]
        # Flows below the old level are limited elsewhere anyway.
        if most >= limited_by:
            most = most_level(state, flow, rank)
        state.most_N[flows] = most
        state.share_N[flows] = state.share_F[flow]
        load += state.share_F[flow] * most
        flows += 1
        cell = state.next_C[cell]
    # The fixed point v of sum_f a_f min(t_f, v) = room, if the link can be filled at all.
    room = _room(state, link, rank)
    if load > room + TOLERANCE * state.capacity_L[link]:
        state.level_LR[link, rank] = fill(state.most_N, state.share_N, flows, room)
    else:
        state.spare_LR[link, rank] = room - load


@inlined
def _load_more(state: SharingState, link: Int, rank: Int, level: Float, more: Float) -> None:
    """Schedule a look at a link in time: a flow of it has risen and takes ``more`` than before."""
    waits = state.heap.cell_N[link] >= 0
    limits = state.level_LR[link, rank]
    bound = level
    if limits == np.inf:
        # As long as all that flows have risen since the last look fits in, the link is not full.
        if not waits:
            state.spare_LR[link, rank] -= more
            if state.spare_LR[link, rank] >= 0.0:
                return
    else:
        # Where g(v) = sum_f a_f min(t_f, v) is the load at level v: it was at most the room at the
        # bound b, has grown by ``more`` at most, and has the slope ``limited`` at least below b.
        # So it is at most the room at b - more / limited. The margin is for the rounding of sums.
        limited = 0.999 * state.limited_LR[link, rank]
        if limited > 0.0:
            last = state.bound_L[link] if waits else limits
            bound = max(level, last - more / limited)
    state.stale_L[link] = True
    if not waits or bound < state.bound_L[link]:
        _wait(state, link, bound)


@kernel
def _settle(state: SharingState, link: Int, rank: Int, level: Float) -> None:
    """Fill a link at its final level: no flow of it rises above."""
    state.level_LR[link, rank] = level
    state.settled_L[link] = state.number[SWEEP]
    limited = 0.0
    cell = state.head_LR[link, rank]
    while cell >= 0:
        flow = state.flow_C[cell]
        cell = state.next_C[cell]
        before = state.level_F[flow]
        # Flows below the level have their bottleneck at a lower one, where all is final.
        if before < level:
            continue
        limited += state.share_F[flow]
        if before == level:
            continue
        note_changed(state, flow)
        state.level_F[flow] = level
        first = state.first_F[flow]
        for other_cell in range(first, first + state.links_F[flow]):
            other = state.link_C[other_cell]
            if state.settled_L[other] != state.number[SWEEP]:
                _load_less(state, other, rank, level, before, state.share_F[flow])
    state.limited_LR[link, rank] = limited


@inlined
def _load_less(
    state: SharingState, link: Int, rank: Int, level: Float, before: Float, share: Float
) -> None:
    """Schedule a look at a link at its level: a flow of it has come down from ``before``.

    Its level can only rise, so the event that it waits for, if any, comes no sooner. A link that
    limits no flow needs no look at all.
    """
    # The flow is not one of those any more that the link limits: its slope below b is less.
    limits = state.level_LR[link, rank]
    if limits < np.inf and before >= limits:
        state.limited_LR[link, rank] -= share
    if state.heap.cell_N[link] >= 0:
        state.stale_L[link] = True
    elif limits < np.inf:
        state.stale_L[link] = True
        _wait(state, link, max(level, limits))


@kernel
def _set_rates(state: SharingState, rank: Int) -> None:
    """Set the rates of the changed flows of a rank."""
    for place in range(state.number[CHANGED]):
        flow = state.changed_F[place]
        weight = state.weight_K[state.class_F[flow]]
        if state.rank_K[state.class_F[flow]] == rank:
            rate = min(state.cap_F[flow], weight * state.level_F[flow])
            state.rate_F[flow] = rounded(rate)


@kernel
def _sum_loads(state: SharingState, rank: Int) -> None:
    """Sum the loads of all links on which flows of a rank have changed, for the ranks after it."""
    # Those that a load adds to the touched ones on the way have been summed when it does.
    for place in range(state.number[TOUCHED]):
        _sum_load(state, state.touched_L[place], rank)
    for place in range(state.number[CHANGED]):
        flow = state.changed_F[place]
        if state.rank_K[state.class_F[flow]] != rank:
            continue
        first = state.first_F[flow]
        for cell in range(first, first + state.links_F[flow]):
            link = state.link_C[cell]
            if state.loaded_L[link] != state.number[SWEEP]:
                _sum_load(state, link, rank)


@kernel
def _sum_load(state: SharingState, link: Int, rank: Int) -> None:
    """Sum the load of a rank's flows on a link; touch it if the room of later ranks changes."""
    state.loaded_L[link] = state.number[SWEEP]
    load, cell = 0.0, state.head_LR[link, rank]
    while cell >= 0:
        flow = state.flow_C[cell]
        load += state.share_F[flow] * state.level_F[flow]
        cell = state.next_C[cell]
    change = abs(load - state.load_LR[link, rank])
    # A smaller change is not stored: many of them in a row cannot pass unseen by later ranks.
    if load == 0.0 or change > TOLERANCE * state.capacity_L[link]:
        state.load_LR[link, rank] = load
        touch(state, link)


@kernel
def _really_changed(state: SharingState) -> int:
    """Keep of the changed flows those whose rate differs from the rate before."""
    kept = 0
    for place in range(state.number[CHANGED]):
        flow = state.changed_F[place]
        if state.rate_F[flow] != state.before_F[flow]:
            state.changed_F[kept] = flow
            kept += 1
    return kept
