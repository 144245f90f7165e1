"""A ring's network fitted to measured rounds in both readings of (7), and how sure that is.

*Source.* (7) and (8) of SJF-BCO (``warren.cost.ring``). ``ours`` is ``warren.cost.ring_fit``. In
``published``, k = max(1, xi1 p) and f = k + alpha (k - 1), so that for a given xi1::

    tau - comp - sent / (2 C) = xi2 servers + (1 / b^e) sent k + (alpha / b^e) sent (k - 1)

is linear in three unknowns that cannot be negative. Over xi1 in (0, 1] the best is looked for: on a
grid, then between its neighbors.

*What the data tell.* See ``ring_fit``; ``unsure`` says it of given points. Of two parameters that
only show together, ``published`` gives the larger xi1, as ``ours`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import minimize_scalar, nnls

from warren.cost.ring import READINGS, Reading, RingJobs, RingNetwork, round_at_s_J
from warren.cost.ring_fit import RingFit, RingPoints, fit_ring
from warren.model.costs import BoolArray, FloatArray

_GRID: Final = np.linspace(1.0, 0.02, 50)
"""Values of xi1 that are tried, from the largest on."""
_SAME: Final = 1e-6
"""Residuals that differ by less are the same; the larger xi1 is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFit:
    """A network fitted in one reading, and its relative errors, fitted / measured - 1.

    ``error_N``: of all points; ``left_out_N``: of each point, where it and points measured like it
    were left out of the fit; ``nan`` where that cannot be.
    """

    network: RingNetwork
    error_N: FloatArray
    left_out_N: FloatArray

    @property
    def mean_error(self) -> float:
        """Return the mean absolute error of the points left out; of all where none can be."""
        known = np.abs(self.left_out_N[np.isfinite(self.left_out_N)])
        return float((known if len(known) else np.abs(self.error_N)).mean())


def fit_readings(points: RingPoints, inner_bytes_per_s: float) -> dict[Reading, ReadingFit]:
    """Fit both readings, the better first: by its mean error on points left out.

    Raises
    ------
    ValueError
        If the points do not determine a bandwidth, or the effect of contention.
    """
    found = {one: _with_errors(one, points, inner_bytes_per_s) for one in READINGS}
    # Errors that differ by less than 0.01 % are the same; then the name decides.
    order = sorted(found, key=lambda one: (round(found[one].mean_error, 4), one))
    return {one: found[one] for one in order}


def fit_network(reading: Reading, points: RingPoints, inner_bytes_per_s: float) -> RingNetwork:
    """Fit the network in one reading.

    Raises
    ------
    ValueError
        If the points do not determine a bandwidth, or the effect of contention.
    """
    ours = fit_ring(points)
    if reading == "ours":
        return ours.network(inner_bytes_per_s)
    return _published(points, ours, inner_bytes_per_s)


def errors(network: RingNetwork, points: RingPoints) -> FloatArray:
    """Return the relative errors of any points between hosts, fitted / measured - 1."""
    fitted_s_N = round_at_s_J(network, points.jobs, points.contenders_N, points.servers_N)
    return fitted_s_N / points.time_s_N - 1


def _with_errors(reading: Reading, points: RingPoints, inner: float) -> ReadingFit:
    """Fit one reading to all points, and once more without each kind of point, to validate it."""
    network = fit_network(reading, points, inner)
    left_out_N = np.full_like(points.time_s_N, np.nan)
    for like_N in _alike(points):
        try:
            other = fit_network(reading, points.where(~like_N), inner)
        except ValueError:
            # The rest does not determine all parameters: this kind has no error of this sort, but
            # nan.
            continue
        left_out_N[like_N] = errors(other, points.where(like_N))
    return ReadingFit(network=network, error_N=errors(network, points), left_out_N=left_out_N)


def _alike(points: RingPoints) -> Iterator[BoolArray]:
    """Yield for each different kind of point which points are of it."""
    # Points are of one kind if all but their times agree: a column of ``kinds`` is a point.
    kinds = np.stack(
        (
            points.message_bytes_N,
            points.contenders_N,
            points.servers_N,
            points.workers_N,
            points.comp_s_N,
        )
    )
    _, of_N = np.unique(kinds, axis=1, return_inverse=True)
    for kind in range(int(of_N.max()) + 1):
        yield of_N.ravel() == kind


def _published(points: RingPoints, ours: RingFit, inner: float) -> RingNetwork:
    """Fit ``published``: the best xi1 on a grid, then between its neighbors; the rest by it."""

    def lost(xi1: float) -> float:
        return _linear(points, xi1, ours.xi2_s > 0)[1]

    losses = np.array([lost(xi1) for xi1 in _GRID.tolist()])
    # The grid descends, so the first of the best has the largest xi1.
    at = int(np.argmax(losses <= losses.min() + _SAME))
    xi1 = float(_GRID[at])
    low, high = float(_GRID[min(at + 1, len(_GRID) - 1)]), float(_GRID[max(at - 1, 0)])
    if low < high:
        near = minimize_scalar(lost, bounds=(low, high), method="bounded")
        if near.fun < losses[at] - _SAME:
            xi1 = float(near.x)
    (xi2_s, s_per_byte, more), _ = _linear(points, xi1, ours.xi2_s > 0)
    if s_per_byte <= 0:
        raise ValueError("no time is left for sending")
    return RingNetwork(
        inner_bytes_per_s=inner,
        outer_bytes_per_s=1 / s_per_byte,
        xi1=xi1,
        xi2_s=xi2_s,
        alpha=more / s_per_byte,
        reading="published",
    )


def _linear(points: RingPoints, xi1: float, overhead: bool) -> tuple[list[float], float]:
    """Return the best (xi2, 1 / b^e, alpha / b^e) for a given xi1, and the norm of relative errors.

    ``overhead``: whether xi2 may be above 0.
    """
    sent_N = points.jobs.sent_bytes_J
    k_N = np.maximum(1.0, xi1 * points.contenders_N)
    columns = np.stack((points.servers_N * float(overhead), sent_N * k_N, sent_N * (k_N - 1)), 1)
    # Columns of one size for the solver's sake; divided by the time, errors are relative.
    scale = np.maximum(columns.max(axis=0), 1e-300)
    found, norm = nnls(
        columns / scale / points.time_s_N[:, None], 1 - points.comp_s_N / points.time_s_N
    )
    return (found / scale).tolist(), float(norm)


def unsure(points: RingPoints, reading: Reading) -> list[str]:
    """List the parameters that the points do not determine, a sentence each."""
    told = []
    if reading == "ours":
        told.append("xi1 and alpha: such times tell xi1 (1 + alpha) alone; alpha is 0 unless > 1")
    # The bytes sent grow in proportion to the servers: overhead and transfer cannot be separated.
    if np.ptp(points.jobs.sent_bytes_J / points.servers_N) <= 0:
        told.append("xi2: one size on one number of hosts; taken as 0")
    if points.contenders_N.min() > 1:
        told.append("b^e: no ring was alone on its links; what a lone one gets is extrapolated")
    if np.ptp(points.servers_N) == 0:
        told.append("xi2 by hosts: all rings had as many; it may be one of a round")
    return told


def inner_bytes_per_s(jobs: RingJobs, round_s_J: FloatArray) -> float:
    """Return b^i: the median rate of rings that have b^i alone; 0 without rings."""
    if not len(round_s_J):
        return 0.0
    return float(np.median(jobs.sent_bytes_J / (round_s_J - jobs.comp_s_J)))
