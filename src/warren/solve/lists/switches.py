"""Which units of a plan are the first of another job on their device, and what that costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from warren.solve.lists.plan_units import Rows, Units


def switch_times(rows: Rows, units: Units, type_D: Any, switch_ns_JT: Any) -> Any:
    """What each unit's device spends before it, int64 (U,); empty where nothing is charged.

    ``switch_ns_JT``: int64 (J, T), to a job on a type; None: nothing. A device's first job costs
    nothing.
    """
    if switch_ns_JT is None:
        return np.zeros(0, np.int64)
    row_U = units.row_U[: units.count[0]]
    job_U, device_U = rows.job_R[row_U], rows.device_R[row_U]
    order = np.argsort(device_U, kind="stable")  # units are numbered in device order
    job, device = job_U[order], device_U[order]
    changes = (job[1:] != job[:-1]) & (device[1:] == device[:-1])
    unit = order[1:][changes]
    time_ns_U = np.zeros(len(row_U), np.int64)
    time_ns_U[unit] = switch_ns_JT[job_U[unit], type_D[device_U[unit]]]
    return time_ns_U
