"""When gangs end that wait for all their devices, hold them, and share links between hosts.

Each device has its gangs in one order that is common to all. A gang starts when it is first on all
of its devices, runs its rounds and leaves them. A round takes the longest computation of its
devices, then the exchange: a given time, or ``sent / rate(p) + host_s * hosts`` where p is the most
gangs that cross one of its hosts, 0 for a gang within one host ((6)-(8) of SJF-BCO; rates come as a
table). Rounds that have begun keep their pace when a gang starts or ends elsewhere.

Where each equation is: ``mark_changed`` keeps the sums of (6), ``_price`` takes their maximum and
the first and third term of (8), ``_pace`` adds the computation. (7) is in the table of rates. (9)
is the end that ``_pace`` sets, in continuous time.

After an instant only gangs are priced again that cross a host where a crossing gang has started or
ended: no other's p has changed. Times are int64 ns, equal to those of
``warren.sim.network.ring_gangs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import BoolArray, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.heaps import IndexedHeap, in_groups, new_indexed_heap, set_time, take_first


class RingGangs(NamedTuple):
    """Gangs J and device types T; times in ns.

    Gang j runs on the devices ``first_J[j]`` to ``first_J[j + 1]`` of a placement, at least one,
    each once. ``shared_J``: its exchange is priced by links; else it takes ``sync_ns_JT`` of its
    slowest device.
    """

    first_J: IntArray
    ready_ns_J: IntArray
    rounds_J: IntArray
    comp_ns_JT: IntArray
    sync_ns_JT: IntArray
    shared_J: BoolArray
    sent_bytes_J: FloatArray


class RingLinks(NamedTuple):
    """Devices D, host by host in ``device_K``, those of host s from ``first_S[s]`` on.

    ``rate_P``: bytes a second by p, for as many as the largest host has devices. ``host_s``: time
    that each host adds to an exchange, one number.
    """

    type_D: IntArray
    host_D: IntArray
    device_K: IntArray
    first_S: IntArray
    rate_P: FloatArray
    host_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRings:
    """Gangs in order with their devices, when each ends, and the theta and kappa of this schedule.

    Both are 0 where there is none.
    """

    order_J: IntArray
    device_A: IntArray
    end_ns_J: IntArray
    theta: int = 0
    kappa: int = 0


class RingState(NamedTuple):
    """Gangs J under way on devices D and hosts S; ``_A``: rows of a placement.

    From ``begin_ns_J`` on come ``left_J`` rounds of ``round_ns_J`` each, which is ``comp_ns_J``
    plus ``exchange_ns_J``.
    """

    next_A: IntArray  # the gang that has the device next, -1 for none
    host_A: IntArray  # hosts of a gang, from its first row on
    hosts_J: IntArray
    waits_J: IntArray  # devices that it is not first on
    begin_ns_J: IntArray
    left_J: IntArray
    round_ns_J: IntArray
    comp_ns_J: IntArray
    exchange_ns_J: IntArray  # -1 until it is known
    end_ns_J: IntArray  # -1 until the gang has ended
    works_J: BoolArray
    gang_D: IntArray  # at work on the device, -1 for none
    crossing_S: IntArray  # gangs at work that cross the host, the sum in (6)
    seen_J: IntArray  # the last instant it was looked at, to do so once
    seen_S: IntArray
    changed_S: IntArray  # hosts whose crossing gangs have changed at this instant
    alarms: IndexedHeap


def links(
    type_D: npt.ArrayLike,
    host_D: npt.ArrayLike,
    hosts: int,
    rate_P: npt.ArrayLike,
    host_s: float,
) -> RingLinks:
    """Make the ``RingLinks`` of devices from their hosts, which are numbered from 0.

    Parameters
    ----------
    type_D, host_D
        Type and host of each device.
    hosts
        Number of hosts, those without a device included.
    rate_P
        Bytes a second by p, the gangs that cross a host; at 0 the rate within one host.
    host_s
        Seconds that each host of a gang adds to its exchange, xi2 in (8).
    """
    own_host_D = np.array(host_D, dtype=np.int64)
    device_K, first_S = in_groups(own_host_D, hosts)
    return RingLinks(
        type_D=np.array(type_D, dtype=np.int64),
        host_D=own_host_D,
        device_K=device_K,
        first_S=first_S,
        rate_P=np.array(rate_P, dtype=np.float64),
        host_s=np.array([host_s], dtype=np.float64),
    )


def ring_times(
    gangs: RingGangs, links: RingLinks, order_J: npt.ArrayLike, device_A: IntArray
) -> IntArray:
    """Return ``end_ns_J`` of gangs that have their devices in this order.

    Gangs that are not in ``order_J`` do not run, and end at -1. ``device_A``: the placement.
    """
    state = new_state(gangs, links)
    _run(gangs, links, state, np.asarray(order_J, np.int64), device_A)
    return state.end_ns_J


def new_state(gangs: RingGangs, links: RingLinks) -> RingState:
    """Make a state in which no gang has started and none has a place."""
    jobs = len(gangs.rounds_J)
    rows = int(gangs.first_J[-1])
    hosts = len(links.first_S) - 1
    return RingState(
        next_A=np.full(rows, -1, np.int64),
        host_A=np.full(rows, -1, np.int64),
        hosts_J=np.zeros(jobs, np.int64),
        waits_J=np.zeros(jobs, np.int64),
        begin_ns_J=np.zeros(jobs, np.int64),
        left_J=np.zeros(jobs, np.int64),
        round_ns_J=np.zeros(jobs, np.int64),
        comp_ns_J=np.zeros(jobs, np.int64),
        exchange_ns_J=np.full(jobs, -1, np.int64),
        end_ns_J=np.full(jobs, -1, np.int64),
        works_J=np.zeros(jobs, np.bool_),
        gang_D=np.full(len(links.host_D), -1, np.int64),
        crossing_S=np.zeros(hosts, np.int64),
        seen_J=np.full(jobs, -1, np.int64),
        seen_S=np.full(hosts, -1, np.int64),
        changed_S=np.zeros(hosts, np.int64),
        alarms=new_indexed_heap(jobs),
    )


@kernel
def _run(
    gangs: RingGangs, links: RingLinks, state: RingState, order_J: IntArray, device_A: IntArray
) -> None:
    """Run all gangs of the order: the times T_j of (9), for line 20 of Algorithm 1."""
    _line_up(gangs, links, state, order_J, device_A)
    alarms, instant = state.alarms, 0
    while alarms.count[0] > 0:
        # All that starts or ends at one time does so before any p is taken: (6) counts the gangs
        # that are at work after the instant, whatever their order within it.
        now, changed = alarms.time_ns_N[alarms.who_E[0]], 0
        while alarms.count[0] > 0 and alarms.time_ns_N[alarms.who_E[0]] == now:
            job = take_first(alarms)
            if state.works_J[job]:
                end_gang(gangs, state, device_A, job, now)
            else:
                start_gang(gangs, links, state, device_A, job, now)
            changed = mark_changed(gangs, state, job, changed, instant)
        price_changed(gangs, links, state, changed, instant, now)
        instant += 1


@kernel
def _line_up(
    gangs: RingGangs, links: RingLinks, state: RingState, order_J: IntArray, device_A: IntArray
) -> None:
    """Find which gang comes after which on each device; those that wait for none get a start."""
    # From the last gang to the first, gang_D is the gang that has the device next, and seen_S
    # the gang that counted the host last. Both get their own meaning back below.
    for place in range(len(order_J) - 1, -1, -1):
        job = order_J[place]
        for row in range(gangs.first_J[job], gangs.first_J[job + 1]):
            device = device_A[row]
            after = state.gang_D[device]
            state.next_A[row] = after
            state.gang_D[device] = job
            if after >= 0:
                state.waits_J[after] += 1
            host = links.host_D[device]
            if state.seen_S[host] != job:
                state.seen_S[host] = job
                state.host_A[gangs.first_J[job] + state.hosts_J[job]] = host
                state.hosts_J[job] += 1
    state.gang_D[:] = -1
    state.seen_S[:] = -1
    for place in range(len(order_J)):
        job = order_J[place]
        if state.waits_J[job] == 0:
            set_time(state.alarms, job, gangs.ready_ns_J[job])


@kernel
def mark_changed(gangs: RingGangs, state: RingState, job: Int, changed: Int, instant: Int) -> Int:
    """Count a gang that has just started or ended in the sums of (6), one a host that it crosses.

    Returns the number of hosts that are marked as changed.
    """
    if crosses(gangs, state, job):
        for row in range(gangs.first_J[job], gangs.first_J[job] + state.hosts_J[job]):
            host = state.host_A[row]
            state.crossing_S[host] += 1 if state.works_J[job] else -1
            if state.seen_S[host] != instant:
                state.seen_S[host] = instant
                state.changed_S[changed] = host
                changed += 1
    return changed


@kernel
def price_changed(
    gangs: RingGangs, links: RingLinks, state: RingState, changed: Int, instant: Int, now: Int
) -> None:
    """Price the gangs again that cross one of the ``changed`` hosts marked at this instant.

    (6) is a maximum over the hosts of a gang, so no other gang's p has changed.
    """
    for cell in range(changed):
        host = state.changed_S[cell]
        for place in range(links.first_S[host], links.first_S[host + 1]):
            job = state.gang_D[links.device_K[place]]
            if job >= 0 and state.seen_J[job] != instant and crosses(gangs, state, job):
                state.seen_J[job] = instant
                _price(gangs, links, state, job, now)


@kernel
def crosses(gangs: RingGangs, state: RingState, job: Int) -> bool:
    """Tell whether a placed gang sends between hosts that others use.

    This is the indicator 0 < y_js < G_j of (6), which is the same at all hosts of a gang.
    """
    sends_between: bool = gangs.shared_J[job] and state.hosts_J[job] > 1
    return sends_between


@kernel
def start_gang(
    gangs: RingGangs, links: RingLinks, state: RingState, device_A: IntArray, job: Int, now: Int
) -> None:
    """Start a gang on its devices; its round time is set here only if it crosses no host.

    A gang that crosses hosts is priced at the end of the instant, when all that started are
    counted.
    """
    comp_ns, sync_ns = 0, 0
    for row in range(gangs.first_J[job], gangs.first_J[job + 1]):
        device = device_A[row]
        state.gang_D[device] = job
        comp_ns = max(comp_ns, gangs.comp_ns_JT[job, links.type_D[device]])
        sync_ns = max(sync_ns, gangs.sync_ns_JT[job, links.type_D[device]])
    state.works_J[job] = True
    state.begin_ns_J[job] = now
    state.left_J[job] = gangs.rounds_J[job]
    state.comp_ns_J[job] = comp_ns
    if not gangs.shared_J[job]:
        _pace(state, job, now, sync_ns)
    elif state.hosts_J[job] == 1:
        _price(gangs, links, state, job, now)


@kernel
def end_gang(gangs: RingGangs, state: RingState, device_A: IntArray, job: Int, now: Int) -> None:
    """End a gang and leave its devices to those that come next there."""
    state.works_J[job] = False
    state.end_ns_J[job] = now
    for row in range(gangs.first_J[job], gangs.first_J[job + 1]):
        state.gang_D[device_A[row]] = -1
        after = state.next_A[row]
        if after >= 0:
            state.waits_J[after] -= 1
            if state.waits_J[after] == 0:
                set_time(state.alarms, after, max(now, gangs.ready_ns_J[after]))


@kernel
def _price(gangs: RingGangs, links: RingLinks, state: RingState, job: Int, now: Int) -> None:
    """Compute the exchange of a gang by (6)-(8), without computation, for the gangs at work now."""
    # (6): p_j is the largest sum among its hosts, the gang itself included; 0 within one host.
    most, hosts = 0, state.hosts_J[job]
    if hosts > 1:
        for row in range(gangs.first_J[job], gangs.first_J[job] + hosts):
            most = max(most, state.crossing_S[state.host_A[row]])
    # (7) and f are in the table. (8): 2 m (w - 1) / w / B + xi2 times the hosts.
    exchange_s = gangs.sent_bytes_J[job] / links.rate_P[most] + links.host_s[0] * hosts
    _pace(state, job, now, int(np.rint(exchange_s * 1e9)))


@kernel
def _pace(state: RingState, job: Int, now: Int, exchange_ns: Int) -> None:
    """Give the rounds of a gang that have not begun the time of (8), and the gang its end."""
    if exchange_ns == state.exchange_ns_J[job]:
        return
    state.exchange_ns_J[job] = exchange_ns
    round_ns = state.round_ns_J[job]
    # Rounds that have begun before now keep the old time, the one under way included; a round that
    # would begin just now takes the new time. Minus floor of minus is the quotient rounded up.
    if round_ns > 0 and now > state.begin_ns_J[job]:
        begun = -((state.begin_ns_J[job] - now) // round_ns)
        begun = min(begun, state.left_J[job])
        state.begin_ns_J[job] += begun * round_ns
        state.left_J[job] -= begun
    # A round of no time would let a gang end at the instant it starts.
    round_ns = max(1, state.comp_ns_J[job] + exchange_ns)
    state.round_ns_J[job] = round_ns
    set_time(state.alarms, job, state.begin_ns_J[job] + state.left_J[job] * round_ns)
