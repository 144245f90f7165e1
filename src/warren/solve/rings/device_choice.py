"""Which free devices a ring takes, and what that costs the rings at work.

A ring goes to the fastest types of device that have room for it now. It stays on one host where
one has room, that with the least to spare. Else it is spread in two ways, and takes the one that
costs less device time, its own and that of the rings it slows:

- over as few hosts as possible, the last of them with the least to spare;
- over the hosts that the fewest rings cross.

All that is ours. Costs are those of (6)-(8) of SJF-BCO as ``timing`` prices them, for the rings
that are at work now.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.compile import inlined, kernel
from warren.solve.rings.timing import RingGangs, RingLinks, RingState, crosses


class DispatchOptions(NamedTuple):
    """Rings J on device types T.

    ``pace_ns_JT``: a round without what links take, below 0 where the ring may not run; at least as
    many devices as it needs are of the others. ``least_ns_J``: its round at its best place.
    ``span_ns_J``: how long it takes, for reservations. ``hop``: a ring waits rather than have a
    round of so many times the least, unless nothing is at work.
    """

    pace_ns_JT: Any
    least_ns_J: Any
    span_ns_J: Any
    hop: Any


class FreeDevices(NamedTuple):
    """Free devices by host and type; those of them that are kept for a ring; room for scratch."""

    free_ST: Any
    kept_ST: Any
    kept_D: Any
    room_S: Any
    turn_S: Any  # of the choice that has taken the host
    turn: Any
    hosts_S: Any  # the choice: so many of them, each once
    other_S: Any
    level_ns: Any  # no type that is slower is taken
    free: Any  # devices
    kept: Any  # of these
    works: Any


def new_room(links: RingLinks, types: int) -> FreeDevices:
    """All devices are free."""
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
    job: int,
    keeps: int,
) -> Any:
    """How many hosts the ring takes, which are in ``hosts_S``; 0 if it has to wait.

    ``keeps``: whether it must leave the kept devices alone.
    """
    size = gangs.first_J[job + 1] - gangs.first_J[job]
    level_ns = _next_level(ways, job, -1)
    while level_ns >= 0:
        total, best = _measure(links, ways, room, job, level_ns, keeps, size)
        room.level_ns[0] = level_ns
        if best >= 0:
            room.hosts_S[0] = best
            return 1
        if total >= size:
            return _spread(gangs, links, ways, state, room, job, size)
        level_ns = _next_level(ways, job, level_ns)
    return 0


@inlined
def _next_level(ways: DispatchOptions, job: int, above_ns: int) -> Any:
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
    job: int,
    level_ns: int,
    keeps: int,
    size: int,
) -> Any:
    """Room on all hosts, and the host that holds the whole ring with the least to spare."""
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
    job: int,
    size: int,
) -> Any:
    hosts = _take_hosts(state, room, size, False, room.hosts_S)
    if not gangs.shared_J[job]:
        return hosts
    loss_s = _loss_s(gangs, links, state, room, job, room.hosts_S, hosts)
    others = _take_hosts(state, room, size, True, room.other_S)
    if _loss_s(gangs, links, state, room, job, room.other_S, others) < loss_s:
        hosts = others
        for cell in range(hosts):
            room.hosts_S[cell] = room.other_S[cell]
    added_ns = _exchange_s(gangs, links, state, job, room.hosts_S, hosts) * 1e9
    slow = room.level_ns[0] + added_ns > ways.hop[0] * ways.least_ns_J[job]
    return 0 if slow and room.works[0] > 0 else hosts


@kernel
def _take_hosts(state: RingState, room: FreeDevices, size: int, quiet: bool, taken_S: Any) -> Any:
    """Hosts until the ring has room, by the rule."""
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
    state: RingState, room: FreeDevices, host: int, than: int, left: int, quiet: bool
) -> Any:
    mine, other = room.room_S[host], room.room_S[than]
    if quiet and state.crossing_S[host] != state.crossing_S[than]:
        return state.crossing_S[host] < state.crossing_S[than]
    if (mine >= left) != (other >= left):
        return mine >= left
    if mine != other:
        return mine < other if mine >= left else mine > other
    return state.crossing_S[host] < state.crossing_S[than]


@kernel
def _exchange_s(
    gangs: RingGangs, links: RingLinks, state: RingState, job: int, taken_S: Any, hosts: int
) -> Any:
    most = 0
    for cell in range(hosts):
        most = max(most, state.crossing_S[taken_S[cell]] + 1)
    return gangs.sent_bytes_J[job] / links.rate_P[most] + links.host_s[0] * hosts


@kernel
def _loss_s(
    gangs: RingGangs,
    links: RingLinks,
    state: RingState,
    room: FreeDevices,
    job: int,
    taken_S: Any,
    hosts: int,
) -> Any:
    """Device time of the ring's exchanges and of what it adds to those of others that it meets."""
    size = gangs.first_J[job + 1] - gangs.first_J[job]
    exchange_s = _exchange_s(gangs, links, state, job, taken_S, hosts)
    loss_s = exchange_s * gangs.rounds_J[job] * size
    room.turn[0] += 1
    for cell in range(hosts):
        room.turn_S[taken_S[cell]] = room.turn[0]
    for cell in range(hosts):
        host, last = taken_S[cell], -1
        if state.crossing_S[host] == 0:
            continue
        for place in range(links.first_S[host], links.first_S[host + 1]):
            other = state.gang_D[links.device_K[place]]
            if other >= 0 and other != last and crosses(gangs, state, other):
                last = other
                loss_s += _added_s(gangs, links, state, room, other, host)
    return loss_s


@kernel
def _added_s(
    gangs: RingGangs, links: RingLinks, state: RingState, room: FreeDevices, other: int, here: int
) -> Any:
    """What a ring at work loses; counted at the first of its hosts that is taken."""
    before, after, counted = 0, 0, False
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
    size = gangs.first_J[other + 1] - gangs.first_J[other]
    sent = gangs.sent_bytes_J[other]
    added_s = sent / links.rate_P[after] - sent / links.rate_P[before]
    return added_s * state.left_J[other] * size
