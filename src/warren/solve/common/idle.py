"""Idle devices: a heap a type, the lowest index first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.compile import kernel


class Idle(NamedTuple):
    """The heap of type t has the first ``count_T[t]`` cells of ``device_C`` from ``first_T[t]``."""

    device_C: Any
    first_T: Any
    count_T: Any


def new_idle(type_D: Any, types: int) -> Idle:
    """All devices are idle."""
    count_T = np.bincount(type_D, minlength=types).astype(np.int64)
    return Idle(
        device_C=np.argsort(type_D, kind="stable").astype(np.int64),
        first_T=np.cumsum(count_T) - count_T,
        count_T=count_T,
    )


@kernel
def give_back(idle: Idle, kind: int, device: int) -> None:
    """The device, of this type, is idle now."""
    first, cell = idle.first_T[kind], idle.count_T[kind]
    idle.count_T[kind] += 1
    while cell > 0 and idle.device_C[first + (cell - 1) // 2] > device:
        idle.device_C[first + cell] = idle.device_C[first + (cell - 1) // 2]
        cell = (cell - 1) // 2
    idle.device_C[first + cell] = device


@kernel
def take_first(idle: Idle, kind: int) -> int:
    """The idle device of the type with the lowest index, which is idle no more."""
    first, stop = idle.first_T[kind], idle.count_T[kind] - 1
    taken, last = idle.device_C[first], idle.device_C[first + stop]
    idle.count_T[kind] = stop
    cell, child = 0, 1
    while child < stop:
        if child + 1 < stop and idle.device_C[first + child + 1] < idle.device_C[first + child]:
            child += 1
        if idle.device_C[first + child] >= last:
            break
        idle.device_C[first + cell] = idle.device_C[first + child]
        cell, child = child, 2 * child + 1
    idle.device_C[first + cell] = last
    return int(taken)
