"""Lower bounds on sum w_j (C_j - a_j) and on the makespan, for every schedule of the problem.

Symbols. Job j arrives at a_j and has R_j rounds of n_j tasks; one task takes T^c_jt on the COMP
lane of a device of type t, then T^s_jt. There are D_t devices of type t.

- *path*: the rounds of a job follow one another. A device that runs k tasks of a round is done with
  them no sooner than k T^c + T^s. So a round takes at least q_j, the n_j-th smallest of these
  values over all devices and k = 1, 2, ...; hence C_j - a_j >= R_j q_j.
- *area* (makespan): the work of all jobs on all devices; with paths: *both* (``machine_load``).
- *gangs* (makespan): rings that find no room beside each other (``gang_packing``).
- *busy time* (JCT): the work of all jobs in time on one fast machine (``mean_busy_time``); split
  with paths: *both*.
- *prices* (JCT): every type of device has a price at every time, and each job answers with its
  cheapest schedule (``lagrangian``, ``subgradient``). The largest on all but small or simple
  instances.

A gang, which is a ring, has a device for each task and holds it from the start of a round to the
end of its exchange. So the work of a round is n_j (T^c + T^s), or n_j q_j where that is more.

All hold for the networks ``constant`` and ``lane`` (which is never faster), for every grain, and
for true times that are no less than the given ones; under ``contention`` for a T^s of rings that no
placement is below (``cost.run_rings.with_rings``). Values are float seconds, lowered by 1e-9 of
themselves and by their rounding errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warren.solve.bounds.columns import SAFE, BoundJobs, bound_jobs
from warren.solve.bounds.gang_packing import gang_bound
from warren.solve.bounds.machine_load import area_speeds, even_speeds, makespan_bound
from warren.solve.bounds.mean_busy_time import busy_time_bound
from warren.solve.bounds.subgradient import best_prices
from warren.solve.common.arrays import BoolArray, FloatArray, IntArray

NEAR: Final = 0.05
"""A busy-time bound that is so near to that of the prices is searched from more speeds, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBounds:
    """Bounds in seconds on the weighted JCT and the makespan, and the argument that gives each.

    path | area | gangs | busy time | both | prices.
    """

    weighted_jct_s: float
    makespan_s: float
    weighted_jct_by: str
    makespan_by: str


def lower_bounds(
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
) -> LowerBounds:
    """Compute bounds for all jobs that fit a device of the cluster; times in ns, weights >= 0.

    ``gang_J``: which jobs are gangs; by default none is.
    ``makespan_s`` is the last synchronization's end minus the first arrival.
    """
    jobs = bound_jobs(
        arrival_ns_J=arrival_ns_J,
        weight_J=weight_J,
        scale_J=scale_J,
        rounds_J=rounds_J,
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=sync_ns_JT,
        fits_JT=fits_JT,
        type_D=type_D,
        gang_J=gang_J,
    )
    if jobs is None:
        return LowerBounds(
            weighted_jct_s=0.0, makespan_s=0.0, weighted_jct_by="path", makespan_by="path"
        )
    makespan_s, makespan_by = makespan_bound(jobs)
    # With f(x) = x the gangs' bound is the area in another order of summing: it counts only if it
    # is larger by more than rounding.
    if (gangs_s := gang_bound(jobs)) * SAFE > makespan_s:
        makespan_s, makespan_by = gangs_s, "gangs"
    weighted_s, weighted_by = _weighted_bound(jobs)
    return LowerBounds(
        weighted_jct_s=weighted_s * SAFE,
        makespan_s=makespan_s * SAFE,
        weighted_jct_by=weighted_by,
        makespan_by=makespan_by,
    )


def _weighted_bound(jobs: BoundJobs) -> tuple[float, str]:
    """Compute the bound on the weighted JCT (s times weight), and say which argument gives it."""
    prices = best_prices(jobs)
    price_s = prices.bound_s if prices else 0.0
    # The prices leave little to look for, or nothing, so the costlier speeds are tried only where
    # the busy time has nearly as large a bound.
    found = busy_time_bound(jobs, even_speeds(jobs))
    if found[0] > price_s * (1 - NEAR) and jobs.work_s_JT.shape[1] > 1:
        found = max(found, busy_time_bound(jobs, area_speeds(jobs)), key=lambda one: one[0])
    return (price_s, "prices") if price_s > found[0] else found
