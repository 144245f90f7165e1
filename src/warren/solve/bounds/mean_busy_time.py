"""The busy-time bound on the weighted JCT, alone and mixed with the paths.

In the terms of ``machine_load``: with M_j the mean busy time of j on one fast machine of speed 1,
sum w_j M_j is least for preemptive WSPT, which always serves the released job of largest w_j / p_j
(Goemans 1996; Goemans, Queyranne, Schulz, Skutella and Wang 2002). And C_j >= M_j + d_j, since
round R_j - i is over by C_j - i q_j, and its COMP by the least s_jt before that. The job's volume
grows at a rate of at most r_j, that of its n_j fastest devices. So
d_j = (R_j - 1) q_j / 2 + min_t s_jt + p_j / (2 R_j r_j).

*Both.* Any split of the weights w = w' + w'' gives the bound
sum w'_j (M_j(w') + d_j - a_j) + sum w''_j R_j q_j. It is concave in w'; some steps of projected
subgradient ascent look for a good split, and every step is valid. The speeds v are searched
coordinate by coordinate.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.bounds.columns import BoundJobs
from warren.solve.bounds.machine_load import volumes
from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.common.compile import kernel
from warren.solve.common.heaps import Heaps, new_heaps, pop, push


class _Machine(NamedTuple):
    """The fast machine of speed 1, its jobs, and their served volumes in s."""

    release_ns_J: IntArray
    by_release_N: IntArray
    rank_J: IntArray  # the released job of least rank is served
    volume_s_J: FloatArray
    left_s_J: FloatArray
    moment_J: FloatArray  # of the volume served, about the job's release
    delay_s_J: FloatArray
    waiting: Heaps


def mean_busy_delays(
    release_ns_J: IntArray, weight_J: FloatArray, volume_s_J: FloatArray
) -> FloatArray:
    """Compute M_j - r_j (s) for always serving the released job of largest w / volume.

    This minimizes sum w_j M_j over all preemptive, fractional schedules (Goemans 1996). A job of
    no volume has a delay of 0. ``release_ns_J`` are int64; time is counted from the start of each
    busy period, so that a late release costs no precision: a delay is off by some rounding
    errors of its busy period's length, never of its date.
    """
    jobs = len(release_ns_J)
    # Jobs without weight come last.
    key_J = np.full(jobs, np.inf)
    np.divide(volume_s_J, weight_J, out=key_J, where=weight_J > 0)
    rank_J = np.empty(jobs, np.int64)
    rank_J[np.argsort(key_J, kind="stable")] = np.arange(jobs)
    machine = _Machine(
        release_ns_J=np.array(release_ns_J),
        by_release_N=np.argsort(release_ns_J, kind="stable"),
        rank_J=rank_J,
        volume_s_J=np.array(volume_s_J),
        left_s_J=np.array(volume_s_J),
        moment_J=np.zeros(jobs),
        delay_s_J=np.zeros(jobs),
        waiting=new_heaps(1, jobs),
    )
    _serve(machine)
    return machine.delay_s_J


@kernel
def _serve(machine: _Machine) -> None:
    """Run preemptive WSPT (Goemans 1996) from release to release, and write the delays."""
    order_N = machine.by_release_N
    volume_J = machine.volume_s_J
    left_J = machine.left_s_J
    waiting, jobs = machine.waiting, len(order_N)
    origin_ns = np.int64(0)
    time = 0.0
    place = 0
    while place < jobs or waiting.count_T[0] > 0:
        # A busy period begins: time is counted from here.
        if waiting.count_T[0] == 0:
            origin_ns, time = machine.release_ns_J[order_N[place]], 0.0
        while place < jobs and (machine.release_ns_J[order_N[place]] - origin_ns) / 1e9 <= time:
            job = order_N[place]
            if volume_J[job] > 0:
                push(waiting, 0, machine.rank_J[job], job)
            place += 1
        if waiting.count_T[0] == 0:
            continue
        job = waiting.who_C[0]
        # The first job is served until it is done or the next one is released.
        served, is_done = left_J[job], True
        until = time + served
        if place < jobs:
            following = (machine.release_ns_J[order_N[place]] - origin_ns) / 1e9
            if following < until:
                served = following - time
                until = following
                is_done = False
        left_J[job] -= served
        # The part served has its mean time in its middle: M_j - r_j is the sum of these moments
        # over the job's volume.
        waited = time - (machine.release_ns_J[job] - origin_ns) / 1e9
        machine.moment_J[job] += served * (waited + served / 2)
        time = until
        if is_done:
            pop(waiting, 0)
            machine.delay_s_J[job] = machine.moment_J[job] / volume_J[job]


SWEEPS: Final = 4
"""Rounds of the search for speeds, each over all types."""
STEPS: Final = 60
"""Steps of the search for a split of the weights."""
_ROUNDING: Final = 8 * float(np.finfo(np.float64).eps)
"""Largest relative rounding of the operations of one job."""


def busy_time_bound(jobs: BoundJobs, speed_T: FloatArray) -> tuple[float, str]:
    """Compute a bound on the weighted JCT (s times weight), and name the argument.

    path | busy time | both. ``speed_T``: the speeds v to search from.
    """
    path = float(jobs.weight_J @ jobs.path_s_J)
    tails = _tails(jobs)
    busy, speed_T = _search_speeds(jobs, tails, speed_T)
    both = _split(jobs, tails, speed_T)
    best = max(path, busy, both)
    by = {path: "path", busy: "busy time"}.get(best, "both")
    return best, by


def _search_speeds(
    jobs: BoundJobs, tails: tuple[FloatArray, FloatArray], speed_T: FloatArray
) -> tuple[float, FloatArray]:
    """Search for speeds with a large busy-time bound, one coordinate after the other."""
    # No type with devices has the speed 0: a factor would leave it there.
    speed_T = speed_T + 1e-6 * speed_T.max() * (jobs.devices_T > 0)
    best = _busy_time(jobs, tails, speed_T, jobs.weight_J)[0]
    used = np.nonzero(jobs.devices_T)[0]
    for sweep in range(SWEEPS if len(used) > 1 else 0):
        # 2, then its square root, and so on.
        factor = 2.0 ** (0.5**sweep)
        for kind in used:
            for step in (factor, 1 / factor):
                trial_T = speed_T.copy()
                trial_T[kind] *= step
                value = _busy_time(jobs, tails, trial_T, jobs.weight_J)[0]
                if value > best:
                    best, speed_T = value, trial_T
    return best, speed_T


def _split(jobs: BoundJobs, tails: tuple[FloatArray, FloatArray], speed_T: FloatArray) -> float:
    """Search for a good split of the weights w = w' + w'', and return the largest bound.

    Projected subgradient ascent over the share of each weight that counts as busy time.
    """
    share_J = np.ones(len(jobs.weight_J))
    best = 0.0
    for step in range(STEPS):
        busy_J = jobs.weight_J * share_J
        value, least_J = _busy_time(jobs, tails, speed_T, busy_J)
        best = max(best, value + float((jobs.weight_J - busy_J) @ jobs.path_s_J))
        # The derivative of the bound by w'_j, as a part of the larger term; steps of 1 / sqrt(k).
        slope_J = (least_J - jobs.path_s_J) / np.maximum(least_J, jobs.path_s_J).clip(1e-12)
        share_J = np.clip(share_J + slope_J / (1 + step) ** 0.5, 0.0, 1.0)
    return best


def _busy_time(
    jobs: BoundJobs, tails: tuple[FloatArray, FloatArray], speed_T: FloatArray, weight_J: FloatArray
) -> tuple[float, FloatArray]:
    """Compute sum w_j (M_j + d_j - a_j) for these weights, and its terms without the weight."""
    volume_J = volumes(jobs, speed_T)
    delay_J = mean_busy_delays(jobs.arrival_ns_J, weight_J, volume_J)
    least_J = delay_J + tails[0] + np.where(volume_J > 0, tails[1], 0.0)
    # A delay is off by a rounding error a job of its busy period, which all volumes bound.
    rounding_s = _ROUNDING * len(volume_J) * float(volume_J.sum())
    return float(weight_J @ least_J) - rounding_s * float(weight_J.sum()), least_J


def _tails(jobs: BoundJobs) -> tuple[FloatArray, FloatArray]:
    """Compute d_j, from the mean busy time to the completion, in two parts (s).

    The first holds always, the second is added for a job with a volume: half a round on
    the ``scale`` fastest devices, p_j / (2 R_j r_j).
    """
    # r_j: the n_j fastest devices, type by type.
    order_JT = np.argsort(jobs.comp_s_JT, axis=1, kind="stable")
    comp_JT = np.take_along_axis(jobs.comp_s_JT, order_JT, axis=1)
    before_JT = np.cumsum(jobs.devices_T[order_JT], axis=1) - jobs.devices_T[order_JT]
    taken_JT = np.clip(jobs.scale_J[:, None] - before_JT, 0, jobs.devices_T[order_JT])
    with np.errstate(divide="ignore", invalid="ignore"):
        tasks_per_s_J = np.where(taken_JT > 0, taken_JT / comp_JT, 0.0).sum(axis=1)
    round_s_J = jobs.path_s_J / jobs.rounds_J
    tail_J: FloatArray = (jobs.rounds_J - 1) / 2 * round_s_J + jobs.least_sync_s_J
    return tail_J, jobs.scale_J / (2 * tasks_per_s_J)
