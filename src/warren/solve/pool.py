"""Devices of one type are alike but for when they are free: a heap a type.

All heaps lie in two flat arrays with one cell a device, ``free_ns_C`` and ``device_C``, ordered
by (time free, device); type t has the cells from ``first_T[t]`` to ``first_T[t + 1]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Pool(NamedTuple):
    """One heap of devices per type; ``first_T`` has one entry more than there are types."""

    free_ns_C: Any
    device_C: Any
    first_T: Any


@njit(cache=True, nogil=True)
def new_pool(type_D: Any, types: int) -> Pool:
    """All devices free at time 0."""
    devices = len(type_D)
    first_T = np.zeros(types + 1, np.int64)
    for kind in type_D:
        first_T[kind + 1] += 1
    for kind in range(types):
        first_T[kind + 1] += first_T[kind]
    device_C = np.empty(devices, np.int64)
    next_T = first_T.copy()
    for device in range(devices):
        kind = type_D[device]
        device_C[next_T[kind]] = device
        next_T[kind] += 1
    return Pool(np.zeros(devices, np.int64), device_C, first_T)


@njit(cache=True, nogil=True)
def usable(fits_JT: Any, pool: Pool) -> Any:
    """Where a job may run: it fits the type and the cluster has such devices. Bool (J, T)."""
    result_JT = fits_JT.copy()
    for kind in range(result_JT.shape[1]):
        if pool.first_T[kind] == pool.first_T[kind + 1]:
            result_JT[:, kind] = False
    return result_JT


@njit(cache=True, nogil=True)
def replace_top(pool: Pool, kind: int, free_ns: int) -> None:
    """The first device of the type is free at ``free_ns`` (no earlier than before) instead."""
    first = pool.first_T[kind]
    _sift_down(pool, first, pool.first_T[kind + 1], first, free_ns, pool.device_C[first])


@njit(cache=True, nogil=True)
def rebuild(pool: Pool, kind: int, free_ns_D: Any) -> None:
    """Heap the devices of one type anew by ``free_ns_D``."""
    first, stop = pool.first_T[kind], pool.first_T[kind + 1]
    for cell in range(first, stop):
        pool.free_ns_C[cell] = free_ns_D[pool.device_C[cell]]
    for cell in range(first + (stop - first) // 2 - 1, first - 1, -1):
        _sift_down(pool, first, stop, cell, pool.free_ns_C[cell], pool.device_C[cell])


@njit(cache=True, nogil=True)
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
