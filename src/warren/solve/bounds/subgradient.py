"""Good prices for device time: ascent on the priced bound, from a coarse grid to a fine one.

The bound of ``lagrangian`` is concave in the prices, apart from its small corrections, and the
device time that all jobs would buy minus the supply points uphill. Each step goes that way, as far
as a target just above the best value found asks for (Polyak 1969); if that gains nothing for a
while, the target comes closer and the search returns to the best prices. Every step gives a valid
bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warren.solve.bounds.columns import BoundJobs
from warren.solve.bounds.lagrangian import EPS, LagrangianBound, new_scratch, respond
from warren.solve.common.arrays import FloatArray

GRIDS: Final = (8, 16, 32, 64)
"""Intervals of the grids, each starting from the prices of the one before."""
STEPS: Final = 100
"""Prices tried on each grid."""
CELLS: Final = 400_000
"""Most jobs times types times intervals for which a grid is used."""
_PATIENCE: Final = 10
"""Steps without a better value until the target comes closer."""
_FIRST_TARGET: Final = 0.05
"""Relative distance of the target above the best value, on the first grid."""
_LATER_TARGET: Final = 0.01
"""The same on later grids, whose first prices are good already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePrices:
    """The bound (float seconds, weighted), and the prices that give it.

    Per second of a device of type t during each interval, intervals between ``grid_s_E``; 0 later.
    """

    bound_s: float
    price_TI: FloatArray
    grid_s_E: FloatArray


def best_prices(jobs: BoundJobs) -> DevicePrices | None:
    """Search for prices with a large bound.

    None where no job takes time, or even the coarsest grid has more than CELLS cells.
    """
    problem = to_price(jobs)
    grids = [] if problem is None else [n for n in GRIDS if problem.path_s_JT.size * n <= CELLS]
    if problem is None or not grids:
        return None
    used_T = jobs.devices_T > 0
    best = DevicePrices(
        bound_s=0.0,
        price_TI=np.zeros((len(problem.devices_T), 1)),
        grid_s_E=problem.grid_s_E,
    )
    target = _FIRST_TARGET
    for count in grids:
        start = _on_grid(best, count, problem.devices_T)
        found = _ascend(problem._replace(grid_s_E=start.grid_s_E), start, target)
        best, target = (found if found.bound_s >= best.bound_s else best), _LATER_TARGET
        # Nothing is scarce enough to have a price, so a finer grid has none either.
        if count > grids[0] and not best.price_TI.any():
            break
    # Types without a device have the price 0.
    price_TI = np.zeros((len(used_T), best.price_TI.shape[1]))
    price_TI[used_T] = best.price_TI
    return replace(best, price_TI=price_TI)


def to_price(jobs: BoundJobs) -> LagrangianBound | None:
    """Collect the columns of the jobs that ``lagrangian`` needs, on a grid of one interval.

    Types without a device are left out, and jobs that take no time (all of their tasks are free of
    cost somewhere); None if there are no other jobs. Arrivals are rounded down: an arrival rounded
    up to an edge of a grid would deny its job the time before.
    """
    lasts_J, used_T = jobs.path_s_J > 0, jobs.devices_T > 0
    if not lasts_J.any():
        return None
    path_s_JT = jobs.path_s_JT[lasts_J][:, used_T]
    # l_t = P_t / R for the types that the job can use; L is the largest.
    round_s_JT = np.where(np.isfinite(path_s_JT), path_s_JT, 0.0) / jobs.rounds_J[lasts_J, None]
    problem = LagrangianBound(
        weight_J=jobs.weight_J[lasts_J],
        arrival_s_J=jobs.arrival_s_J[lasts_J] * (1 - 2 * EPS),
        path_s_JT=np.ascontiguousarray(path_s_JT),
        work_s_JT=np.ascontiguousarray(jobs.work_s_JT[lasts_J][:, used_T]),
        longest_s_J=round_s_JT.max(axis=1),
        devices_T=jobs.devices_T[used_T].astype(np.float64),
        grid_s_E=np.zeros(2),
    )
    return problem._replace(grid_s_E=np.array([0.0, _horizon_s(problem)]))


def _horizon_s(problem: LagrangianBound) -> float:
    """Guess when nothing is scarce any more (s); the first grid ends there.

    The last end of a job alone, plus twice the time that all devices together need at the least.
    """
    busy_s = float(problem.work_s_JT.min(axis=1).sum() / problem.devices_T.sum())
    alone_s_J = problem.arrival_s_J + problem.path_s_JT.min(axis=1)
    return float(alone_s_J.max()) + 2 * busy_s


def _on_grid(prices: DevicePrices, count: int, devices_T: FloatArray) -> DevicePrices:
    """Return the same prices on ``count`` equal intervals, up to where they matter."""
    # The new grid ends one interval after the last in which devices earn more than 1e-4 of all.
    edge_s_E = prices.grid_s_E
    worth_I = devices_T @ prices.price_TI * np.diff(edge_s_E)
    matter = np.flatnonzero(worth_I > 1e-4 * worth_I.sum())
    horizon_s = edge_s_E[min(matter[-1] + 2, len(worth_I))] if len(matter) else edge_s_E[-1]
    grid_s_E = np.linspace(0.0, horizon_s, count + 1)
    # Each new interval has the price of the old one in which its middle lies.
    middle_s_I = (grid_s_E[1:] + grid_s_E[:-1]) / 2
    old_I = np.searchsorted(edge_s_E, middle_s_I, side="right") - 1
    price_TI = prices.price_TI[:, np.clip(old_I, 0, prices.price_TI.shape[1] - 1)]
    return DevicePrices(bound_s=0.0, price_TI=np.ascontiguousarray(price_TI), grid_s_E=grid_s_E)


def _ascend(problem: LagrangianBound, start: DevicePrices, target: float) -> DevicePrices:
    """Improve prices on one grid by subgradient steps of Polyak's length; return the best.

    ``target``: relative distance of the value aimed at above the best one.
    """
    scratch, price_TI = new_scratch(problem), start.price_TI
    length_I = np.diff(problem.grid_s_E)
    supply_s_TI = problem.devices_T[:, None] * length_I
    best = -np.inf
    best_TI = price_TI
    uphill_TI = np.zeros_like(price_TI)
    idle = 0  # steps without a better value
    for _ in range(STEPS):
        value = respond(problem, price_TI, scratch)
        idle = 0 if value > best + 1e-5 * abs(best) else idle + 1
        # The supergradient: the device time that all jobs buy minus the supply.
        excess_TI = scratch.bought_s_TI - supply_s_TI
        if value > best:
            best = value
            best_TI = price_TI
            uphill_TI = excess_TI
        # Back to the best prices, with half of the aim.
        if idle > _PATIENCE:
            target = target * 0.5
            idle = 0
            price_TI = best_TI
            excess_TI = uphill_TI
            value = best
        # Projection: prices are never negative, so a price of 0 whose supply is not used up stays.
        excess_TI = np.where((price_TI <= 0) & (excess_TI < 0), 0.0, excess_TI)
        # Scaled by supply and length, so that types and intervals of any size move alike.
        step_TI = excess_TI / (supply_s_TI * length_I).clip(1e-300)
        slope = float((excess_TI * step_TI).sum())
        if slope <= 0:
            break
        # Polyak 1969: as far as a linear function with this slope would need to the target.
        missing = max(best, 1e-12) * (1 + target) - value
        price_TI = np.maximum(price_TI + missing / slope * step_TI, 0.0)
    return DevicePrices(bound_s=max(best, 0.0), price_TI=best_TI, grid_s_E=problem.grid_s_E)
