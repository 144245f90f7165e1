"""Binary heaps and one sorted list, in arrays of fixed size that their owner makes.

All heaps but the indexed one sift the same way; the children of cell c of a heap that begins at
cell 0 are 2 c + 1 and 2 c + 2. An entry is a key and its owner. Of equal keys the entry that is
moved gives way, unless its owner (the index) counts too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, Int, IntArray
from warren.solve.common.compile import inlined, kernel


class Heaps(NamedTuple):
    """Several heaps in flat arrays over the cells C.

    Heap t has ``count_T[t]`` entries, from cell ``first_T[t]`` on, one of the least key first.
    Entry c has the key ``key_C[c]`` and belongs to ``who_C[c]``, a job or a device.
    """

    key_C: IntArray
    who_C: IntArray
    first_T: IntArray
    count_T: IntArray


def new_heaps(heaps: int, most: int) -> Heaps:
    """Make empty heaps, each with room for ``most`` entries at a time."""
    return Heaps(
        key_C=np.zeros(heaps * most, np.int64),
        who_C=np.zeros(heaps * most, np.int64),
        first_T=np.arange(heaps, dtype=np.int64) * most,
        count_T=np.zeros(heaps, np.int64),
    )


def idle_devices(type_D: IntArray, types: int) -> Heaps:
    """Make one heap for each type, of all its devices, the lowest index first."""
    # Ascending keys are a heap as they stand.
    device_C, first_T = in_groups(type_D, types)
    return Heaps(
        key_C=device_C.copy(), who_C=device_C, first_T=first_T[:-1], count_T=np.diff(first_T)
    )


def in_groups(group_N: IntArray, groups: int) -> tuple[IntArray, IntArray]:
    """Return the members group by group, ascending in each, and the cells where groups begin.

    One more group begins behind the last: group g has the cells from ``first[g]`` to
    ``first[g + 1]``.
    """
    first_G = np.append(0, np.cumsum(np.bincount(group_N, minlength=groups))).astype(np.int64)
    return np.argsort(group_N, kind="stable").astype(np.int64), first_G


@kernel
def push(heaps: Heaps, heap: int, key: int, who: int) -> None:
    """Add an entry to a heap."""
    first = heaps.first_T[heap]
    cell = first + heaps.count_T[heap]
    heaps.count_T[heap] += 1
    _sift_up(heaps.key_C, heaps.who_C, first, cell, key, who)


@kernel
def push_all(heaps: Heaps, key_N: IntArray, who_N: IntArray) -> None:
    """Add entries to the first heap in one call: a call from Python takes longer than a push."""
    for place in range(len(who_N)):
        push(heaps, 0, key_N[place], who_N[place])


@kernel
def pop(heaps: Heaps, heap: int) -> Int:
    """Remove the first entry of a heap and return its owner. The heap must not be empty."""
    first = heaps.first_T[heap]
    taken: Int = heaps.who_C[first]
    heaps.count_T[heap] -= 1
    # The last entry takes the place of the first, and sinks to where it belongs.
    stop = first + heaps.count_T[heap]
    key, who = heaps.key_C[stop], heaps.who_C[stop]
    _sift_down(heaps.key_C, heaps.who_C, first, stop, first, key, who, False)
    return taken


@kernel
def _sift_up(key_C: IntArray, who_C: IntArray, first: int, cell: int, key: int, who: int) -> None:
    """Write an entry into ``cell`` or above it; every parent greater than it moves down."""
    while cell > first:
        parent = first + (cell - first - 1) // 2
        if key_C[parent] <= key:
            break
        key_C[cell] = key_C[parent]
        who_C[cell] = who_C[parent]
        cell = parent
    key_C[cell] = key
    who_C[cell] = who


@kernel
def _sift_down(
    key_C: IntArray,
    who_C: IntArray,
    first: int,
    stop: int,
    cell: int,
    key: int,
    who: int,
    who_counts: bool,
) -> None:
    """Write an entry into ``cell`` or below it; the least child moves up while it is less.

    The heap has the cells from ``first`` to ``stop``. ``who_counts``: keys that are equal are
    compared by their owners.
    """
    # Cell first + i has its children at first + 2 i + 1 and first + 2 i + 2.
    child = 2 * cell - first + 1
    while child < stop:
        right = child + 1
        if right < stop and (
            key_C[right] < key_C[child]
            or (who_counts and key_C[right] == key_C[child] and who_C[right] < who_C[child])
        ):
            child = right
        if key < key_C[child] or (key == key_C[child] and not (who_counts and who > who_C[child])):
            break
        key_C[cell] = key_C[child]
        who_C[cell] = who_C[child]
        cell = child
        child = 2 * cell - first + 1
    key_C[cell] = key
    who_C[cell] = who


class DeviceHeaps(NamedTuple):
    """One heap of devices for each type, in order of (time free, device); none is ever removed.

    Type t has the cells from ``first_T[t]`` to ``first_T[t + 1]``.
    """

    free_ns_C: IntArray
    device_C: IntArray
    first_T: IntArray


def new_device_heaps(type_D: IntArray, types: int) -> DeviceHeaps:
    """Make the heaps of all devices, each free at time 0."""
    device_C, first_T = in_groups(type_D, types)
    return DeviceHeaps(
        free_ns_C=np.zeros(len(type_D), dtype=np.int64), device_C=device_C, first_T=first_T
    )


def usable(fits_JT: BoolArray, type_D: IntArray) -> BoolArray:
    """Return which jobs may run on which types, bool (J, T).

    A job may if it fits the type and the cluster has devices of it.
    """
    return fits_JT & (np.bincount(type_D, minlength=fits_JT.shape[1]) > 0)


@kernel
def first_is_before(devices: DeviceHeaps, kind: int, other: int) -> bool:
    """Tell whether the first device of a type comes before that of another, by (time, index)."""
    cell, rival = devices.first_T[kind], devices.first_T[other]
    if devices.free_ns_C[cell] != devices.free_ns_C[rival]:
        free_before: bool = devices.free_ns_C[cell] < devices.free_ns_C[rival]
        return free_before
    index_before: bool = devices.device_C[cell] < devices.device_C[rival]
    return index_before


@inlined
def soonest(
    devices: DeviceHeaps,
    usable_NT: BoolArray,
    turn_ns_NT: IntArray,
    comp_ns_NT: IntArray,
    row: int,
    now: int,
    weight: int,
) -> int:
    """Find the type on whose first device ``weight`` turns of a task end first.

    They end at max(now, free) + ``weight`` x turn; the task is that of ``row``. Ties go to the
    smaller T^c, then to the lower type; -1 if no type is usable. A type without devices is not.
    """
    best = -1
    best_ns = 0
    best_comp_ns = 0
    for kind in range(len(devices.first_T) - 1):
        if not usable_NT[row, kind] or devices.first_T[kind] == devices.first_T[kind + 1]:
            continue
        comp_ns = comp_ns_NT[row, kind]
        time_ns = max(now, devices.free_ns_C[devices.first_T[kind]])
        time_ns += weight * turn_ns_NT[row, kind]
        if best < 0 or time_ns < best_ns or (time_ns == best_ns and comp_ns < best_comp_ns):
            best = kind
            best_ns = time_ns
            best_comp_ns = comp_ns
    return best


@kernel
def replace_top(devices: DeviceHeaps, kind: int, free_ns: int) -> None:
    """Make the first device of a type free at ``free_ns`` instead, no earlier than before."""
    # Its time only grows, so the device can only sink.
    first = devices.first_T[kind]
    _sift_down(
        devices.free_ns_C,
        devices.device_C,
        first,
        devices.first_T[kind + 1],
        first,
        free_ns,
        devices.device_C[first],
        True,
    )


@kernel
def rebuild(devices: DeviceHeaps, kind: int, free_ns_D: IntArray) -> None:
    """Rebuild the heap of one type's devices by ``free_ns_D`` (Floyd's construction, in O(n))."""
    first, stop = devices.first_T[kind], devices.first_T[kind + 1]
    for cell in range(first, stop):
        devices.free_ns_C[cell] = free_ns_D[devices.device_C[cell]]
    # The second half are leaves. From the last inner cell up, both subtrees are heaps already.
    for cell in range(first + (stop - first) // 2 - 1, first - 1, -1):
        free_ns, device = devices.free_ns_C[cell], devices.device_C[cell]
        _sift_down(devices.free_ns_C, devices.device_C, first, stop, cell, free_ns, device, True)


class IndexedHeap(NamedTuple):
    """A heap of at most one time for each of N, that can be changed: it knows everyone's cell.

    Those in ``who_E[:count[0]]`` have a time, one of the earliest at the top. ``cell_N`` says in
    which cell each is; -1: has no time.
    """

    time_ns_N: IntArray
    who_E: IntArray
    cell_N: IntArray
    count: Any  # IntArray; a tuple's method has this name


def new_indexed_heap(most: int) -> IndexedHeap:
    """Make an indexed heap for ``most`` owners, none of which has a time yet."""
    return IndexedHeap(
        time_ns_N=np.zeros(most, np.int64),
        who_E=np.zeros(most, np.int64),
        cell_N=np.full(most, -1, np.int64),
        count=np.zeros(1, np.int64),
    )


@kernel
def set_time(heap: IndexedHeap, who: int, time_ns: int) -> None:
    """Give ``who`` a time, in place of its present time, if it has one."""
    if heap.cell_N[who] < 0:
        _put(heap, heap.count[0], who)
        heap.count[0] += 1
    heap.time_ns_N[who] = time_ns
    # The time may have become earlier or later; one of the two does nothing.
    _rise(heap, heap.cell_N[who])
    _sink(heap, heap.cell_N[who])


@kernel
def take_first(heap: IndexedHeap) -> Int:
    """Remove an entry with the earliest time and return its owner. The heap must not be empty."""
    first: Int = heap.who_E[0]
    heap.cell_N[first] = -1
    heap.count[0] -= 1
    if heap.count[0] > 0:
        _put(heap, 0, heap.who_E[heap.count[0]])
        _sink(heap, 0)
    return first


@kernel
def _put(heap: IndexedHeap, cell: int, who: int) -> None:
    """Write an owner into a cell, and the cell into the index of owners."""
    heap.who_E[cell] = who
    heap.cell_N[who] = cell


@kernel
def _rise(heap: IndexedHeap, cell: int) -> None:
    """Move the entry in ``cell`` up past all later entries."""
    who = heap.who_E[cell]
    time_ns = heap.time_ns_N[who]
    while cell > 0 and heap.time_ns_N[heap.who_E[(cell - 1) // 2]] > time_ns:
        _put(heap, cell, heap.who_E[(cell - 1) // 2])
        cell = (cell - 1) // 2
    _put(heap, cell, who)


@kernel
def _sink(heap: IndexedHeap, cell: int) -> None:
    """Move the entry in ``cell`` down past all earlier entries."""
    who, stop = heap.who_E[cell], heap.count[0]
    time_ns = heap.time_ns_N[who]
    child = 2 * cell + 1
    while child < stop:
        if (
            child + 1 < stop
            and heap.time_ns_N[heap.who_E[child + 1]] < heap.time_ns_N[heap.who_E[child]]
        ):
            child += 1
        if heap.time_ns_N[heap.who_E[child]] >= time_ns:
            break
        _put(heap, cell, heap.who_E[child])
        cell, child = child, 2 * child + 1
    _put(heap, cell, who)


class SortedJobs(NamedTuple):
    """Jobs in order of (key, index); the first ``count[0]`` entries of ``job_N`` are in use."""

    job_N: IntArray
    count: Any  # IntArray; a tuple's method has this name


def new_sorted_jobs(jobs: int) -> SortedJobs:
    """Make an empty list with room for ``jobs`` jobs."""
    return SortedJobs(job_N=np.zeros(jobs, np.int64), count=np.zeros(1, np.int64))


@kernel
def insert(ready: SortedJobs, key_J: IntArray | FloatArray, job: int) -> None:
    """Insert a job that is not in the list, at its place by (``key_J``, index)."""
    job_N = ready.job_N
    # Bisection: all before ``low`` come before the job, and none from ``high`` on does.
    low, high = 0, ready.count[0]
    while low < high:
        middle = (low + high) // 2
        other = job_N[middle]
        if key_J[other] < key_J[job] or (key_J[other] == key_J[job] and other < job):
            low = middle + 1
        else:
            high = middle
    for place in range(ready.count[0], low, -1):
        job_N[place] = job_N[place - 1]
    job_N[low] = job
    ready.count[0] += 1


@kernel
def remove(ready: SortedJobs, place: int) -> None:
    """Remove the job at ``place``; those behind it move up."""
    ready.count[0] -= 1
    for later in range(place, ready.count[0]):
        ready.job_N[later] = ready.job_N[later + 1]
