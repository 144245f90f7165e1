"""Devices of each ring, one ring after another, when no device may be given too much.

U of a device is the time of the rings that it has been given, each at its estimate rho. A ring
goes only to devices where U + rho stays within a limit, theta: (15) and (16) of SJF-BCO with u = 1.
Four rules choose among these:

``LEAST_BUSY``
    Those of least U in the cluster: Algorithm 2 of SJF-BCO to the letter, and its baseline LS.
``USED_SERVERS``
    Host by host, those in use first, and on a host the least busy: the paper's text on Algorithm 2,
    after which the algorithm is named.
``FIRST``
    The first ones, host by host: its baseline FF.
``FEW_SERVERS``
    Algorithm 3: hosts by their mean U, as many as have ``room`` times the devices needed; the least
    busy of these.

Ties go to the earlier host, then to the earlier device.

*Source.* SJF-BCO (MobiHoc'22), section 5, lines 10 to 18 of Algorithm 1, Algorithms 2 and 3, and
the baselines of section 7. ``room`` is lambda.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import BoolArray, Float, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.rings.timing import RingLinks

LEAST_BUSY: Final = 0
USED_SERVERS: Final = 1
FIRST: Final = 2
FEW_SERVERS: Final = 3


class PackedRings(NamedTuple):
    """Rings J, device types T. ``first_J``: as in ``timing.RingGangs``; ``rho_ns_J``: rho."""

    first_J: IntArray
    rho_ns_J: IntArray
    fits_JT: BoolArray


class _Packed(NamedTuple):
    """Devices given out."""

    busy_ns_D: IntArray  # U
    busy_ns_S: IntArray  # its sum over a host
    turn_S: IntArray  # of the ring that chose the host last
    device_A: IntArray


def pack(
    rings: PackedRings,
    links: RingLinks,
    order_J: npt.ArrayLike,
    *,
    small: int,
    large: int,
    kappa: int,
    limit_ns: int,
    room: float,
) -> tuple[IntArray, IntArray] | None:
    """Place rings in this order, by the rule ``small`` up to ``kappa`` devices, else by ``large``.

    Waiting lowers no U, so a ring that does not fit within the limit now never will.

    Parameters
    ----------
    small, large
        Rules, as the module's text has them.
    limit_ns
        theta: the most that U of a device may be.
    room
        lambda: ``FEW_SERVERS`` takes hosts with this many times the devices that a ring needs.

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
    order_J: IntArray,
    small: int,
    large: int,
    kappa: int,
    limit_ns: Int,
    room: float,
) -> bool:
    """Place all rings; False as soon as one has no place."""
    # Lines 10 to 18 of Algorithm 1, each ring by the rule that its size G_j calls for.
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
            found = _from_first(rings, links, packed, job, limit_ns)
        else:
            found = _from_few(rings, links, packed, job, limit_ns, room * (stop - first))
        # Lines 17 and 18. The paper waits first (Algorithm 2, line 9), which lowers no U.
        if found < stop - first:
            return False
        # U grows by rho: line 6 of Algorithm 2, line 10 of Algorithm 3.
        for row in range(first, stop):
            device = packed.device_A[row]
            packed.busy_ns_D[device] += rings.rho_ns_J[job]
            packed.busy_ns_S[links.host_D[device]] += rings.rho_ns_J[job]
    return True


@kernel
def _is_allowed(
    rings: PackedRings, links: RingLinks, packed: _Packed, job: Int, limit_ns: Int, device: Int
) -> bool:
    """Tell whether a device fits a ring and stays within the limit, (16), with it."""
    within = packed.busy_ns_D[device] + rings.rho_ns_J[job] <= limit_ns
    is_allowed: bool = within and rings.fits_JT[job, links.type_D[device]]
    return is_allowed


@kernel
def _take(
    rings: PackedRings,
    links: RingLinks,
    packed: _Packed,
    job: Int,
    limit_ns: Int,
    begin: Int,
    end: Int,
    kept: Int,
    found: Int,
) -> Int:
    """Take the least busy of the devices from ``begin`` to ``end``, beside the ``found`` ones.

    The first ``kept`` of these stay; the others give way to devices that are less busy. Returns
    how many the ring has then. This is line 4 of Algorithm 2, and lines 5 and 8 of Algorithm 3.
    """
    first, most = rings.first_J[job], rings.first_J[job + 1] - rings.first_J[job]
    device_A, busy_ns_D = packed.device_A, packed.busy_ns_D
    for place in range(begin, end):
        device = links.device_K[place]
        if not _is_allowed(rings, links, packed, job, limit_ns, device):
            continue
        if found == most:
            if found == kept or busy_ns_D[device] >= busy_ns_D[device_A[first + found - 1]]:
                continue
            found -= 1
        # Insertion keeps them in order of U, and equals in order of place: only a busier device
        # moves up.
        cell = found
        while cell > kept and busy_ns_D[device_A[first + cell - 1]] > busy_ns_D[device]:
            device_A[first + cell] = device_A[first + cell - 1]
            cell -= 1
        device_A[first + cell] = device
        found += 1
    return found


@kernel
def _from_used(
    rings: PackedRings, links: RingLinks, packed: _Packed, job: Int, limit_ns: Int
) -> Int:
    """Take devices host by host, of hosts in use first; return how many the ring has."""
    found, most = 0, rings.first_J[job + 1] - rings.first_J[job]
    # Devices taken from one host stay taken, also if a later host has less busy devices.
    for used in (True, False):
        for host in range(len(links.first_S) - 1):
            if (packed.busy_ns_S[host] > 0) == used and found < most:
                begin, end = links.first_S[host], links.first_S[host + 1]
                found = _take(rings, links, packed, job, limit_ns, begin, end, found, found)
    return found


@kernel
def _from_first(
    rings: PackedRings, links: RingLinks, packed: _Packed, job: Int, limit_ns: Int
) -> Int:
    """Take the first devices that the ring may have; return how many there are."""
    first, found = rings.first_J[job], 0
    for place in range(len(links.device_K)):
        device = links.device_K[place]
        if first + found == rings.first_J[job + 1]:
            break
        if _is_allowed(rings, links, packed, job, limit_ns, device):
            packed.device_A[first + found] = device
            found += 1
    return found


@kernel
def _from_few(
    rings: PackedRings, links: RingLinks, packed: _Packed, job: Int, limit_ns: Int, wanted: Float
) -> Int:
    """Take the least busy devices of the hosts with the least mean U; return how many there are.

    Algorithm 3, lines 2 to 8: the host of least mean U that is left, until there are ``wanted``
    devices.
    """
    found, held = 0, 0
    # Line 2: sum of O_s >= lambda_j G_j, the sort replaced by one search for each host chosen.
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
        # O_s counts the devices that fit the ring: with types, others are of no use to it.
        for place in range(begin, end):
            held += 1 if rings.fits_JT[job, links.type_D[links.device_K[place]]] else 0
        # Lines 4 to 8: with nothing kept, the least busy of all hosts chosen.
        found = _take(rings, links, packed, job, limit_ns, begin, end, 0, found)
    return found
