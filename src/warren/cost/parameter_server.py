"""Parameter servers: how long workers pull a model and push gradients, and the time of a round.

*Source.* JPAS (JNCA'20), 4.2: equations (13) to (20). Cruise and Harmony (dissertation, 2020): the
cost model (3.2) to (3.5), and T_net of (4.1). They are one thing: how long a model of M bytes takes
between all workers and all servers. Symbols, papers and here, times in seconds, sizes in bytes::

    MS, M           model_bytes             the model, and as many gradients
    m_j             server_bytes_P          what server j holds of it
    w, W            len(worker_rate_W)      workers
    p, S            len(server_rate_P)      servers
    B_w, b_i        worker_rate_W           the link of a worker's host, bytes a second
    B_ps, b_j       server_rate_P           the link of a server's host, bytes a second
    b_ij                                    what is between both; see the readings
    T_latency       latency_s               before the first byte
    T_pull, T_push  transfer_s_W            (16), or the last factor of (3.4): one way, each worker
    T_net           T_pull + T_push         Harmony's: all bytes of an iteration
    C_w.proc        item_s_W                computation of one item of the data

*Readings* of b_ij in (3.4), which says "the bandwidth between worker i and server j"::

    published   min(b_i, b_j)
    server      b_j, as if workers' links were never the narrow ones
    nic         a link carries the sum of all that passes it:
                max(max_j m_j W / b_j, M / b_i)

``nic`` is (16) for machines that differ, and no schedule on links of hosts is faster for the worker
that is the last. With the model split by bandwidth (m_j = M b_j / sum b) it is M max(W / sum b, 1 /
b_i). If all links are equal the three readings are one.

*Differs.*

- (3.4) counts the model once a mini-batch, (17) twice: a pull and a push. A barrier keeps them
  apart, so it is twice here; ``ways=1`` is (3.4) as printed.
- (18) takes the larger of pull and push, as links carry both ways at once. Kept, since (20) needs
  it.
- (20) divides by T_pull + T_compute, which is 0 for a step of no time: gamma is 0 then.
- (3.4) has whole mini-batches, ceil(d_i / B), and (3.5) parts of them. ``epoch_s_W`` is (3.4).
- (3.5) is given as a search for the least; its closed form is here, derived: the derivative of
  C / w + k / (N - w) is 0 at N / (1 + sqrt(k / C)), k = M / (b B), and no w below N / 2 is better
  than N / 2. It is rounded to the better neighbor, and leaves at least one worker and one server.
- Harmony's T_net is measured and said not to depend on the machines of a group (4.2). If every
  machine has a worker and a server (W = S), (16) says so: M / b each way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from warren.model.costs import FloatArray, IntArray

RateReading = Literal["nic", "server", "published"]
RATE_READINGS: Final = get_args(RateReading)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLinks:
    """The servers and workers of one job: bytes of each server, and rates of all their links.

    Rates are in bytes a second; each machine has a link of its own.

    Raises
    ------
    ValueError
        If there is no server or no worker, a rate is not above 0, or a size is negative.
    """

    server_bytes_P: FloatArray
    server_rate_P: FloatArray
    worker_rate_W: FloatArray

    def __post_init__(self) -> None:
        if self.server_bytes_P.shape != self.server_rate_P.shape or self.server_bytes_P.ndim != 1:
            raise ValueError("the columns of a job's servers are not of one length")
        if not (len(self.server_rate_P) and len(self.worker_rate_W)):
            raise ValueError("a job needs a server and a worker")
        if not (np.all(self.server_rate_P > 0) and np.all(self.worker_rate_W > 0)):
            raise ValueError("a link of a server or worker has no rate above 0")
        if not (np.all(self.server_bytes_P >= 0) and np.all(np.isfinite(self.server_bytes_P))):
            raise ValueError("a server has a size that is negative or not finite")

    @property
    def model_bytes(self) -> float:
        """Return M: the bytes that all servers hold."""
        return float(self.server_bytes_P.sum())


def equal_parts_P(model_bytes: float, servers: int) -> FloatArray:
    """Return MS / p for each of ``servers`` servers: the assumption of (16)."""
    return np.full(servers, model_bytes / servers)


def parts_by_rate_P(model_bytes: float, server_rate_P: FloatArray) -> FloatArray:
    """Return M b_j / sum b: the parts that the servers' links carry in one time.

    No split is faster in the reading ``nic``; in the others one may be.
    """
    part_P: FloatArray = model_bytes * server_rate_P / server_rate_P.sum()
    return part_P


def transfer_s_W(
    links: ServerLinks, reading: RateReading = "nic", latency_s: float = 0.0
) -> FloatArray:
    """Eq. (16) of JPAS, last factor of (3.4) of Cruise: return T_pull = T_push of each worker::

        max(max_j(m_j W / b_ij), sum_j(m_j / b_ij)) + latency

    All workers pull, or push, at the same time.
    """
    workers, parts_P = len(links.worker_rate_W), links.server_bytes_P
    if reading == "nic":
        # All bytes of a link, over its rate.
        at_servers = float((parts_P * workers / links.server_rate_P).max())
        nic_s_W: FloatArray = np.maximum(at_servers, links.model_bytes / links.worker_rate_W)
        return nic_s_W + latency_s
    between_WP = np.broadcast_to(links.server_rate_P, (workers, len(parts_P)))
    if reading == "published":
        between_WP = np.minimum(between_WP, links.worker_rate_W[:, None])
    each_WP = parts_P / between_WP
    slowest_s_W: FloatArray = np.maximum((each_WP * workers).max(axis=1), each_WP.sum(axis=1))
    return slowest_s_W + latency_s


def equal_transfer_s(
    model_bytes: float,
    *,
    workers: int,
    servers: int,
    worker_rate: float,
    server_rate: float,
    latency_s: float = 0.0,
) -> float:
    """Eq. (16) of JPAS as printed: return T_pull = T_push on equal workers and equal servers::

    (MS / p) / min(B_ps / w, B_w / p) + T_latency
    """
    narrow = min(server_rate / workers, worker_rate / servers)
    return model_bytes / servers / narrow + latency_s


def net_s(model_bytes: float, rate: float, *, ways: int = 2) -> float:
    """Return Harmony's T_net of (4.1) on machines with a worker and a server each: (16) at W = S.

    M / b each way, however many machines there are, as (4.2) assumes.
    """
    return ways * model_bytes / rate


def round_s(
    links: ServerLinks,
    comp_s_W: FloatArray,
    reading: RateReading = "nic",
    latency_s: float = 0.0,
    *,
    ways: int = 2,
) -> float:
    """Return a round under a barrier: the last worker's pull, computation and push (14).

    ``ways=1`` counts the model once, as (3.4) does.
    """
    return float((comp_s_W + ways * transfer_s_W(links, reading, latency_s)).max())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """The stages of one training step of a worker, in seconds: (14).

    ``transfer_s``: T_pull = T_push (16). ``sync_s``: T_syn, the servers' time with gradients.
    """

    transfer_s: float
    compute_s: float
    sync_s: float = 0.0

    @property
    def most_s(self) -> float:
        """Eq. (14), (17): return the step where no stage overlaps another."""
        return 2 * self.transfer_s + self.compute_s + self.sync_s

    @property
    def least_s(self) -> float:
        """Eq. (15), (18): return the step where all stages overlap."""
        return max(self.transfer_s, self.compute_s + self.sync_s)

    @property
    def overlap(self) -> float:
        """Eq. (20): return gamma, between 0 (stages follow each other) and 1 (all overlap)."""
        if not self.transfer_s + self.compute_s:
            return 0.0
        sends = self.transfer_s / (self.transfer_s + self.compute_s)
        return sends * self.most_s / (self.most_s + self.least_s)

    @property
    def step_s(self) -> float:
        """Eq. (19): return the step between both, by gamma."""
        gamma = self.overlap
        return (1 - gamma) * self.most_s + gamma * self.least_s

    @property
    def steps_per_s(self) -> float:
        """Eq. (13): return V_train, the training velocity; infinite for a step of no time."""
        return 1 / self.step_s if self.step_s else math.inf


def epoch_s_W(
    items_W: IntArray, item_s_W: FloatArray, exchange_s_W: FloatArray, batch: int
) -> FloatArray:
    """Eq. (3.2)-(3.4) of Cruise: return an epoch of each worker, its d_i items in mini-batches::

        C_w.proc d_i + ceil(d_i / B) exchange

    ``exchange_s_W``: transfer time of a mini-batch; (3.4) prints ``transfer_s_W`` once.
    """
    batches_W = -(-items_W // batch)
    epoch_W: FloatArray = item_s_W * items_W + batches_W * exchange_s_W
    return epoch_W


def balanced_epoch_s(
    items: float, item_s_W: FloatArray, exchange_s_W: FloatArray, batch: int
) -> float:
    """Return the epoch where the data is split so that all workers end together.

    Mini-batches may be parts of one, as in (3.5): D / sum_i 1 / (C_i + exchange_i / B).
    """
    return items / float((1 / (item_s_W + exchange_s_W / batch)).sum())


def equal_item_s(
    workers: int, *, machines: int, item_s: float, model_bytes: float, rate: float, batch: int
) -> float:
    """Eq. (3.5) of Cruise: return T(w), an item's time where the other machines are servers."""
    servers = machines - workers
    return item_s + model_bytes / rate * max(1.0, workers / servers) / batch


def best_workers(
    *, machines: int, item_s: float, model_bytes: float, rate: float, batch: int
) -> int:
    """Eq. (3.5) of Cruise: return how many of ``machines`` equal machines should be workers.

    The others are servers. W* / N = 1 / (1 + min(1, sqrt(M / (b B C)))) does not depend on N.

    Raises
    ------
    ValueError
        If there are fewer than two machines.
    """
    if machines < 2:
        raise ValueError("a worker and a server need two machines")
    computes = item_s * rate * batch
    sends = math.sqrt(model_bytes / computes) if computes > 0 else math.inf
    best = machines / (1 + min(1.0, sends))

    def epoch_s(workers: int) -> float:
        item = equal_item_s(
            workers,
            machines=machines,
            item_s=item_s,
            model_bytes=model_bytes,
            rate=rate,
            batch=batch,
        )
        return item / workers

    # Convex on each side of N / 2, so the best whole number is a neighbor; of ties the fewer.
    low = min(max(1, math.floor(best)), machines - 1)
    high = min(low + 1, machines - 1)
    return min((low, high), key=epoch_s)
