"""Gather the rows of a plan into units, and find where a device switches to another job.

A *unit* is one row of the result: one plan row, or the rows of one stretch of several rounds on
one device. Units of a stretch are contiguous, as its rows are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warren.solve.common.arrays import Int32Array, IntArray
from warren.solve.common.compile import kernel


class PlanRows(NamedTuple):
    """The columns of a plan, int64 of length R: one shard of one stretch on one device a row.

    Indices must be in range of the arrays of ``PlanTables``: no kernel checks them.
    """

    job_R: IntArray
    round_R: IntArray
    rounds_R: IntArray
    shard_R: IntArray
    device_R: IntArray


class PlanUnits(NamedTuple):
    """Rows gathered into units, ``count[0]`` of them; linked lists end in -1.

    Columns as long as the plan are int32: a plan of 2**31 rows fits no memory.
    """

    count: Any  # IntArray; a tuple's method has this name
    row_U: Int32Array  # first row
    tasks_U: Int32Array  # shards
    stretch_U: Int32Array  # first unit of the stretch
    next_U: Int32Array  # next unit on the same device
    next_row_R: Int32Array  # next row of the same unit
    head_D: IntArray  # first unit of each device
    last_D: IntArray  # last unit of each device so far
    last_row_D: IntArray  # last row of each device so far


class UnitTimes(NamedTuple):
    """The result of running a plan.

    ``status`` and ``row`` are ``execute_plan.OK`` and -1, or the fault and its row. ``row_U`` and
    ``tasks_U`` are first row and shards of each unit, in the plan's order; ``time_ns_XU`` is int64
    (4, U): start, COMP end, end and COMP time. ``finish_ns_J`` is each job's last barrier; -1 where
    the plan does not complete the job.
    """

    status: int
    row: int
    row_U: Int32Array
    tasks_U: Int32Array
    time_ns_XU: IntArray
    finish_ns_J: IntArray


def new_units(rows: int, devices: int) -> PlanUnits:
    """Make room for as many units as there are rows; there are none yet."""
    return PlanUnits(
        count=np.zeros(1, np.int64),
        row_U=np.zeros(rows, np.int32),
        tasks_U=np.zeros(rows, np.int32),
        stretch_U=np.zeros(rows, np.int32),
        next_U=np.full(rows, -1, np.int32),
        next_row_R=np.full(rows, -1, np.int32),
        head_D=np.full(devices, -1, np.int64),
        last_D=np.full(devices, -1, np.int64),
        last_row_D=np.full(devices, -1, np.int64),
    )


@kernel
def gather_units(rows: PlanRows, units: PlanUnits) -> None:
    """Fill ``units`` from the rows, in one pass."""
    count = stretch = 0
    for row in range(len(rows.job_R)):
        device = rows.device_R[row]
        # A row of one round is always a unit of its own. Longer ones begin a stretch where job,
        # round or length differ from the row before.
        if rows.rounds_R[row] == 1 or row == 0 or not _same_stretch(rows, row):
            stretch = count
        last = units.last_D[device]
        # The device has a unit of this very stretch already: the row is one more shard of it.
        if last >= stretch:
            units.next_row_R[units.last_row_D[device]] = row
            units.last_row_D[device] = row
            units.tasks_U[last] += 1
            continue
        if last < 0:
            units.head_D[device] = count
        else:
            units.next_U[last] = count
        units.last_D[device] = count
        units.last_row_D[device] = row
        units.row_U[count] = row
        units.tasks_U[count] = 1
        units.stretch_U[count] = stretch
        count += 1
    units.count[0] = count


@kernel
def planned_columns(
    rows: PlanRows, row_U: Int32Array, tasks_U: Int32Array, order_U: IntArray, out: IntArray
) -> None:
    """Fill ``out``, int64 (6, U), with the plan's columns of units, in the order ``order_U``.

    Its rows: job, round, rounds, shard, tasks, device; shard is -1 where a unit has several.
    """
    for place in range(len(order_U)):
        unit = order_U[place]
        row, tasks = row_U[unit], tasks_U[unit]
        out[0, place] = rows.job_R[row]
        out[1, place] = rows.round_R[row]
        out[2, place] = rows.rounds_R[row]
        out[3, place] = rows.shard_R[row] if tasks == 1 else -1
        out[4, place] = rows.rounds_R[row] * tasks
        out[5, place] = rows.device_R[row]


@kernel
def _same_stretch(rows: PlanRows, row: int) -> bool:
    """Tell whether a row belongs to the stretch of the row before it."""
    return bool(
        rows.job_R[row] == rows.job_R[row - 1]
        and rows.round_R[row] == rows.round_R[row - 1]
        and rows.rounds_R[row] == rows.rounds_R[row - 1]
    )


def switch_times(
    rows: PlanRows, units: PlanUnits, type_D: IntArray, switch_ns_JT: IntArray | None
) -> IntArray:
    """Return the time of the switch before each unit, int64 (U,); empty if none is charged.

    ``switch_ns_JT``: time of a switch to a job on a type, int64 (J, T) in ns; None: nothing is
    charged. A device's first job costs nothing.
    """
    if switch_ns_JT is None:
        return np.zeros(0, np.int64)
    row_U = units.row_U[: units.count[0]]
    job_U, device_U = rows.job_R[row_U], rows.device_R[row_U]
    # Units are numbered in the order of each device, and a stable sort keeps it.
    order = np.argsort(device_U, kind="stable")
    job, device = job_U[order], device_U[order]
    changes = (job[1:] != job[:-1]) & (device[1:] == device[:-1])
    unit = order[1:][changes]
    time_ns_U = np.zeros(len(row_U), np.int64)
    time_ns_U[unit] = switch_ns_JT[job_U[unit], type_D[device_U[unit]]]
    return time_ns_U
