"""Local search over orders of rings: the moves, which of them are kept, and the budget.

Each order is dispatched (``dispatch``) with and without reservations, and with each patience of
``DispatchOptions``. A ring leaves types of device to others that make its round ``patience`` times
as long as its fastest gang could. It waits for one host rather than cross hosts, where that makes
its round ``hop`` times as long. Which of these pays depends on the load, so several are tried. The
best of either kind is searched on, in turn: a ring that ends last goes to an earlier place, or any
ring to any place, or two rings change theirs. A move is kept unless the plan gets worse: a longer
makespan, or the same and more weighted JCT; or the other way round. Budgets count rings that are
placed. The steps do not depend on the budget, which cuts them off, so a longer search has seen all
that a shorter search saw.

*Source.* Ours. The times of rings are those of (6)-(9) of SJF-BCO, as ``timing`` has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import BoolArray, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.random import mix
from warren.solve.rings.device_choice import DispatchOptions
from warren.solve.rings.dispatch import DispatchScratch, dispatch_rings, new_desk
from warren.solve.rings.timing import PlacedRings, RingGangs, RingLinks, ring_times

PATIENCES: Final = (np.inf, 2.0, 1.2)
"""Values of ``patience`` that are tried, as the module's text has it."""
HOPS: Final = (np.inf, 1.5, 1.1)
"""Values of ``hop`` that are tried, of ``DispatchOptions``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingsAlone:
    """Times (ns) of each ring with the cluster to itself, on as few hosts as can hold it.

    ``pace_ns_JT``: a round on a type, without the time of links, -1 where it may not run.
    ``level_ns_J``: that of the slowest device of its fastest gang; ``least_ns_J``: with links, (8)
    at the least p and the fewest servers. ``span_ns_J``: all its rounds so.
    """

    pace_ns_JT: IntArray
    level_ns_J: IntArray
    least_ns_J: IntArray
    span_ns_J: IntArray


def alone(gangs: RingGangs, links: RingLinks, fits_JT: BoolArray) -> RingsAlone:
    """Compute how long each ring takes alone; each must have a place in the cluster."""
    shared_J, size_J = np.asarray(gangs.shared_J), np.diff(gangs.first_J)
    pace_JT = gangs.comp_ns_JT + np.where(shared_J[:, None], 0, gangs.sync_ns_JT)
    pace_JT = np.where(fits_JT, pace_JT, -1)
    # The fastest gang takes devices type by type, the fastest first, until there are enough; the
    # last type that it needs sets its level.
    count_T = np.bincount(links.type_D, minlength=pace_JT.shape[1])
    fastest_JT = np.argsort(np.where(fits_JT, pace_JT, np.iinfo(np.int64).max), axis=1)
    room_JT = np.cumsum(np.where(fits_JT, count_T, 0)[_rows(fastest_JT), fastest_JT], axis=1)
    enough_J = (room_JT >= size_J[:, None]).argmax(axis=1)
    level_J = pace_JT[_rows(fastest_JT)[:, 0], fastest_JT[np.arange(len(size_J)), enough_J]]
    added_J = np.where(shared_J, np.rint(_least_exchange_s_J(gangs, links, size_J) * 1e9), 0)
    least_J = np.maximum(1, level_J + added_J.astype(np.int64))
    return RingsAlone(
        pace_ns_JT=pace_JT.astype(np.int64),
        level_ns_J=level_J.astype(np.int64),
        least_ns_J=least_J,
        span_ns_J=least_J * gangs.rounds_J,
    )


def _rows(cells_JT: IntArray) -> IntArray:
    """Return the row numbers of a table, to pick cells by row and column; shape (J, 1)."""
    return np.arange(len(cells_JT))[:, None]


def _least_exchange_s_J(gangs: RingGangs, links: RingLinks, size_J: IntArray) -> FloatArray:
    """Compute the exchange (s) of each ring alone on the fewest hosts: (8) without computation."""
    held_S = np.sort(np.diff(links.first_S))[::-1]
    hosts_J = np.searchsorted(np.cumsum(held_S), size_J) + 1
    # (6): p is 1, the ring itself, where it crosses hosts, and 0 within one.
    rate_J = np.asarray(links.rate_P)[np.where(hosts_J > 1, 1, 0)]
    exchange_s_J: FloatArray = gangs.sent_bytes_J / rate_J + links.host_s[0] * hosts_J
    return exchange_s_J


def ways_to_try(gangs: RingGangs, times: RingsAlone) -> Iterator[DispatchOptions]:
    """Make the options of each patience and hop; a patience that changes no ring is left out."""
    seen: list[IntArray] = []
    for patience in PATIENCES:
        most_J = np.minimum(patience * times.level_ns_J, 2.0**62)
        pace_JT = np.where(times.pace_ns_JT <= most_J[:, None], times.pace_ns_JT, -1)
        if not any(np.array_equal(pace_JT, one) for one in seen):
            seen.append(pace_JT)
    hops = HOPS if np.any(gangs.shared_J) else HOPS[:1]
    for pace_JT, hop in product(seen, hops):
        yield ways(times, pace_JT, hop)


def ways(times: RingsAlone, pace_ns_JT: npt.ArrayLike, hop: float = np.inf) -> DispatchOptions:
    """Make the ``DispatchOptions`` of rings that may run where ``pace_ns_JT`` is 0 or more."""
    return DispatchOptions(
        pace_ns_JT=np.ascontiguousarray(pace_ns_JT, dtype=np.int64),
        least_ns_J=times.least_ns_J,
        span_ns_J=times.span_ns_J,
        hop=np.array([hop]),
    )


def lines(gangs: RingGangs, times: RingsAlone, weight_J: FloatArray) -> Iterator[IntArray]:
    """Make orders to begin with: by length, devices or device time, most or least first.

    The last one is by arrival.
    """
    span_J, size_J = times.span_ns_J.astype(np.float64), np.diff(gangs.first_J)
    work_J = span_J * size_J
    # The last key of lexsort counts first: by length, then by devices; and so on.
    yield np.lexsort((-size_J, -span_J))
    yield np.lexsort((-span_J, -size_J))
    yield np.argsort(-work_J, kind="stable")
    yield np.argsort(work_J / weight_J, kind="stable")
    yield np.argsort(span_J / weight_J, kind="stable")
    # "Smallest job first", line 4 of SJF-BCO's Algorithm 1, by length within a size.
    yield np.lexsort((span_J, size_J))
    yield np.arange(len(size_J))


PIECE: Final = 64
"""Moves of one kind of search until it is the other's turn."""
LATE: Final = 30
"""Moves in a hundred that take a ring that ends among the last."""
LATE_32NDS: Final = 4
"""Range of the drawn distance from the makespan, in 32nds of it, within which a ring ends late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The objective, and the budget of its search.

    The makespan and then the weighted JCT if ``by_makespan``, else the other way round. ``budget``
    counts rings that are placed; ``seed``: of the moves.
    """

    weight_J: FloatArray
    by_makespan: bool
    budget: int
    seed: int


class _Best(NamedTuple):
    """The best order found, the ends of its rings, and its value; all written by ``_evaluate``."""

    line_J: IntArray
    end_ns_J: IntArray
    value: FloatArray  # the first objective, and the second


@dataclass(slots=True)
class _OrderSearch:
    """One of the two searches, with reservations or without.

    ``ways``: the options in which its first order did best. ``moves``: how many have been tried.
    """

    reserve: bool
    ways: DispatchOptions
    best: _Best
    moves: int = 0


def braid(gangs: RingGangs, links: RingLinks, fits_JT: BoolArray, goal: Goal) -> PlacedRings:
    """Search for the best schedule of these rings; every ring must have a place."""
    scratch, jobs = new_desk(gangs, links), len(gangs.rounds_J)
    times = alone(gangs, links, fits_JT)
    searches = list[_OrderSearch]()
    weight_J = np.array(goal.weight_J, dtype=np.float64)
    # The best order and options of each kind, among those to begin with.
    for reserve in (True, False):
        found = None
        for ways in ways_to_try(gangs, times):
            for line_J in lines(gangs, times, weight_J):
                best = _Best(line_J.astype(np.int64), np.zeros(jobs, np.int64), np.full(2, np.inf))
                _set_line(scratch, best)
                _evaluate(gangs, links, ways, scratch, best, weight_J, reserve, goal.by_makespan)
                if found is None or tuple(best.value) < tuple(found.best.value):
                    found = _OrderSearch(reserve, ways, best)
        assert found is not None, "there is one way at least"
        searches.append(found)
    # The two searches take turns, so that neither depends on how much budget there is in all.
    left = goal.budget // max(1, jobs)
    while left > 0:
        search = searches[0]
        moves = min(PIECE, left)
        key = np.uint64((goal.seed * 2 + search.reserve) % 2**64)
        _improve(
            gangs,
            links,
            search.ways,
            scratch,
            search.best,
            weight_J,
            key,
            search.moves,
            moves,
            search.reserve,
            goal.by_makespan,
        )
        search.moves += moves
        left -= moves
        searches.reverse()
    return min(
        (_timed(gangs, links, scratch, search) for search in searches),
        key=lambda one: _value(one.end_ns_J, weight_J, goal.by_makespan),
    )


def _timed(
    gangs: RingGangs, links: RingLinks, scratch: DispatchScratch, search: _OrderSearch
) -> PlacedRings:
    """Time the best schedule as the simulator runs it: no reservation holds a ring back any more.

    Each ring keeps its devices and their order, and starts as soon as it is first on all of them.
    """
    _set_line(scratch, search.best)
    dispatch_rings(gangs, links, search.ways, scratch, search.reserve)
    order_J, device_A = scratch.begun_J.copy(), scratch.device_A.copy()
    end_ns_J = ring_times(gangs, links, order_J, device_A)
    return PlacedRings(order_J=order_J, device_A=device_A, end_ns_J=end_ns_J)


def _value(end_ns_J: IntArray, weight_J: FloatArray, by_makespan: bool) -> tuple[float, float]:
    """Return the first objective, and the objective among equals."""
    first, then = float(end_ns_J.max()), float(weight_J @ end_ns_J)
    return (first, then) if by_makespan else (then, first)


def _set_line(scratch: DispatchScratch, best: _Best) -> None:
    """Set the next dispatch to the order of ``best``."""
    scratch.line_J[:] = best.line_J


@kernel
def _improve(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    scratch: DispatchScratch,
    best: _Best,
    weight_J: FloatArray,
    key: np.uint64,
    first: Int,
    moves: Int,
    reserve: bool,
    by_makespan: bool,
) -> None:
    """Try the moves from number ``first`` on, each from the best order found."""
    # Each move is drawn from its own number, so where a turn ends does not matter.
    for move in range(first, first + moves):
        for place in range(len(best.line_J)):
            scratch.line_J[place] = best.line_J[place]
        _move(scratch.line_J, best, mix(mix(key) + np.uint64(move)))
        _evaluate(gangs, links, ways, scratch, best, weight_J, reserve, by_makespan)


@kernel
def _evaluate(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    scratch: DispatchScratch,
    best: _Best,
    weight_J: FloatArray,
    reserve: bool,
    by_makespan: bool,
) -> None:
    """Dispatch the order in ``scratch``, and keep it if it is no worse than the best."""
    dispatch_rings(gangs, links, ways, scratch, reserve)
    last = 0.0
    total = 0.0
    jobs = len(best.line_J)
    for job in range(jobs):
        end_ns = float(scratch.state.end_ns_J[job])
        last = max(last, end_ns)
        total += weight_J[job] * end_ns
    first = last if by_makespan else total
    then = total if by_makespan else last
    # Equals are kept too: plateaus are crossed this way.
    if first < best.value[0] or (first == best.value[0] and then <= best.value[1]):
        best.value[0] = first
        best.value[1] = then
        for place in range(jobs):
            best.line_J[place] = scratch.line_J[place]
            best.end_ns_J[place] = scratch.state.end_ns_J[place]


@kernel
def _move(line_J: IntArray, best: _Best, key: np.uint64) -> None:
    """Change an order, the best one found, by one move that the key draws."""
    jobs, kind = len(line_J), _drawn(key, 1, 100)
    place, to = _drawn(key, 2, jobs), _drawn(key, 3, jobs)
    # Of a hundred moves LATE take a late ring to an earlier place; of the rest one half takes any
    # ring to any place, the other half exchanges two.
    if kind < LATE:
        place = _late_place(best, key)
        to = _drawn(key, 3, place + 1)
    if kind < LATE + (100 - LATE) // 2:
        job, step = line_J[place], 1 if to > place else -1
        while place != to:
            line_J[place] = line_J[place + step]
            place += step
        line_J[to] = job
    else:
        line_J[place], line_J[to] = line_J[to], line_J[place]


@kernel
def _late_place(best: _Best, key: np.uint64) -> Int:
    """Draw the place of one of the rings that end last, all with equal chances."""
    last = 0
    for job in range(len(best.end_ns_J)):
        last = max(last, best.end_ns_J[job])
    late_ns = last - (last >> 5) * _drawn(key, 4, LATE_32NDS)
    seen = 0
    found = 0
    # Reservoir sampling: the k-th late ring takes the place of the one found with chance 1 / k.
    for place in range(len(best.line_J)):
        if best.end_ns_J[best.line_J[place]] >= late_ns:
            seen += 1
            if _drawn(key, 4 + seen, seen) == 0:
                found = place
    return found


@kernel
def _drawn(key: np.uint64, which: Int, below: Int) -> Int:
    """Draw a whole number below ``below``, the ``which``-th of this key."""
    return np.int64(mix(key + np.uint64(which)) % np.uint64(below))
