"""The jobs of an instance as the lower bounds see them: float seconds, from the first arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray
from warren.solve.common.round_time import least_round_ns

SAFE: Final = 1 - 1e-9
"""Factor that keeps a bound below the rounding errors of a few operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundJobs:
    """Jobs that fit somewhere, with their times in s; a type that a job cannot use has infinite.

    A gang holds each of its devices for all of a round, exchange and waiting included: its T^c here
    is T^c + T^s, or q_j where that is longer, and its T^s is 0. ``gang_J`` marks gangs;
    ``usable_JT`` the types on which a job may run. ``path_s_J`` is R_j q_j. ``path_s_JT``: R_j
    rounds with a task on type t in each, every one max(q_j, T^c_jt + T^s_jt) or longer.
    ``work_s_JT`` is R_j n_j T^c_jt.
    """

    arrival_ns_J: IntArray
    arrival_s_J: FloatArray
    weight_J: FloatArray
    rounds_J: FloatArray
    scale_J: IntArray
    path_s_J: FloatArray
    path_s_JT: FloatArray
    comp_s_JT: FloatArray
    work_s_JT: FloatArray
    least_sync_s_J: FloatArray
    devices_T: IntArray
    gang_J: BoolArray
    usable_JT: BoolArray


def bound_jobs(
    *,
    arrival_ns_J: IntArray,
    weight_J: FloatArray,
    scale_J: IntArray,
    rounds_J: IntArray,
    comp_ns_JT: IntArray,
    sync_ns_JT: IntArray,
    fits_JT: BoolArray,
    type_D: IntArray,
    gang_J: BoolArray | None = None,
) -> BoundJobs | None:
    """Collect the jobs with rounds that fit a device of the cluster; None if there are none.

    Times are in ns; ``gang_J``: which jobs are gangs, by default none.
    """
    devices_T = np.bincount(type_D, minlength=comp_ns_JT.shape[1])
    usable_JT = fits_JT & (devices_T > 0)
    kept = usable_JT.any(axis=1) & (rounds_J > 0)
    if not kept.any():
        return None
    comp = comp_ns_JT[kept]
    sync = sync_ns_JT[kept]
    usable = usable_JT[kept]
    gang = np.zeros(len(comp), dtype=np.bool_) if gang_J is None else gang_J[kept]
    # q_j; a gang has a device for each task, so none takes two of a round.
    most = np.where(gang, 1, scale_J[kept])
    round_ns_J = least_round_ns(scale_J[kept], comp, sync, usable, devices_T, most)
    # A gang's device is held for its own turn, or for q_j where that is longer.
    held = np.maximum(comp + sync, round_ns_J[:, None])
    comp, sync = np.where(gang[:, None], held, comp), np.where(gang[:, None], 0, sync)
    comp_s = np.where(usable, comp / 1e9, np.inf)
    rounds = rounds_J[kept].astype(np.float64)
    # A round with a task on type t: max(q_j, T^c_jt + T^s_jt), as in path_s_JT.
    turn_ns = np.maximum(np.where(usable, comp, 0) + np.where(usable, sync, 0), round_ns_J[:, None])
    since_first_ns = np.asarray(arrival_ns_J[kept] - arrival_ns_J[kept].min(), dtype=np.int64)
    return BoundJobs(
        arrival_ns_J=since_first_ns,
        arrival_s_J=since_first_ns / 1e9,
        weight_J=np.asarray(weight_J[kept], dtype=np.float64),
        rounds_J=rounds,
        scale_J=scale_J[kept],
        path_s_J=rounds * round_ns_J / 1e9,
        path_s_JT=np.where(usable, rounds[:, None] * turn_ns / 1e9, np.inf),
        comp_s_JT=comp_s,
        work_s_JT=comp_s * (rounds * scale_J[kept])[:, None],
        least_sync_s_J=np.where(usable, sync, sync.max()).min(axis=1) / 1e9,
        devices_T=devices_T,
        gang_J=gang,
        usable_JT=usable,
    )
