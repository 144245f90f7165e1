"""The free devices that a ring takes, and their cost to the rings at work.

A ring goes to the fastest types of device that have room for it now. It stays on one host if one
has room, the host with the least to spare. Else it is spread in two ways, and takes the way that
costs less device time, its own and that of the rings it slows:

- over as few hosts as possible, the last of them with the least to spare;
- over the hosts that the fewest rings cross.

All that is ours. Costs are those of (6)-(8) of SJF-BCO as ``timing`` prices them, for the rings
that are at work now: ``_exchange_s`` has the ring's own (6)-(8), ``_added_s`` the growth of (8) of
another ring when this one raises its p.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, Float, FloatArray, Int, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.rings.timing import RingGangs, RingLinks, RingState, crosses


class DispatchOptions(NamedTuple):
    """Choices of rings J among device types T, and when they wait instead.

    ``pace_ns_JT``: a round without the time of links, below 0 where the ring may not run; at least
    as many devices as it needs are of the others. ``least_ns_J``: its round at its best place.
    ``span_ns_J``: how long it takes, for reservations. ``hop``: largest ratio of a round to the
    least at which a ring starts rather than waits, unless nothing is at work.
    """

    pace_ns_JT: IntArray
    least_ns_J: IntArray
    span_ns_J: IntArray
    hop: FloatArray


class FreeDevices(NamedTuple):
    """Free devices by host and type, those of them that are kept for a ring, and scratch.

    The arrays without an axis in their name have one entry.
    """

    free_ST: IntArray
    kept_ST: IntArray
    kept_D: BoolArray
    room_S: IntArray  # free devices of the host that the ring at hand may take
    turn_S: IntArray  # the number of the choice that has taken the host last
    turn: IntArray  # the number of the choice at hand
    hosts_S: IntArray  # the hosts that are chosen, each once, in the first cells
    other_S: IntArray  # those of the other way to spread the ring
    level_ns: IntArray  # no type on which a round is slower is taken
    free: IntArray  # how many devices are free
    kept: IntArray  # how many of them are kept
    works: IntArray  # how many rings are at work


def new_room(links: RingLinks, types: int) -> FreeDevices:
    """Make the free devices of a cluster on which nothing runs, for ``types`` types."""
    hosts = len(links.first_S) - 1
    free_ST = np.zeros((hosts, types), np.int64)
    np.add.at(free_ST, (links.host_D, links.type_D), 1)
    return FreeDevices(
        free_ST=free_ST,
        kept_ST=np.zeros((hosts, types), np.int64),
        kept_D=np.zeros(len(links.host_D), np.bool_),
        room_S=np.zeros(hosts, np.int64),
        turn_S=np.zeros(hosts, np.int64),
        turn=np.zeros(1, np.int64),
        hosts_S=np.zeros(hosts, np.int64),
        other_S=np.zeros(hosts, np.int64),
        level_ns=np.zeros(1, np.int64),
        free=np.array([len(links.host_D)], np.int64),
        kept=np.zeros(1, np.int64),
        works=np.zeros(1, np.int64),
    )


@kernel
def choose_hosts(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    state: RingState,
    room: FreeDevices,
    job: Int,
    keeps: Int,
) -> Int:
    """Choose the hosts of a ring, put them in ``hosts_S``, and return how many there are.

    0 if it has to wait. ``keeps``: 1 if it must leave the kept devices alone, else 0.
    """
    size = gangs.first_J[job + 1] - gangs.first_J[job]
    # A round lasts as long as on the slowest device, so types are let in from the fastest on,
    # and only as many as the ring needs for room.
    level_ns = _next_level(ways, job, -1)
    while level_ns >= 0:
        total, best = _measure(links, ways, room, job, level_ns, keeps, size)
        room.level_ns[0] = level_ns
        if best >= 0:
            room.hosts_S[0] = best
            return 1
        if total >= size:
            hosts: int = _spread(gangs, links, ways, state, room, job, size)
            return hosts
        level_ns = _next_level(ways, job, level_ns)
    return 0


@inlined
def _next_level(ways: DispatchOptions, job: Int, above_ns: Int) -> Int:
    """Return the least round time of a type above ``above_ns``; -1 if there is none."""
    level_ns = -1
    for kind in range(ways.pace_ns_JT.shape[1]):
        pace_ns = ways.pace_ns_JT[job, kind]
        if pace_ns > above_ns and (level_ns < 0 or pace_ns < level_ns):
            level_ns = pace_ns
    return level_ns


@inlined
def _measure(
    links: RingLinks,
    ways: DispatchOptions,
    room: FreeDevices,
    job: Int,
    level_ns: Int,
    keeps: Int,
    size: Int,
) -> tuple[Int, Int]:
    """Fill ``room_S``; return its sum, and the host that holds all with the least to spare.

    The host is -1 where none can hold the whole ring; of equal ones it is the first.
    """
    total, best = 0, -1
    for host in range(len(room.room_S)):
        found = 0
        for kind in range(room.free_ST.shape[1]):
            if 0 <= ways.pace_ns_JT[job, kind] <= level_ns:
                found += room.free_ST[host, kind] - keeps * room.kept_ST[host, kind]
        room.room_S[host] = found
        total += found
        if found >= size and (best < 0 or found < room.room_S[best]):
            best = host
    return total, best


@kernel
def _spread(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    state: RingState,
    room: FreeDevices,
    job: Int,
    size: Int,
) -> Int:
    """Choose several hosts in the cheaper of two ways; return how many, 0 to wait instead."""
    hosts: int = _take_hosts(state, room, size, False, room.hosts_S)
    # Such an exchange takes the same time wherever the ring is: fewest hosts leave most room.
    if not gangs.shared_J[job]:
        return hosts
    loss_s = _loss_s(gangs, links, state, room, job, room.hosts_S, hosts)
    others = _take_hosts(state, room, size, True, room.other_S)
    if _loss_s(gangs, links, state, room, job, room.other_S, others) < loss_s:
        hosts = others
        for cell in range(hosts):
            room.hosts_S[cell] = room.other_S[cell]
    # (8) is the level, which is the computation, plus the exchange. While anything is at work,
    # waiting for it to end may give the ring a better place; else there is nothing to wait for.
    added_ns = _exchange_s(gangs, links, state, job, room.hosts_S, hosts) * 1e9
    slow = room.level_ns[0] + added_ns > ways.hop[0] * ways.least_ns_J[job]
    return 0 if slow and room.works[0] > 0 else hosts


@kernel
def _take_hosts(
    state: RingState, room: FreeDevices, size: Int, quiet: bool, taken_S: IntArray
) -> Int:
    """Put hosts in ``taken_S`` until the ring has room, and return how many there are.

    ``quiet``: hosts that the fewest rings cross come first; else those with the most room, and as
    the last one the host with the least to spare.
    """
    # A new number marks the hosts of this choice in turn_S, so that nothing need be cleared.
    room.turn[0] += 1
    left, hosts = size, 0
    while left > 0:
        pick = -1
        for host in range(len(room.room_S)):
            if room.room_S[host] == 0 or room.turn_S[host] == room.turn[0]:
                continue
            if pick < 0 or _goes_before(state, room, host, pick, left, quiet):
                pick = host
        room.turn_S[pick] = room.turn[0]
        taken_S[hosts] = pick
        hosts += 1
        left -= room.room_S[pick]
    return hosts


@inlined
def _goes_before(
    state: RingState, room: FreeDevices, host: Int, than: Int, left: Int, quiet: bool
) -> bool:
    """Tell whether a host is taken before another by a ring that needs ``left`` devices more."""
    mine, other = room.room_S[host], room.room_S[than]
    is_quieter: bool = state.crossing_S[host] < state.crossing_S[than]
    if quiet and state.crossing_S[host] != state.crossing_S[than]:
        return is_quieter
    # A host that holds the whole rest comes before a host that does not; of two that do the host
    # with less room, of two that do not the host with more.
    is_enough: bool = mine >= left
    if is_enough != (other >= left):
        return is_enough
    if mine != other:
        is_before: bool = mine < other if is_enough else mine > other
        return is_before
    return is_quieter


@kernel
def _exchange_s(
    gangs: RingGangs, links: RingLinks, state: RingState, job: Int, taken_S: IntArray, hosts: Int
) -> Float:
    """Return the exchange (s) of a ring on these hosts by (6)-(8), without computation."""
    # (6): the rings that cross the host now and this one.
    most = 0
    for cell in range(hosts):
        most = max(most, state.crossing_S[taken_S[cell]] + 1)
    # (8), with (7) in the table of rates.
    exchange_s: float = gangs.sent_bytes_J[job] / links.rate_P[most] + links.host_s[0] * hosts
    return exchange_s


@kernel
def _loss_s(
    gangs: RingGangs,
    links: RingLinks,
    state: RingState,
    room: FreeDevices,
    job: Int,
    taken_S: IntArray,
    hosts: Int,
) -> Float:
    """Return the device time (s) of a ring's exchanges and of its delay of others.

    Exchange times rounds times devices, for the ring and for each ring that it meets.
    """
    size = gangs.first_J[job + 1] - gangs.first_J[job]
    exchange_s = _exchange_s(gangs, links, state, job, taken_S, hosts)
    loss_s: float = exchange_s * gangs.rounds_J[job] * size
    room.turn[0] += 1
    for cell in range(hosts):
        room.turn_S[taken_S[cell]] = room.turn[0]
    for cell in range(hosts):
        host, last = taken_S[cell], -1
        if state.crossing_S[host] == 0:
            continue
        # A ring whose devices on this host do not lie side by side is counted more than once.
        for place in range(links.first_S[host], links.first_S[host + 1]):
            other = state.gang_D[links.device_K[place]]
            if other >= 0 and other != last and crosses(gangs, state, other):
                last = other
                loss_s += _added_s(gangs, links, state, room, other, host)
    return loss_s


@kernel
def _added_s(
    gangs: RingGangs, links: RingLinks, state: RingState, room: FreeDevices, other: Int, here: Int
) -> Float:
    """Return the device time (s) that a ring at work loses; 0 at all of its hosts but one.

    It is counted at the first of its hosts that is taken.
    """
    # (6) for the other ring, without and with the new one on the hosts that are taken.
    before = 0
    after = 0
    counted = False
    for row in range(gangs.first_J[other], gangs.first_J[other] + state.hosts_J[other]):
        host = state.host_A[row]
        taken = room.turn_S[host] == room.turn[0]
        if taken and not counted and host != here:
            return 0.0
        counted = counted or taken
        before = max(before, state.crossing_S[host])
        after = max(after, state.crossing_S[host] + (1 if taken else 0))
    if after == before:
        return 0.0
    # The first term of (8) at the new p less that at the old one, for the rounds that are left.
    size = gangs.first_J[other + 1] - gangs.first_J[other]
    sent = gangs.sent_bytes_J[other]
    added_s = sent / links.rate_P[after] - sent / links.rate_P[before]
    lost_s: float = added_s * state.left_J[other] * size
    return lost_s
