"""The parameters of a ring's network from measured times: overhead, bandwidth, contention.

*Source.* Eq. (8) of SJF-BCO with (7) as ``ours`` (see ``warren.cost.ring``). A job on several
servers, with p contenders, has f = k + alpha (k - 1) and k = 1 + xi1 (p - 1), so that::

    f = 1 + slope (p - 1),    slope = xi1 (1 + alpha)
    tau - comp - sent / (2 C) = xi2 servers + (1 / b^e) sent + (slope / b^e) sent (p - 1)

is linear in three unknowns that cannot be negative: one small least squares problem (``nnls``).

*What such times tell.*

- Of xi1 and alpha only the slope. Rounds of ``ours`` take the same time for all pairs with the same
  slope; ``network`` gives the one in the paper's ranges that needs least: xi1 = slope below 1, else
  xi1 = 1 and alpha = slope - 1. (In ``published`` both would show: f is 1 up to p = 1 / xi1.)
- Where all jobs use as many servers: xi2 servers + comp, so give ``comp_s`` or take xi2 as all that
  does not grow with the message.
- Of b^e and C only 1 / b^e + 1 / (2 C), since both go with the bytes sent: C is given, by default
  infinite, and where it is not known the slope is one of sending and adding together.
- Of one message size on one number of servers, overhead and transfer are one: xi2 is then taken as
  0. If each contender adds the share s of the time alone, of which the share c is transfer, the
  slope is s / c. The paper's 295 s alone and 675 s of each of four jobs have s = 0.43, if the one
  was spread like the four. If c = 0.43, the link is shared equally (slope 1); if all is transfer,
  the slope is 0.43. With alpha = 0 and xi1 the share c itself, as ``ours`` means it, c = 0.66.

*Robust.* Of points measured several times the median counts. Errors are relative to the measured
time: small messages count as much as large ones, and a time that is far too long, the way in which
disturbed measurements err, has little weight. Least absolute errors would give up the few points of
a job alone, on which the slope rests. In ``experiments/ring_tables.py`` they lead to a slope of
0.81, though each contender slows jobs down by 0.91 to 1.12. The mean error is a tenth less, and the
largest twice as large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from warren.cost.ring import RingJobs, RingNetwork, round_at_s_J
from warren.model.costs import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RingPoints:
    """Measured rounds, or all-reduces of a message, a row each.

    ``time_s_N``: the measured time; ``comp_s_N``: the part of it that computes, which is known,
    often 0. ``contenders_N`` counts the job itself (6), so it is 1 for a job alone.
    """

    time_s_N: FloatArray
    message_bytes_N: FloatArray
    contenders_N: IntArray
    workers_N: IntArray
    servers_N: IntArray
    comp_s_N: FloatArray

    def __post_init__(self) -> None:
        if not (np.all(np.isfinite(self.time_s_N)) and np.all(self.time_s_N > 0)):
            raise ValueError("a measured time is not a finite time above 0")
        if not self.time_s_N.shape == self.contenders_N.shape == self.servers_N.shape:
            raise ValueError("the columns of measured points are not of one length")
        if self.jobs.workers_J.shape != self.time_s_N.shape:
            raise ValueError("the columns of measured points are not of one length")
        if np.any(self.contenders_N < 1) or np.any(self.servers_N < 2):
            raise ValueError("a job within one server meets no contention: leave it out")

    @property
    def jobs(self) -> RingJobs:
        """Return the measured jobs, without the times."""
        return RingJobs(
            model_bytes_J=self.message_bytes_N, workers_J=self.workers_N, comp_s_J=self.comp_s_N
        )

    def where(self, keep: npt.NDArray[np.bool_ | np.int64]) -> RingPoints:
        """Return some of the points: ``keep`` is a mask, or their rows."""
        return RingPoints(**{one.name: getattr(self, one.name)[keep] for one in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFit:
    """The fitted parameters; ``slope`` is xi1 (1 + alpha): times determine only this product."""

    outer_bytes_per_s: float
    xi2_s: float
    slope: float
    reduce_bytes_per_s: float
    error_N: FloatArray
    """Of each point, fitted / measured - 1."""

    def network(self, inner_bytes_per_s: float) -> RingNetwork:
        """Return the network in the reading ``ours``; the rate within servers is not fitted."""
        # The pair with this slope, in the paper's ranges, that needs least alpha.
        return RingNetwork(
            inner_bytes_per_s=inner_bytes_per_s,
            outer_bytes_per_s=self.outer_bytes_per_s,
            xi1=min(1.0, self.slope),
            xi2_s=self.xi2_s,
            alpha=max(0.0, self.slope - 1),
            reduce_bytes_per_s=self.reduce_bytes_per_s,
        )

    def errors(self, points: RingPoints) -> FloatArray:
        """Return the relative errors of any points, fitted / measured - 1."""
        # No point is within one server, so the bandwidth there may be any.
        network = self.network(self.outer_bytes_per_s)
        fitted_s_N = round_at_s_J(network, points.jobs, points.contenders_N, points.servers_N)
        return fitted_s_N / points.time_s_N - 1


def fit_ring(points: RingPoints, reduce_bytes_per_s: float = math.inf) -> RingFit:
    """Fit xi2, b^e and the slope by least squares of relative errors. See the head of this file.

    Parameters
    ----------
    points
        Measured rounds between servers.
    reduce_bytes_per_s
        C, how fast a worker adds gradients; times do not determine it.

    Raises
    ------
    ValueError
        If no two points differ in their contenders, or no time is left for sending.
    """
    # tau - comp - sent / (2 C) = xi2 servers + (1 / b^e) sent + (slope / b^e) sent (p - 1), each
    # row divided by tau, and columns brought to one size for the solver's sake.
    one = _medians(points)
    sent_N = one.jobs.sent_bytes_J
    columns = np.stack((one.servers_N, sent_N, sent_N * (one.contenders_N - 1)), axis=1)
    scale = columns.max(axis=0)
    if not np.all(scale > 0):
        raise ValueError("no point has a message and more than one contender")
    design = columns / scale / one.time_s_N[:, None]
    known_s_N = one.comp_s_N + sent_N / 2 / reduce_bytes_per_s
    # Overhead and transfer cannot be separated: xi2 is taken as 0. Less than that is no fit.
    if np.linalg.matrix_rank(design) < 3:
        design[:, 0] = 0
        if np.linalg.matrix_rank(design) < 2:
            raise ValueError("no two points differ in their contenders")
    found, _ = nnls(design, 1 - known_s_N / one.time_s_N)
    xi2_s, s_per_byte, more_s_per_byte = (found / scale).tolist()
    if s_per_byte <= 0:
        raise ValueError("no time is left for sending")
    fit = RingFit(
        outer_bytes_per_s=1 / s_per_byte,
        xi2_s=xi2_s,
        slope=more_s_per_byte / s_per_byte,
        reduce_bytes_per_s=reduce_bytes_per_s,
        error_N=np.empty(0),
    )
    return replace(fit, error_N=fit.errors(points))


def _medians(points: RingPoints) -> RingPoints:
    """Return one row for all measurements of the same, with the median of their times."""
    same = np.stack(
        (
            points.message_bytes_N,
            points.contenders_N,
            points.workers_N,
            points.servers_N,
            points.comp_s_N,
        )
    )
    _, first, of_N = np.unique(same, axis=1, return_index=True, return_inverse=True)
    groups = range(len(first))
    medians_s = [float(np.median(points.time_s_N[of_N.ravel() == group])) for group in groups]
    return replace(points.where(first), time_s_N=np.array(medians_s))
