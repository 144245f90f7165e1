"""Rings in a given order, each started as soon as it has room: a schedule from an order.

Whenever a ring ends or comes, waiting rings are looked at in order, and each that has room starts
(``device_choice``). Later ones may pass a ring that has none. With ``reserve`` they may not put it
off: the devices that it will have first are kept for it, and of these only rings that end before
the last of them comes free take any. Times are those of ``timing``, contention included: (6)-(9) of
SJF-BCO.

*Source.* Ours. The reservation is EASY backfilling (Lifka, 1995), with devices instead of counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.heaps import IndexedHeap, new_indexed_heap, set_time, take_first
from warren.solve.rings.device_choice import DispatchOptions, FreeDevices, choose_hosts, new_room
from warren.solve.rings.timing import (
    RingGangs,
    RingLinks,
    RingState,
    crosses,
    end_gang,
    mark_changed,
    new_state,
    price_changed,
    start_gang,
)


class DispatchScratch(NamedTuple):
    """The arrays that a dispatch writes, used again for the next one.

    ``line_J`` is the order. ``after_J`` links the places of the rings that wait: the next place
    for each, -1 behind the last; the cell behind the places is the head. ``device_A`` has the
    devices of each ring as ``RingGangs`` says.
    """

    state: RingState
    room: FreeDevices
    copy: IndexedHeap
    all_free_ST: IntArray
    line_J: IntArray
    after_J: IntArray
    begun_J: IntArray  # rings that have started, in the order of their starts
    begun: IntArray  # how many of them there are
    device_A: IntArray


def new_desk(gangs: RingGangs, links: RingLinks) -> DispatchScratch:
    """Make the arrays of a dispatch for the given rings and devices."""
    jobs, types = gangs.comp_ns_JT.shape
    room = new_room(links, types)
    return DispatchScratch(
        state=new_state(gangs, links),
        room=room,
        copy=new_indexed_heap(jobs),
        all_free_ST=room.free_ST.copy(),
        line_J=np.zeros(jobs, np.int64),
        after_J=np.zeros(jobs + 1, np.int64),
        begun_J=np.zeros(jobs, np.int64),
        begun=np.zeros(1, np.int64),
        device_A=np.zeros(int(gangs.first_J[-1]), np.int64),
    )


@kernel
def dispatch_rings(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    scratch: DispatchScratch,
    reserve: bool,
) -> None:
    """Run all rings in the order of ``line_J``; ends are in ``state.end_ns_J``.

    The loop of ``timing``, but that a ring gets its devices only when it starts.
    """
    _clear(gangs, scratch)
    state = scratch.state
    alarms = state.alarms
    instant = 0
    # A ring has at most one alarm: its arrival, and from its start on its end.
    for job in range(len(gangs.rounds_J)):
        set_time(alarms, job, gangs.ready_ns_J[job])
    while alarms.count[0] > 0:
        # All that end or arrive at one time are taken before anyone starts, so that a ring sees
        # all devices that come free with it; prices follow when all starts are known, as in (6).
        now, changed = alarms.time_ns_N[alarms.who_E[0]], 0
        while alarms.count[0] > 0 and alarms.time_ns_N[alarms.who_E[0]] == now:
            job = take_first(alarms)
            if state.works_J[job]:
                leave(gangs, links, scratch, job, now)
                changed = mark_changed(gangs, state, job, changed, instant)
        changed = start_those_with_room(
            gangs, links, ways, scratch, now, changed, instant, -1 if reserve else -2
        )
        price_changed(gangs, links, state, changed, instant, now)
        instant += 1


@kernel
def _clear(gangs: RingGangs, scratch: DispatchScratch) -> None:
    """Set the arrays to their values before any ring has started."""
    state = scratch.state
    room = scratch.room
    jobs = len(gangs.rounds_J)
    state.next_A[:] = -1
    state.round_ns_J[:] = 0
    state.exchange_ns_J[:] = -1
    state.end_ns_J[:] = -1
    state.works_J[:] = False
    state.gang_D[:] = -1
    state.crossing_S[:] = 0
    state.seen_J[:] = -1
    state.seen_S[:] = -1
    state.alarms.cell_N[:] = -1
    state.alarms.count[0] = 0
    for host in range(room.free_ST.shape[0]):
        for kind in range(room.free_ST.shape[1]):
            room.free_ST[host, kind] = scratch.all_free_ST[host, kind]
    room.free[0] = len(state.gang_D)
    room.works[0] = 0
    scratch.begun[0] = 0
    # All places are linked in order; the cell behind them is the head of the list.
    for place in range(jobs):
        scratch.after_J[place] = place + 1 if place + 1 < jobs else -1
    scratch.after_J[jobs] = 0


@kernel
def start_those_with_room(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    scratch: DispatchScratch,
    now: Int,
    changed: Int,
    instant: Int,
    first: Int,
) -> Int:
    """Look once at the rings that wait, in order, and start each that has room.

    Parameters
    ----------
    changed, instant
        Hosts marked as changed before, and the number of this instant; see ``timing``.
    first
        The ring that no other may put off; -1: the first in the order that has no room; -2: none.

    Returns
    -------
    changed
        The number of hosts marked as changed, the starts included.
    """
    room = scratch.room
    before = len(gangs.rounds_J)  # the head of the list
    kept_until = -1
    place = scratch.after_J[before]
    while place >= 0 and room.free[0] > 0:
        job, after = scratch.line_J[place], scratch.after_J[place]
        if gangs.ready_ns_J[job] <= now:
            # EASY: a ring that would end after the kept devices are complete must leave them alone.
            keeps = 1 if kept_until >= 0 and now + ways.span_ns_J[job] > kept_until else 0
            size, hosts = gangs.first_J[job + 1] - gangs.first_J[job], 0
            if size <= room.free[0] - keeps * room.kept[0]:
                hosts = choose_hosts(gangs, links, ways, scratch.state, room, job, keeps)
            if hosts > 0:
                _take(gangs, links, ways, scratch, job, now, hosts, keeps)
                changed = mark_changed(gangs, scratch.state, job, changed, instant)
                # It waits no more: the place before it is linked to the place after it.
                scratch.after_J[before] = after
                place = after
                continue
            if kept_until < 0 and (first == -1 or first == job):
                kept_until = _reserve_devices(gangs, links, ways, scratch, job, now)
        before, place = place, after
    # A reservation lasts for one look: the next look makes a new one, from the devices free by
    # then.
    if kept_until >= 0:
        room.kept_ST[:] = 0
        room.kept_D[:] = False
        room.kept[0] = 0
    return changed


@kernel
def _take(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    scratch: DispatchScratch,
    job: Int,
    now: Int,
    hosts: Int,
    keeps: Int,
) -> None:
    """Give a ring devices of the chosen hosts, and start it.

    ``keeps``: 1 if it must leave the kept devices alone, else 0.
    """
    room, state = scratch.room, scratch.state
    row, stop = gangs.first_J[job], gangs.first_J[job + 1]
    for cell in range(hosts):
        host = room.hosts_S[cell]
        state.host_A[gangs.first_J[job] + cell] = host
        # Kept devices come last, so that as many as possible stay with the ring they are for.
        for kept in (False, True):
            if kept and keeps:
                break
            for place in range(links.first_S[host], links.first_S[host + 1]):
                device = links.device_K[place]
                kind = links.type_D[device]
                if row == stop or state.gang_D[device] >= 0 or room.kept_D[device] != kept:
                    continue
                if 0 <= ways.pace_ns_JT[job, kind] <= room.level_ns[0]:
                    scratch.device_A[row] = device
                    state.gang_D[device] = job
                    row += 1
                    room.free_ST[host, kind] -= 1
                    if kept:
                        room.kept_ST[host, kind] -= 1
                        room.kept_D[device] = False
                        room.kept[0] -= 1
    room.free[0] -= stop - gangs.first_J[job]
    room.works[0] += 1
    state.hosts_J[job] = hosts
    scratch.begun_J[scratch.begun[0]] = job
    scratch.begun[0] += 1
    # A ring that crosses is priced only after this look; until then its expected end stands for
    # the true one, since a reservation made in the same look reads the alarms.
    if crosses(gangs, state, job):
        set_time(state.alarms, job, now + ways.span_ns_J[job])
    start_gang(gangs, links, state, scratch.device_A, job, now)


@kernel
def leave(gangs: RingGangs, links: RingLinks, scratch: DispatchScratch, job: Int, now: Int) -> None:
    """End a ring, and count its devices as free."""
    end_gang(gangs, scratch.state, scratch.device_A, job, now)
    for row in range(gangs.first_J[job], gangs.first_J[job + 1]):
        device = scratch.device_A[row]
        scratch.room.free_ST[links.host_D[device], links.type_D[device]] += 1
    scratch.room.free[0] += gangs.first_J[job + 1] - gangs.first_J[job]
    scratch.room.works[0] -= 1


@kernel
def _reserve_devices(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    scratch: DispatchScratch,
    job: Int,
    now: Int,
) -> Int:
    """Keep the devices that the ring can have first, and return until when they are kept.

    Devices of rings that end first come first, then free ones, as many as it still needs.
    """
    alarms = scratch.state.alarms
    copy = scratch.copy
    room = scratch.room
    # Looking ahead takes the alarms out one after the other, so it works on a copy.
    copy.count[0] = alarms.count[0]
    for cell in range(alarms.count[0]):
        who = alarms.who_E[cell]
        copy.who_E[cell] = who
        copy.cell_N[who] = cell
        copy.time_ns_N[who] = alarms.time_ns_N[who]
    need, until = gangs.first_J[job + 1] - gangs.first_J[job], now
    free = 0
    for host in range(room.free_ST.shape[0]):
        for kind in range(room.free_ST.shape[1]):
            free += room.free_ST[host, kind] if ways.pace_ns_JT[job, kind] >= 0 else 0
    # Rings at work end in order of time until the devices that they leave and the free ones are
    # enough. All that end at the last of these times count, so that fewer free devices have to be
    # kept.
    while copy.count[0] > 0 and (need > free or copy.time_ns_N[copy.who_E[0]] == until):
        other = take_first(copy)
        if scratch.state.works_J[other]:
            until = copy.time_ns_N[other]
            for row in range(gangs.first_J[other], gangs.first_J[other + 1]):
                kind = links.type_D[scratch.device_A[row]]
                need -= 1 if ways.pace_ns_JT[job, kind] >= 0 else 0
    # The rest is kept among the free devices, those of the lowest numbers.
    for device in range(len(room.kept_D)):
        if need <= 0:
            break
        kind = links.type_D[device]
        if scratch.state.gang_D[device] < 0 and ways.pace_ns_JT[job, kind] >= 0:
            need -= 1
            room.kept_D[device] = True
            room.kept_ST[links.host_D[device], kind] += 1
            room.kept[0] += 1
    return until


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRings:
    """A ring that has started: its devices, the latest time of its end (ns), the rounds left."""

    devices: Sequence[int]
    until_ns: int
    rounds: int


def longest_ns_J(gangs: RingGangs, links: RingLinks, fits_JT: BoolArray) -> IntArray:
    """Return the longest time (ns) that each ring can take once it has its devices.

    It holds for any devices, and whatever else runs: (6)-(8) of SJF-BCO with each worker on a host
    of its own and as many gangs as the largest host has devices, or on one host, if that is slower.
    """
    # The range of (8) in section 5, "Basic Idea": p is at most max O_s, since each gang that
    # crosses a host has a device there; the servers of a ring are at most its G_j workers.
    most = int(np.diff(links.first_S).max(initial=1))
    slowest = min(float(links.rate_P[0]), float(np.asarray(links.rate_P)[: most + 1].min()))
    exchange_s_J = gangs.sent_bytes_J / slowest + links.host_s[0] * np.diff(gangs.first_J)
    comp_J, sync_J = (
        np.where(fits_JT, times_JT, 0).max(axis=1)
        for times_JT in (gangs.comp_ns_JT, gangs.sync_ns_JT)
    )
    added_J = np.where(gangs.shared_J, np.ceil(exchange_s_J * 1e9).astype(np.int64), sync_J)
    longest_J: IntArray = gangs.rounds_J * np.maximum(1, comp_J + added_J)
    return longest_J


def start_now(
    gangs: RingGangs,
    links: RingLinks,
    ways: DispatchOptions,
    at_work: Mapping[int, RunningRings],
    line: Sequence[int],
    now_ns: int,
    first: int,
) -> list[tuple[int, list[int]]]:
    """Choose the rings that start now, with their devices.

    Parameters
    ----------
    ways
        Choices of rings; ``ways.span_ns_J``: their longest times.
    at_work
        The rings that have started and not ended, by job.
    line
        The jobs that wait, in the order in which they are looked at.
    first
        The ring that the others may not put off, -2 for none: devices are kept for it if it has no
        room, until the rings at work have left it enough at the latest.

    Returns
    -------
    list
        Rings of ``line``, in its order, that have room, each with its devices in ascending order.
    """
    scratch = new_desk(gangs, links)
    for job, one in at_work.items():
        _place_running(gangs, links, scratch, job, one, now_ns)
    jobs = len(gangs.rounds_J)
    # Only the jobs of ``line`` are linked, by their places in it; the head is the cell behind the
    # places of all jobs.
    scratch.line_J[: len(line)] = line
    scratch.after_J[: len(line)] = np.arange(1, len(line) + 1)
    scratch.after_J[len(line) - 1] = -1
    scratch.after_J[jobs] = 0 if line else -1
    start_those_with_room(gangs, links, ways, scratch, now_ns, 0, 0, first)
    return [
        (job, sorted(scratch.device_A[gangs.first_J[job] : gangs.first_J[job + 1]].tolist()))
        for job in scratch.begun_J[: scratch.begun[0]].tolist()
    ]


def _place_running(
    gangs: RingGangs,
    links: RingLinks,
    scratch: DispatchScratch,
    job: int,
    one: RunningRings,
    now_ns: int,
) -> None:
    """Enter a ring that is at work: its devices, the hosts it crosses, and its latest end."""
    state = scratch.state
    room = scratch.room
    first = gangs.first_J[job]
    devices = np.array(one.devices, dtype=np.int64)
    hosts = np.unique(links.host_D[devices])
    scratch.device_A[first : first + len(devices)] = devices
    state.host_A[first : first + len(hosts)] = hosts
    state.hosts_J[job] = len(hosts)
    state.gang_D[devices] = job
    state.works_J[job] = True
    state.left_J[job] = one.rounds
    if gangs.shared_J[job] and len(hosts) > 1:
        state.crossing_S[hosts] += 1
    np.add.at(room.free_ST, (links.host_D[devices], links.type_D[devices]), -1)
    room.free[0] -= len(devices)
    room.works[0] += 1
    # It has not ended yet, so its end is later than now, whatever was promised.
    set_time(state.alarms, job, max(now_ns + 1, one.until_ns))
