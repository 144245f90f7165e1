"""Which devices each ring gets, one ring after another, when no device may be given too much.

U of a device is the time of the rings that it has been given, each at its estimate rho. A ring
goes only to devices where U + rho stays within a limit. Four rules choose among these:

``LEAST_BUSY``
    Those of least U in the cluster: Algorithm 2 of SJF-BCO to the letter, and its baseline LS.
``USED_SERVERS``
    Host by host, those in use first, and on a host the least busy: what the paper says of
    Algorithm 2, and what the algorithm is named after.
``FIRST``
    The first ones, host by host: its baseline FF.
``FEW_SERVERS``
    Algorithm 3: hosts by their mean U, as many as have ``room`` times the devices needed; the least
    busy of these.

Ties go to the earlier host, then to the earlier device.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from warren.solve.common.compile import kernel
from warren.solve.rings.timing import RingLinks

LEAST_BUSY: Final = 0
USED_SERVERS: Final = 1
FIRST: Final = 2
FEW_SERVERS: Final = 3


class PackedRings(NamedTuple):
    """Rings J, device types T. ``first_J``: as in ``ring_times.Gangs``; ``rho_ns_J``: rho."""

    first_J: Any
    rho_ns_J: Any
    fits_JT: Any


class _Packed(NamedTuple):
    busy_ns_D: Any  # U
    busy_ns_S: Any  # its sum over a host
    turn_S: Any  # of the ring that chose the host last
    device_A: Any


def pack(
    rings: PackedRings,
    links: RingLinks,
    order_J: Any,
    *,
    small: int,
    large: int,
    kappa: int,
    limit_ns: int,
    room: float,
) -> tuple[Any, Any] | None:
    """Place rings in this order, by the rule ``small`` up to ``kappa`` devices, else by ``large``.

    Waiting lowers no U, so a ring that does not fit within the limit now never will.

    Returns
    -------
    device_A, busy_ns_D
        Devices of the rings, and U of each device; None if some ring has no place.
    """
    packed = _Packed(
        busy_ns_D=np.zeros(len(links.host_D), np.int64),
        busy_ns_S=np.zeros(len(links.first_S) - 1, np.int64),
        turn_S=np.full(len(links.first_S) - 1, -1, np.int64),
        device_A=np.full(int(rings.first_J[-1]), -1, np.int64),
    )
    done = _pack(
        rings, links, packed, np.asarray(order_J, np.int64), small, large, kappa, limit_ns, room
    )
    return (packed.device_A, packed.busy_ns_D) if done else None


@kernel
def _pack(
    rings: PackedRings,
    links: RingLinks,
    packed: _Packed,
    order_J: Any,
    small: int,
    large: int,
    kappa: int,
    limit_ns: int,
    room: float,
) -> Any:
    for place in range(len(order_J)):
        job = order_J[place]
        first, stop = rings.first_J[job], rings.first_J[job + 1]
        rule = small if stop - first <= kappa else large
        found = 0
        if rule == LEAST_BUSY:
            cells = len(links.device_K)
            found = _take(rings, links, packed, job, limit_ns, 0, cells, 0, 0)
        elif rule == USED_SERVERS:
            found = _from_used(rings, links, packed, job, limit_ns)
        elif rule == FIRST:
            found = _first(rings, links, packed, job, limit_ns)
        else:
            found = _from_few(rings, links, packed, job, limit_ns, room * (stop - first))
        if found < stop - first:
            return False
        for row in range(first, stop):
            device = packed.device_A[row]
            packed.busy_ns_D[device] += rings.rho_ns_J[job]
            packed.busy_ns_S[links.host_D[device]] += rings.rho_ns_J[job]
    return True


@kernel
def _may(
    rings: PackedRings, links: RingLinks, packed: _Packed, job: int, limit_ns: int, device: int
) -> Any:
    within = packed.busy_ns_D[device] + rings.rho_ns_J[job] <= limit_ns
    return within and rings.fits_JT[job, links.type_D[device]]


@kernel
def _take(
    rings: PackedRings,
    links: RingLinks,
    packed: _Packed,
    job: int,
    limit_ns: int,
    begin: int,
    end: int,
    kept: int,
    found: int,
) -> Any:
    """Of the devices from ``begin`` to ``end`` the least busy, beside ``found`` taken so far.

    The first ``kept`` of these stay; the others give way to devices that are less busy.
    """
    first, most = rings.first_J[job], rings.first_J[job + 1] - rings.first_J[job]
    device_A, busy_ns_D = packed.device_A, packed.busy_ns_D
    for place in range(begin, end):
        device = links.device_K[place]
        if not _may(rings, links, packed, job, limit_ns, device):
            continue
        if found == most:
            if found == kept or busy_ns_D[device] >= busy_ns_D[device_A[first + found - 1]]:
                continue
            found -= 1
        cell = found
        while cell > kept and busy_ns_D[device_A[first + cell - 1]] > busy_ns_D[device]:
            device_A[first + cell] = device_A[first + cell - 1]
            cell -= 1
        device_A[first + cell] = device
        found += 1
    return found


@kernel
def _from_used(
    rings: PackedRings, links: RingLinks, packed: _Packed, job: int, limit_ns: int
) -> Any:
    found, most = 0, rings.first_J[job + 1] - rings.first_J[job]
    for used in (True, False):
        for host in range(len(links.first_S) - 1):
            if (packed.busy_ns_S[host] > 0) == used and found < most:
                begin, end = links.first_S[host], links.first_S[host + 1]
                found = _take(rings, links, packed, job, limit_ns, begin, end, found, found)
    return found


@kernel
def _first(rings: PackedRings, links: RingLinks, packed: _Packed, job: int, limit_ns: int) -> Any:
    first, found = rings.first_J[job], 0
    for place in range(len(links.device_K)):
        device = links.device_K[place]
        if first + found == rings.first_J[job + 1]:
            break
        if _may(rings, links, packed, job, limit_ns, device):
            packed.device_A[first + found] = device
            found += 1
    return found


@kernel
def _from_few(
    rings: PackedRings, links: RingLinks, packed: _Packed, job: int, limit_ns: int, wanted: float
) -> Any:
    """Algorithm 3, lines 2 to 7: the host of least mean U that is left, until there are enough."""
    found, held = 0, 0
    while held < wanted:
        best, least = -1, 0.0
        for host in range(len(links.first_S) - 1):
            devices = links.first_S[host + 1] - links.first_S[host]
            if packed.turn_S[host] == job or devices == 0:
                continue
            mean = packed.busy_ns_S[host] / devices
            if best < 0 or mean < least:
                best, least = host, mean
        if best < 0:
            break
        packed.turn_S[best] = job
        begin, end = links.first_S[best], links.first_S[best + 1]
        for place in range(begin, end):
            held += 1 if rings.fits_JT[job, links.type_D[links.device_K[place]]] else 0
        found = _take(rings, links, packed, job, limit_ns, begin, end, 0, found)
    return found
