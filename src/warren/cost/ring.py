"""Ring all-reduce: how long a round takes when jobs share the network between servers.

*Source.* SJF-BCO (MobiHoc'22), section 4: equations (1) to (9), and section 5, "Basic Idea", for
the range of (8). Symbols, paper and here, with times in seconds and sizes in bytes::

    y_js         workers_JS            workers of job j on server s; a row of zeros: does not run
    G_j, w_j     workers_J             all workers of the job, its GPUs
    p_j          contenders_J          jobs that cross the busiest of the job's servers, it included
    k_j, xi1     contention_J, xi1     how many of them send at once, on average
    f, alpha     degradation, alpha    what of a link's bandwidth that leaves, inverted
    b^i, b^e     inner_, outer_bytes_per_s    bandwidth within and between servers
    gamma, xi2   xi2_s                 overhead, and that of each server used
    m_j          model_bytes_J         gradients of a round
    C            reduce_bytes_per_s    how fast a GPU adds gradients
    D^f M + D^b  comp_s_J              forward and backward pass of a round
    tau_j        round_s_J

*Differs.*

- (5) says positive integers, which would put every job on every server: non-negative here.
- (7) printed, k = xi1 p, is below 1 for a job alone, where f would promise more than b^e or even be
  negative (xi1 = 0.2, alpha = 0.5: f = -0.2). ``published`` takes at least 1. ``ours`` is
  k = 1 + xi1 (p - 1): the job itself, and each other job for the share xi1 of its time in which it
  sends. The text calls p_j the *other* jobs; (6) counts j too, and so does f(alpha, 1) = 1.
- p_j is 0 for a job within one server, also if it shares that with others: it has b^i.
- (8) charges xi2 for one server to every job, even to one with one worker. Kept.
- (9) rounds the speed 1 / tau down to whole rounds a slot, which is none if tau exceeds a slot, and
  sums over all of the horizon where it means the slots up to now. Warren counts rounds
  continuously.
- Section 5 takes k = max O for the least bandwidth, whatever xi1. ``published`` does that; ``ours``
  takes the k of p = max O, which is as sure and nearer. Where b^i is not above b^e, as the paper
  assumes it is, the range is still one: either may be the faster.
- The paper counts time in slots and has xi1 and xi2 in (0, 1]. An overhead in seconds has no upper
  limit, and both may be 0: no contention, no overhead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from warren.model.costs import BoolArray, FloatArray, IntArray

Reading = Literal["published", "ours"]
READINGS: Final = get_args(Reading)


@dataclass(frozen=True, slots=True, kw_only=True)
class RingNetwork:
    """The parameters of (7) and (8) for a network, and how (7) is read.

    Bandwidths in bytes a second, ``xi2_s`` in seconds; ``xi1``, in [0, 1], and ``alpha`` are plain
    numbers.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """

    inner_bytes_per_s: float
    outer_bytes_per_s: float
    xi1: float
    xi2_s: float
    alpha: float
    reading: Reading = "ours"
    reduce_bytes_per_s: float = math.inf

    def __post_init__(self) -> None:
        allowed = {
            "inner_bytes_per_s": self.inner_bytes_per_s > 0,
            "outer_bytes_per_s": 0 < self.outer_bytes_per_s < math.inf,
            "xi1": 0 <= self.xi1 <= 1,
            "xi2_s": 0 <= self.xi2_s < math.inf,
            "alpha": 0 <= self.alpha < math.inf,
            "reading": self.reading in READINGS,
            "reduce_bytes_per_s": self.reduce_bytes_per_s > 0,
        }
        for name, fine in allowed.items():
            if not fine:
                raise ValueError(f"{name} of a ring's network may not be {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RingJobs:
    """Ring jobs as (8) needs them, a row each: gradients of a round, workers, its compute time."""

    model_bytes_J: FloatArray
    workers_J: IntArray
    comp_s_J: FloatArray

    def __post_init__(self) -> None:
        columns = (self.model_bytes_J, self.workers_J, self.comp_s_J)
        if len({column.shape for column in columns}) > 1 or self.workers_J.ndim != 1:
            raise ValueError("the columns of ring jobs are not of one length")
        if not (np.all(self.workers_J > 0) and np.all(np.isfinite(columns))):
            raise ValueError("a ring job has no worker, or a size or time that is not finite")
        if np.any(self.model_bytes_J < 0) or np.any(self.comp_s_J < 0):
            raise ValueError("a ring job has a negative size or time")

    @property
    def sent_bytes_J(self) -> FloatArray:
        """Return a worker's sent, and received, bytes in a round: 2 m (w - 1) / w (section 3)."""
        return 2 * self.model_bytes_J * (self.workers_J - 1) / self.workers_J


def degradation(alpha: float, k_J: FloatArray) -> FloatArray:
    """Return f(alpha, k) = k + alpha (k - 1), the paper's example: 1 at k = 1, and increasing.

    ``k_J`` is at least 1.
    """
    return k_J + alpha * (k_J - 1)


def crossing_JS(workers_JS: IntArray) -> BoolArray:
    """Tell whether a job sends to or from a server: 0 < y_js < G_j, the indicator of (6)."""
    crosses_JS: BoolArray = (workers_JS > 0) & (workers_JS < workers_JS.sum(axis=1)[:, None])
    return crosses_JS


def contenders_J(workers_JS: IntArray) -> IntArray:
    """Eq. (6): return p_j, the most jobs that cross a server which job j crosses; 0 if none."""
    # Column sums count the jobs that cross a server; the largest of a job's own servers counts.
    crosses_JS = crossing_JS(workers_JS)
    most_J: IntArray = (crosses_JS * crosses_JS.sum(axis=0)).max(axis=1, initial=0)
    return most_J


def servers_J(workers_JS: IntArray) -> IntArray:
    """Count the servers that each job uses, the sum in gamma."""
    used_J: IntArray = np.count_nonzero(workers_JS, axis=1)
    return used_J


def contention_J(network: RingNetwork, p_J: IntArray) -> FloatArray:
    """Eq. (7): return k_j from p_j in the network's reading; 1 for a job within one server."""
    # Printed: k = xi1 p, below 1 for a lone job; ours counts the job itself whole. See the head.
    published = network.reading == "published"
    k_J = network.xi1 * p_J if published else 1 + network.xi1 * (p_J - 1)
    clamped_J: FloatArray = np.maximum(1.0, k_J)
    return clamped_J


def bandwidth_J(network: RingNetwork, p_J: IntArray) -> FloatArray:
    """Return B_j, of the slowest link of each ring: b^e / f(alpha, k), within one server b^i."""
    shared_J = network.outer_bytes_per_s / degradation(network.alpha, contention_J(network, p_J))
    return np.where(p_J > 0, shared_J, network.inner_bytes_per_s)


def round_at_s_J(
    network: RingNetwork, jobs: RingJobs, p_J: IntArray, span_J: IntArray
) -> FloatArray:
    """Eq. (8): return tau of jobs that have p_J contenders and use span_J servers, in seconds::

    tau = 2 m (w - 1) / w / B + m (w - 1) / w / C + xi2 servers + comp
    """
    return _round_s_J(network, jobs, bandwidth_J(network, p_J), span_J)


def round_s_J(network: RingNetwork, jobs: RingJobs, workers_JS: IntArray) -> FloatArray:
    """Eq. (8): return tau of each job where exactly these workers run, in seconds.

    Infinite for a job that has none.

    Parameters
    ----------
    network
        The parameters of (7) and (8).
    jobs
        J jobs.
    workers_JS
        y_js, the workers of each job on each server.

    Raises
    ------
    ValueError
        If a job runs with some of its workers only: a ring is a gang, (1) and (4).
    """
    placed_J = workers_JS.sum(axis=1)
    runs_J = placed_J > 0
    if np.any(workers_JS < 0) or np.any(placed_J[runs_J] != jobs.workers_J[runs_J]):
        raise ValueError("a ring job runs with all its workers or with none")
    taken_s_J = round_at_s_J(network, jobs, contenders_J(workers_JS), servers_J(workers_JS))
    return np.where(runs_J, taken_s_J, np.inf)


def least_round_s_J(network: RingNetwork, jobs: RingJobs) -> FloatArray:
    """Return the lower end of the range of (8), in seconds: bandwidth b^i, one server."""
    # The paper takes b^i for the faster; here either may be.
    fastest = max(network.inner_bytes_per_s, network.outer_bytes_per_s)
    return _round_s_J(
        network, jobs, np.full(len(jobs.workers_J), fastest), np.ones_like(jobs.workers_J)
    )


def most_round_s_J(network: RingNetwork, jobs: RingJobs, server_gpus: int) -> FloatArray:
    """Return the upper end of the range of (8), in seconds.

    Bandwidth b^e / f(alpha, max O), every worker on its own server. ``server_gpus`` is max O, the
    GPUs of the largest server: each job that crosses it has a worker there, so p_j is at most that.
    """
    if server_gpus < 1:
        raise ValueError("the largest server has no GPU")
    # ``published`` takes k = max O, whatever xi1; ``ours`` the k of p = max O, as sure and nearer.
    k = float(server_gpus)
    if network.reading == "ours":
        k = float(contention_J(network, np.array([server_gpus]))[0])
    # The slower of both ends of the range of B, since b^i need not be above b^e.
    shared = network.outer_bytes_per_s / float(degradation(network.alpha, np.array([k]))[0])
    slowest = min(network.inner_bytes_per_s, shared)
    return _round_s_J(network, jobs, np.full(len(jobs.workers_J), slowest), jobs.workers_J)


def _round_s_J(
    network: RingNetwork, jobs: RingJobs, bytes_per_s_J: FloatArray, span_J: IntArray
) -> FloatArray:
    """Eq. (8) with this bandwidth, for span_J servers: transfer, adding, overhead, computation."""
    # m (w - 1) / w / C is half of the bytes sent, added at C.
    sent_bytes_J = jobs.sent_bytes_J
    return (
        sent_bytes_J / bytes_per_s_J
        + sent_bytes_J / 2 / network.reduce_bytes_per_s
        + network.xi2_s * span_J
        + jobs.comp_s_J
    )
