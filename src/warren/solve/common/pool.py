"""Devices of one type are alike but for when they are free: a heap a type.

All heaps lie in two flat arrays with one cell a device, ``free_ns_C`` and ``device_C``, ordered
by (time free, device); type t has the cells from ``first_T[t]`` to ``first_T[t + 1]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.compile import inlined, kernel


class Pool(NamedTuple):
    """One heap of devices per type; ``first_T`` has one entry more than there are types."""

    free_ns_C: Any
    device_C: Any
    first_T: Any


def new_pool(type_D: Any, types: int) -> Pool:
    """All devices free at time 0."""
    first_T = np.concatenate(([0], np.cumsum(np.bincount(type_D, minlength=types))))
    return Pool(
        free_ns_C=np.zeros(len(type_D), dtype=np.int64),
        device_C=np.argsort(type_D, kind="stable").astype(np.int64),
        first_T=first_T.astype(np.int64),
    )


def usable(fits_JT: Any, type_D: Any) -> Any:
    """Where a job may run: it fits the type and the cluster has such devices. Bool (J, T)."""
    return fits_JT & (np.bincount(type_D, minlength=fits_JT.shape[1]) > 0)


@kernel
def first_is_before(pool: Pool, kind: int, other: int) -> Any:
    """Whether the first device of one type comes before that of another: (time free, index)."""
    cell, rival = pool.first_T[kind], pool.first_T[other]
    if pool.free_ns_C[cell] != pool.free_ns_C[rival]:
        return pool.free_ns_C[cell] < pool.free_ns_C[rival]
    return pool.device_C[cell] < pool.device_C[rival]


@inlined
def soonest(
    pool: Pool, usable_NT: Any, turn_ns_NT: Any, comp_ns_NT: Any, row: int, now: int, weight: int
) -> int:
    """Type whose first device has the least max(now, free) + ``weight`` turns of a task of a row.

    Ties: smaller T^c, then lower type; -1 if none is usable. A type without devices is not.
    """
    best, best_ns, best_comp_ns = -1, 0, 0
    for kind in range(len(pool.first_T) - 1):
        if not usable_NT[row, kind] or pool.first_T[kind] == pool.first_T[kind + 1]:
            continue
        comp_ns = comp_ns_NT[row, kind]
        time_ns = max(now, pool.free_ns_C[pool.first_T[kind]])
        time_ns += weight * turn_ns_NT[row, kind]
        if best < 0 or time_ns < best_ns or (time_ns == best_ns and comp_ns < best_comp_ns):
            best, best_ns, best_comp_ns = kind, time_ns, comp_ns
    return best


@kernel
def replace_top(pool: Pool, kind: int, free_ns: int) -> None:
    """The first device of the type is free at ``free_ns`` (no earlier than before) instead."""
    first = pool.first_T[kind]
    _sift_down(pool, first, pool.first_T[kind + 1], first, free_ns, pool.device_C[first])


@kernel
def rebuild(pool: Pool, kind: int, free_ns_D: Any) -> None:
    """Heap the devices of one type anew by ``free_ns_D``."""
    first, stop = pool.first_T[kind], pool.first_T[kind + 1]
    for cell in range(first, stop):
        pool.free_ns_C[cell] = free_ns_D[pool.device_C[cell]]
    for cell in range(first + (stop - first) // 2 - 1, first - 1, -1):
        _sift_down(pool, first, stop, cell, pool.free_ns_C[cell], pool.device_C[cell])


@kernel
def _sift_down(pool: Pool, first: int, stop: int, cell: int, free_ns: int, owner: int) -> None:
    time, device = pool.free_ns_C, pool.device_C
    child = 2 * cell - first + 1
    while child < stop:
        right = child + 1
        if right < stop and (
            time[right] < time[child]
            or (time[right] == time[child] and device[right] < device[child])
        ):
            child = right
        if free_ns < time[child] or (free_ns == time[child] and owner < device[child]):
            break
        time[cell] = time[child]
        device[cell] = device[child]
        cell = child
        child = 2 * cell - first + 1
    time[cell] = free_ns
    device[cell] = owner
