"""Flows of given sizes over shared links: when each ends, after every change of their rates.

A flow sends at its rate of ``LinkSharing`` until that changes. All changes of one instant are
shared in one call of compiled code, which also moves the ends of all flows whose rates have
changed. Times are whole nanoseconds: the end of a flow is rounded to the nearest one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import IndexedHeap, new_indexed_heap, set_time, take_first
from warren.solve.flows.classes import FlowClasses
from warren.solve.flows.level_sweep import change_flows
from warren.solve.flows.link_sharing import LinkSharing, NewFlow
from warren.solve.flows.sharing_state import SharingState

NO_END_NS: Final = 2**62
"""The end of a flow that has no rate."""
_NS_PER_S: Final = 1e9
_NO_FLOWS: Final = np.zeros(0, np.int64)
_LEAST_ROOM: Final = 2**14
INTERVALS: Final = 0
"""Cell of ``FlowEnds.count``: how many intervals are noted."""
LINKS: Final = 1
"""Cell of ``FlowEnds.count``: how many links of theirs are."""


class FlowEnds(NamedTuple):
    """Remaining bytes of flows F, and the intervals I, with links N, in which bytes have passed.

    Flow f had ``left_F[f]`` bytes left at ``since_ns_F[f]``, and sends ``byte_rate_F[f]`` a second
    since; ``heap`` has its end. Interval i: ``what_I5[i]`` has the flow's owner, its class, begin,
    end and number of links. Without room for any, no intervals are noted.
    """

    left_F: FloatArray
    byte_rate_F: FloatArray
    since_ns_F: IntArray
    owner_F: IntArray
    heap: IndexedHeap
    what_I5: IntArray
    bytes_I: FloatArray
    link_N: IntArray
    count: Any  # IntArray: INTERVALS, LINKS


class Passed(NamedTuple):
    """Intervals in which bytes have passed: see ``FlowEnds``."""

    what_I5: IntArray
    bytes_I: FloatArray
    link_N: IntArray


class TimedFlows:
    """Flows that begin, change class and end at given times.

    Parameters
    ----------
    capacity_L, classes
        As for ``LinkSharing``, which also lists the refused values.
    notes
        Whether intervals in which bytes pass are noted.
    """

    __slots__ = ("_ends", "_gone", "_moved", "_new", "_notes", "_sharing", "next_ns")

    def __init__(self, capacity_L: npt.ArrayLike, classes: FlowClasses, *, notes: bool) -> None:
        self._sharing = LinkSharing(capacity_L, classes)
        self._notes = notes
        self._ends = _new_ends(self._sharing.state, notes)
        self._gone: list[int] = []
        self._moved: list[tuple[int, int]] = []
        self._new: list[int] = []
        self.next_ns = NO_END_NS
        """When a flow ends first."""

    @property
    def has_changes(self) -> bool:
        """Tell whether something has changed since the links were shared last."""
        return bool(self._new or self._gone or self._moved)

    def begin(self, flow: NewFlow, byte_count: float, owner: int, now: int) -> int:
        """Begin a flow now; return its number.

        ``owner``: the owner of its bytes, for ``passed``.
        """
        number = self._sharing.place(flow)
        if len(self._sharing.state.rate_F) > len(self._ends.left_F):
            self._ends = _with_room(self._ends, len(self._sharing.state.rate_F))
        ends = self._ends
        ends.left_F[number] = byte_count
        ends.byte_rate_F[number] = 0.0
        ends.since_ns_F[number] = now
        ends.owner_F[number] = owner
        self._new.append(number)
        return number

    def go_on(self, number: int, byte_rate: float, since_ns: int, end_ns: int) -> None:
        """Take over a flow that has sent at this rate since then, to end at this time so far."""
        self._ends.byte_rate_F[number] = byte_rate
        self._ends.since_ns_F[number] = since_ns
        set_time(self._ends.heap, number, end_ns)

    def reclassify(self, number: int, flow_class: int) -> None:
        """Give a flow another class from now on."""
        self._moved.append((number, flow_class))

    def stop(self, number: int, now: int) -> None:
        """Let a flow end now; of its bytes only those pass that it has sent by now."""
        ends = self._ends
        sent = ends.byte_rate_F[number] * ((now - ends.since_ns_F[number]) / _NS_PER_S)
        ends.left_F[number] = min(sent, ends.left_F[number])
        set_time(ends.heap, number, now)
        self.next_ns = min(self.next_ns, now)

    def share(self, now: int) -> None:
        """Share the links after all that has changed now, and find the ends of all flows."""
        self._make_room()
        gone, moved, new = self._gone, self._moved, self._new
        self.next_ns = int(
            _share(
                self._sharing.state,
                self._ends,
                now,
                np.array(gone, np.int64) if gone else _NO_FLOWS,
                np.array([flow for flow, _ in moved], np.int64) if moved else _NO_FLOWS,
                np.array([flow_class for _, flow_class in moved], np.int64) if moved else _NO_FLOWS,
                np.array(new, np.int64) if new else _NO_FLOWS,
            )
        )
        for flow in gone:
            self._sharing.forget(flow)
        self._gone, self._moved, self._new = [], [], []

    def end(self, now: int) -> list[int]:
        """End the flows whose end has come; return their numbers.

        The next ``share`` divides their links again.
        """
        self._make_room()
        ended_N = self._sharing.state.changed_F  # free between two changes
        count = int(_end(self._sharing.state, self._ends, now, ended_N))
        ended: list[int] = ended_N[:count].tolist()
        ended.sort()
        self._gone += ended
        heap = self._ends.heap
        first = heap.who_E.item(0)
        self.next_ns = heap.time_ns_N.item(first) if heap.count.item(0) else NO_END_NS
        return ended

    @property
    def noted(self) -> int:
        """Return how many intervals are noted."""
        return int(self._ends.count[INTERVALS])

    def passed(self) -> Passed:
        """Return the intervals that were noted, and forget them.

        They take memory until then: see ``noted``.
        """
        ends = self._ends
        intervals, links = ends.count.item(INTERVALS), ends.count.item(LINKS)
        ends.count[:] = 0
        what_I5, bytes_I, link_N = ends.what_I5, ends.bytes_I, ends.link_N
        return Passed(what_I5[:intervals].copy(), bytes_I[:intervals].copy(), link_N[:links].copy())

    def _make_room(self) -> None:
        """Make room for all intervals that one call may note."""
        ends = self._ends
        noted, links = ends.count.item(INTERVALS), ends.count.item(LINKS)
        # Each flow may pass bytes twice in a call: as its class changes, and as its rate does.
        more, more_links = 2 * len(ends.left_F), 2 * len(self._sharing.state.link_C)
        if self._notes and (
            noted + more > len(ends.bytes_I) or links + more_links > len(ends.link_N)
        ):
            self._ends = _with_intervals(ends, noted + more, links + more_links)


@kernel
def _share(
    state: SharingState,
    ends: FlowEnds,
    now: Int,
    gone_N: IntArray,
    moved_N: IntArray,
    class_N: IntArray,
    new_N: IntArray,
) -> Int:
    """Change flows as ``change_flows`` does, move their ends, and return the first of all ends."""
    # Bytes passed so far were of the flow's class before.
    for place in range(len(moved_N)):
        _pass_bytes(state, ends, moved_N[place], now)
    changed = change_flows(state, gone_N, moved_N, class_N, new_N)
    for place in range(changed):
        _set_rate(state, ends, state.changed_F[place], now)
    # A flow that goes on, and gets no rate now, is not among those whose rates have changed.
    for place in range(len(new_N)):
        _set_rate(state, ends, new_N[place], now)
    first: Int = _first_end(ends.heap)
    return first


@inlined
def _first_end(heap: IndexedHeap) -> Int:
    """Return the first end of all flows."""
    if heap.count[0] == 0:
        return np.int64(NO_END_NS)
    first: Int = heap.time_ns_N[heap.who_E[0]]
    return first


@inlined
def _set_rate(state: SharingState, ends: FlowEnds, flow: Int, now: Int) -> None:
    """Continue the rest of a flow at its present rate."""
    # The end of an unchanged rate is kept: computed again from the rest, it could move by a
    # rounding.
    rate = state.rate_F[flow]
    if rate == ends.byte_rate_F[flow]:
        return
    _pass_bytes(state, ends, flow, now)
    ends.byte_rate_F[flow] = rate
    end: Int = NO_END_NS
    if rate > 0.0:
        left_ns = ends.left_F[flow] / rate * _NS_PER_S
        if left_ns < NO_END_NS - now:
            end = now + np.int64(np.rint(left_ns))
    set_time(ends.heap, flow, end)


@kernel
def _pass_bytes(state: SharingState, ends: FlowEnds, flow: Int, now: Int) -> None:
    """Subtract from a flow the bytes that it has sent until now."""
    since = ends.since_ns_F[flow]
    if now > since:
        sent = ends.byte_rate_F[flow] * ((now - since) / _NS_PER_S)
        sent = min(sent, ends.left_F[flow])
        _note(state, ends, flow, now, sent)
        ends.left_F[flow] -= sent
        ends.since_ns_F[flow] = now


@kernel
def _note(state: SharingState, ends: FlowEnds, flow: Int, now: Int, sent: Float) -> None:
    """Note an interval in which bytes have passed the links of a flow."""
    if len(ends.bytes_I) == 0 or sent <= 0.0:
        return
    interval, links = ends.count[INTERVALS], state.links_F[flow]
    ends.what_I5[interval, 0] = ends.owner_F[flow]
    ends.what_I5[interval, 1] = state.class_F[flow]
    ends.what_I5[interval, 2] = ends.since_ns_F[flow]
    ends.what_I5[interval, 3] = now
    ends.what_I5[interval, 4] = links
    ends.bytes_I[interval] = sent * state.multiplicity_F[flow]
    for place in range(links):
        ends.link_N[ends.count[LINKS] + place] = state.link_C[state.first_F[flow] + place]
    ends.count[INTERVALS] += 1
    ends.count[LINKS] += links


@kernel
def _end(state: SharingState, ends: FlowEnds, now: Int, ended_N: IntArray) -> Int:
    """Take the flows that end by now out of the heap, the rest of their bytes with them."""
    ended = 0
    while _first_end(ends.heap) <= now:
        flow = take_first(ends.heap)
        _note(state, ends, flow, now, ends.left_F[flow])
        ends.left_F[flow] = 0.0
        ended_N[ended] = flow
        ended += 1
    return ended


def _new_ends(state: SharingState, notes: bool) -> FlowEnds:
    """Make the ends of as many flows as a state has room for."""
    flows, room = len(state.rate_F), _LEAST_ROOM if notes else 0
    return FlowEnds(
        left_F=np.zeros(flows),
        byte_rate_F=np.zeros(flows),
        since_ns_F=np.zeros(flows, np.int64),
        owner_F=np.zeros(flows, np.int64),
        heap=new_indexed_heap(flows),
        what_I5=np.zeros((room, 5), np.int64),
        bytes_I=np.zeros(room),
        link_N=np.zeros(4 * room, np.int64),
        count=np.zeros(2, np.int64),
    )


def _with_room(ends: FlowEnds, flows: int) -> FlowEnds:
    """Return the ends with room for ``flows`` flows, no fewer than before."""
    more = flows - len(ends.left_F)
    heap = ends.heap
    return ends._replace(
        left_F=np.append(ends.left_F, np.zeros(more)),
        byte_rate_F=np.append(ends.byte_rate_F, np.zeros(more)),
        since_ns_F=np.append(ends.since_ns_F, np.zeros(more, np.int64)),
        owner_F=np.append(ends.owner_F, np.zeros(more, np.int64)),
        heap=heap._replace(
            time_ns_N=np.append(heap.time_ns_N, np.zeros(more, np.int64)),
            who_E=np.append(heap.who_E, np.zeros(more, np.int64)),
            cell_N=np.append(heap.cell_N, np.full(more, -1, np.int64)),
        ),
    )


def _with_intervals(ends: FlowEnds, intervals: int, links: int) -> FlowEnds:
    """Return the ends with twice the room for this number of intervals and links, or as before."""
    noted, noted_links = ends.count.tolist()
    what_I5 = np.zeros((max(len(ends.bytes_I), 2 * intervals), 5), np.int64)
    bytes_I = np.zeros(len(what_I5))
    link_N = np.zeros(max(len(ends.link_N), 2 * links), np.int64)
    what_I5[:noted], bytes_I[:noted] = ends.what_I5[:noted], ends.bytes_I[:noted]
    link_N[:noted_links] = ends.link_N[:noted_links]
    return ends._replace(what_I5=what_I5, bytes_I=bytes_I, link_N=link_N)
