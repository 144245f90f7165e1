"""Lower bounds on sum w_j (C_j - a_j) and on the makespan, for every schedule of the problem.

Symbols. Job j arrives at a_j and has R_j rounds of n_j tasks; one task takes c_jt on the COMP
lane of a device of type t, then s_jt. There are D_t devices of type t. W_jt = R_j n_j c_jt.

*Path.* The rounds of a job follow one another. A device that runs k tasks of a round is done with
them no sooner than k c_jt + s_jt, so a round takes at least q_j, the n_j-th smallest of these
values over all devices and k = 1, 2, ...; hence C_j - a_j >= R_j q_j.

*One fast machine.* Take speeds v_t >= 0 with sum_t D_t v_t = 1 and p_j = min_t v_t W_jt. While a
device of type t runs job j it completes the share 1 / W_jt of it a second, that is p_j / W_jt
<= v_t of the volume p_j; all devices together at most 1. So every schedule is, in volumes, a
preemptive schedule of one machine of speed 1 that may serve several jobs at fractional rates,
for any v. (v_t = 1 / sum D gives p_j = min_t W_jt / number of devices.) It follows:

- the work of all jobs released from r on ends at r + their sum of p_j or later, and one
  synchronisation still follows: a bound on the makespan for each r. The best v for r = min a is
  the dual of the area linear program (min C: sum_t x_jt = 1, sum_j W_jt x_jt <= D_t C);
- with M_j the mean busy time of j, sum w_j M_j is least for preemptive WSPT, which always serves
  the released job of largest w_j / p_j (Goemans 1996; Goemans, Queyranne, Schulz, Skutella and
  Wang 2002). And C_j >= M_j + d_j: round R_j - i is over by C_j - i q_j and its COMP by the least
  s_jt before that, and the job's volume grows at a rate of at most r_j, that of its n_j fastest
  devices, so d_j = (R_j - 1) q_j / 2 + min_t s_jt + p_j / (2 R_j r_j).

*Both.* Any split of the weights w = w' + w'' gives the bound
sum w'_j (M_j(w') + d_j - a_j) + sum w''_j R_j q_j. It is concave in w'; some steps of projected
subgradient ascent look for a good split, and every step is valid. The speeds v are searched
coordinate by coordinate.

Both hold for the networks ``constant`` and ``lane`` (which is never faster), for every grain, and
for true times that are no less than the given ones. Values are float seconds, lowered by 1e-9 of
themselves, and the busy-time bound by some rounding errors of the total volume a job, to stay
below rounding errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warren.solve.mean_busy import mean_busy_delays
from warren.solve.prices import best_prices
from warren.solve.rounds import least_round_ns

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SWEEPS: Final = 4
STEPS: Final = 60
LP_CELLS: Final = 20_000
"""The area linear program is solved up to this many jobs times types."""
_SAFE: Final = 1 - 1e-9
_ROUNDING: Final = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBounds:
    """Bounds in seconds, and the argument that binds: path | area | busy time | both."""

    weighted_jct_s: float
    makespan_s: float
    weighted_jct_by: str
    makespan_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Jobs:
    """Jobs that fit somewhere, in float seconds; what cannot run has infinite times."""

    arrival_ns_J: Ints
    arrival_s_J: Floats
    weight_J: Floats
    rounds_J: Floats
    scale_J: Ints
    path_s_J: Floats
    comp_s_JT: Floats
    work_s_JT: Floats
    least_sync_s_J: Floats
    devices_T: Ints


def lower_bounds(
    *,
    arrival_ns_J: Ints,
    weight_J: Floats,
    scale_J: Ints,
    rounds_J: Ints,
    comp_ns_JT: Ints,
    sync_ns_JT: Ints,
    fits_JT: npt.NDArray[np.bool_],
    type_D: Ints,
) -> LowerBounds:
    """Bounds for all jobs that fit a device of the cluster; times in ns, weights >= 0.

    ``makespan_s`` is the last synchronisation's end minus the first arrival.
    """
    devices_T = np.bincount(type_D, minlength=comp_ns_JT.shape[1])
    usable_JT = fits_JT & (devices_T > 0)
    kept = usable_JT.any(axis=1) & (rounds_J > 0)
    if not kept.any():
        return LowerBounds(
            weighted_jct_s=0.0, makespan_s=0.0, weighted_jct_by="path", makespan_by="path"
        )
    comp, sync, usable = comp_ns_JT[kept], sync_ns_JT[kept], usable_JT[kept]
    round_ns_J = least_round_ns(scale_J[kept], comp, sync, usable, devices_T)
    comp_s = np.where(usable, comp / 1e9, np.inf)
    rounds = rounds_J[kept].astype(np.float64)
    since_first_ns = np.asarray(arrival_ns_J[kept] - arrival_ns_J[kept].min(), dtype=np.int64)
    jobs = _Jobs(
        arrival_ns_J=since_first_ns,
        arrival_s_J=since_first_ns / 1e9,
        weight_J=np.asarray(weight_J[kept], dtype=np.float64),
        rounds_J=rounds,
        scale_J=scale_J[kept],
        path_s_J=rounds * round_ns_J / 1e9,
        comp_s_JT=comp_s,
        work_s_JT=comp_s * (rounds * scale_J[kept])[:, None],
        least_sync_s_J=np.where(usable, sync, sync.max()).min(axis=1) / 1e9,
        devices_T=devices_T,
    )
    area_T = _area_speeds(jobs)
    makespan_s, makespan_by = _makespan(jobs, area_T)
    weighted_s, weighted_by = _weighted(jobs, area_T)
    priced_s = _priced(jobs, comp_s + np.where(usable, sync / 1e9, 0.0))
    if priced_s > weighted_s:
        weighted_s, weighted_by = priced_s, "prices"
    return LowerBounds(
        weighted_jct_s=weighted_s * _SAFE,
        makespan_s=makespan_s * _SAFE,
        weighted_jct_by=weighted_by,
        makespan_by=makespan_by,
    )


def _volumes(jobs: _Jobs, speed_T: Floats) -> Floats:
    """p_j for speeds that are normalised here."""
    with np.errstate(invalid="ignore"):
        share_JT = np.where(np.isinf(jobs.work_s_JT), np.inf, jobs.work_s_JT * speed_T)
    volume_J: Floats = share_JT.min(axis=1) / float(jobs.devices_T @ speed_T)
    return volume_J


def _even_speeds(jobs: _Jobs) -> Floats:
    """Speeds in proportion to how fast the types are on average over the jobs."""
    best_J = np.maximum(jobs.comp_s_JT.min(axis=1), 1e-12)
    ratio_JT = np.where(np.isinf(jobs.comp_s_JT), 0.0, best_J[:, None] / jobs.comp_s_JT.clip(1e-12))
    speed_T: Floats = np.maximum(ratio_JT.mean(axis=0), 1e-9) * (jobs.devices_T > 0)
    return speed_T


def _area_speeds(jobs: _Jobs) -> Floats:
    """Dual prices of the area linear program where it is small; else average speeds."""
    count, types = jobs.work_s_JT.shape
    if count * types > LP_CELLS or types == 1:
        return _even_speeds(jobs)
    from scipy.optimize import linprog

    linear: Any = linprog  # its stubs know no sparse matrices
    job, kind = np.nonzero(np.isfinite(jobs.work_s_JT))
    work = jobs.work_s_JT[job, kind]
    scale = max(float(work.max()), 1e-12)
    from scipy.sparse import coo_array

    cells = np.arange(len(job))
    area = coo_array((work / scale, (kind, cells)), shape=(types, len(job) + 1)).tolil()
    area[:, len(job)] = -jobs.devices_T.reshape(-1, 1)
    whole = coo_array((np.ones(len(job)), (job, cells)), shape=(count, len(job) + 1)).tocsr()
    cost = np.zeros(len(job) + 1)
    cost[-1] = 1.0
    found = linear(
        cost, area.tocsr(), np.zeros(types), whole, np.ones(count), method="highs"
    )  # fmt: skip
    if found.status != 0:
        return _even_speeds(jobs)
    speed_T = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return speed_T if float(jobs.devices_T @ speed_T) > 0 else _even_speeds(jobs)


def _makespan(jobs: _Jobs, area_T: Floats) -> tuple[float, str]:
    path = float((jobs.arrival_s_J + jobs.path_s_J).max())
    latest_first = np.argsort(-jobs.arrival_s_J, kind="stable")
    arrival = jobs.arrival_s_J[latest_first]
    tail = np.minimum.accumulate(jobs.least_sync_s_J[latest_first])
    area = 0.0
    for speed_T in (area_T, _even_speeds(jobs)):
        volume = np.cumsum(_volumes(jobs, speed_T)[latest_first])
        area = max(area, float((arrival + volume + tail).max()))
    return (path, "path") if path >= area else (area, "area")


def _weighted(jobs: _Jobs, area_T: Floats) -> tuple[float, str]:
    path = float(jobs.weight_J @ jobs.path_s_J)
    starts = [_search_speeds(jobs, speed_T) for speed_T in (area_T, _even_speeds(jobs))]
    busy, speed_T = max(starts, key=lambda start: start[0])
    both = _split(jobs, speed_T)
    best = max(path, busy, both)
    by = {path: "path", busy: "busy time"}.get(best, "both")
    return best, by


def _priced(jobs: _Jobs, turn_s_JT: Floats) -> float:
    """The bound by prices over the jobs that take time; 0 if there are too many."""
    lasts = jobs.path_s_J > 0
    round_s_J = (jobs.path_s_J / jobs.rounds_J)[lasts]
    found = best_prices(
        arrival_s_J=jobs.arrival_s_J[lasts],
        weight_J=jobs.weight_J[lasts],
        rounds_J=jobs.rounds_J[lasts],
        path_s_JT=np.maximum(turn_s_JT[lasts], round_s_J[:, None]) * jobs.rounds_J[lasts, None],
        work_s_JT=jobs.work_s_JT[lasts],
        devices_T=jobs.devices_T.astype(np.float64),
    )
    return found.bound_s if found else 0.0


def _search_speeds(jobs: _Jobs, speed_T: Floats) -> tuple[float, Floats]:
    """Coordinate search for speeds with a large busy-time bound."""
    speed_T = speed_T + 1e-6 * speed_T.max() * (jobs.devices_T > 0)
    best = _busy_time(jobs, speed_T, jobs.weight_J)[0]
    used = np.nonzero(jobs.devices_T)[0]
    for sweep in range(SWEEPS if len(used) > 1 else 0):
        factor = 2.0 ** (0.5**sweep)
        for kind in used:
            for step in (factor, 1 / factor):
                trial_T = speed_T.copy()
                trial_T[kind] *= step
                value = _busy_time(jobs, trial_T, jobs.weight_J)[0]
                if value > best:
                    best, speed_T = value, trial_T
    return best, speed_T


def _split(jobs: _Jobs, speed_T: Floats) -> float:
    """Projected subgradient ascent over the share of each weight that counts as busy time."""
    share_J = np.ones(len(jobs.weight_J))
    best = 0.0
    for step in range(STEPS):
        busy_J = jobs.weight_J * share_J
        value, least_J = _busy_time(jobs, speed_T, busy_J)
        best = max(best, value + float((jobs.weight_J - busy_J) @ jobs.path_s_J))
        slope_J = (least_J - jobs.path_s_J) / np.maximum(least_J, jobs.path_s_J).clip(1e-12)
        share_J = np.clip(share_J + slope_J / (1 + step) ** 0.5, 0.0, 1.0)
    return best


def _busy_time(jobs: _Jobs, speed_T: Floats, weight_J: Floats) -> tuple[float, Floats]:
    """sum w_j (M_j + d_j - a_j) for these weights, and its terms without the weight."""
    volume_J = _volumes(jobs, speed_T)
    delay_J = mean_busy_delays(jobs.arrival_ns_J, weight_J, volume_J)
    least_J = delay_J + _tails(jobs, volume_J)
    # A delay is off by a rounding error a job of its busy period, which all volumes bound.
    rounding_s = _ROUNDING * len(volume_J) * float(volume_J.sum())
    return float(weight_J @ least_J) - rounding_s * float(weight_J.sum()), least_J


def _tails(jobs: _Jobs, volume_J: Floats) -> Floats:
    """d_j: from the mean busy time to the completion, at least."""
    rate_J = _top_rates(jobs, volume_J)
    last_s_J = np.divide(
        volume_J, 2 * jobs.rounds_J * rate_J, out=np.zeros_like(volume_J), where=rate_J > 0
    )
    round_s_J = jobs.path_s_J / jobs.rounds_J
    tail_J: Floats = (jobs.rounds_J - 1) / 2 * round_s_J + jobs.least_sync_s_J + last_s_J
    return tail_J


def _top_rates(jobs: _Jobs, volume_J: Floats) -> Floats:
    """r_j: volume a second of the ``scale`` fastest devices; infinite where a task takes none."""
    order_JT = np.argsort(jobs.comp_s_JT, axis=1, kind="stable")
    comp_JT = np.take_along_axis(jobs.comp_s_JT, order_JT, axis=1)
    before_JT = np.cumsum(jobs.devices_T[order_JT], axis=1) - jobs.devices_T[order_JT]
    taken_JT = np.clip(jobs.scale_J[:, None] - before_JT, 0, jobs.devices_T[order_JT])
    with np.errstate(divide="ignore", invalid="ignore"):
        speed_J = np.where(taken_JT > 0, taken_JT / comp_JT, 0.0).sum(axis=1)
        rate_J = volume_J * speed_J / (jobs.rounds_J * jobs.scale_J)
    return np.where(volume_J > 0, rate_J, 0.0)
