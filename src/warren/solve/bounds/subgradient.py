"""Good prices for device time: ascent on the priced bound, from a coarse grid to a fine one.

The bound of ``lagrangian`` is concave in the prices, apart from its small corrections, and the
device time that all jobs would buy minus what there is points uphill. Each step goes that way,
as far as a target just above the best value so far asks for (Polyak 1969); where a while brings
nothing, the target comes closer and the search returns to the best prices. Every step gives a
valid bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.solve.bounds.columns import BoundJobs
from warren.solve.bounds.lagrangian import EPS, LagrangianBound, new_scratch, respond

Floats = npt.NDArray[np.float64]
GRIDS: Final = (8, 16, 32, 64)
"""Intervals of the grids, each starting from the prices of the one before."""
STEPS: Final = 100
"""Prices tried on each grid."""
CELLS: Final = 400_000
"""A grid is used up to this many jobs times types times intervals."""
_PATIENCE: Final = 10
_FIRST_TARGET: Final = 0.05
_LATER_TARGET: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePrices:
    """The bound (float seconds, weighted), and the prices that give it: per second of a device
    of type t during each interval, intervals between ``grid_s_E``, 0 later."""

    bound_s: float
    price_TI: Floats
    grid_s_E: Floats


def best_prices(jobs: BoundJobs) -> DevicePrices | None:
    """Prices with a large bound; None where even the coarsest grid has more than CELLS cells."""
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
        if count > grids[0] and not best.price_TI.any():
            break  # nothing is scarce enough to have a price
    price_TI = np.zeros((len(used_T), best.price_TI.shape[1]))
    price_TI[used_T] = best.price_TI
    return replace(best, price_TI=price_TI)


def to_price(jobs: BoundJobs) -> LagrangianBound | None:
    """What ``lagrangian`` needs to know of the jobs, on a grid of one interval.

    Types without a device are left out, and jobs that take no time (all of their tasks are free
    of cost somewhere); None if there are no other jobs. Arrivals are rounded down: one that were
    rounded up to an edge of a grid would deny its job what lies before.
    """
    lasts_J, used_T = jobs.path_s_J > 0, jobs.devices_T > 0
    if not lasts_J.any():
        return None
    path_s_JT = jobs.path_s_JT[lasts_J][:, used_T]
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
    """When nothing is scarce any more, probably."""
    busy_s = float(problem.work_s_JT.min(axis=1).sum() / problem.devices_T.sum())
    alone_s_J = problem.arrival_s_J + problem.path_s_JT.min(axis=1)
    return float(alone_s_J.max()) + 2 * busy_s


def _on_grid(prices: DevicePrices, count: int, devices_T: Floats) -> DevicePrices:
    """The same prices on ``count`` equal intervals, up to where they matter."""
    edge_s_E = prices.grid_s_E
    worth_I = devices_T @ prices.price_TI * np.diff(edge_s_E)
    matter = np.flatnonzero(worth_I > 1e-4 * worth_I.sum())
    horizon_s = edge_s_E[min(matter[-1] + 2, len(worth_I))] if len(matter) else edge_s_E[-1]
    grid_s_E = np.linspace(0.0, horizon_s, count + 1)
    middle_s_I = (grid_s_E[1:] + grid_s_E[:-1]) / 2
    old_I = np.searchsorted(edge_s_E, middle_s_I, side="right") - 1
    price_TI = prices.price_TI[:, np.clip(old_I, 0, prices.price_TI.shape[1] - 1)]
    return DevicePrices(bound_s=0.0, price_TI=np.ascontiguousarray(price_TI), grid_s_E=grid_s_E)


def _ascend(problem: LagrangianBound, start: DevicePrices, target: float) -> DevicePrices:
    scratch, price_TI = new_scratch(problem), start.price_TI
    length_I = np.diff(problem.grid_s_E)
    supply_s_TI = problem.devices_T[:, None] * length_I
    best, best_TI, uphill_TI, idle = -np.inf, price_TI, np.zeros_like(price_TI), 0
    for _ in range(STEPS):
        value = respond(problem, price_TI, scratch)
        idle = 0 if value > best + 1e-5 * abs(best) else idle + 1
        excess_TI = scratch.bought_s_TI - supply_s_TI
        if value > best:
            best, best_TI, uphill_TI = value, price_TI, excess_TI
        if idle > _PATIENCE:
            target, idle, price_TI, excess_TI, value = target * 0.5, 0, best_TI, uphill_TI, best
        excess_TI = np.where((price_TI <= 0) & (excess_TI < 0), 0.0, excess_TI)
        step_TI = excess_TI / (supply_s_TI * length_I).clip(1e-300)
        slope = float((excess_TI * step_TI).sum())
        if slope <= 0:
            break
        missing = max(best, 1e-12) * (1 + target) - value
        price_TI = np.maximum(price_TI + missing / slope * step_TI, 0.0)
    return DevicePrices(bound_s=max(best, 0.0), price_TI=best_TI, grid_s_E=problem.grid_s_E)
