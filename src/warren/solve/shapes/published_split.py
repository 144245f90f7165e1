"""The split of a model over servers where b_ij is min(b_i, b_j): the reading ``published``.

*What.* With u_k bytes on each of the s_k servers of kind k, and W workers, a pull or a push takes a
worker whose link has rate b_a, with b_ak = min(b_a, b_k)::

    K_a(u) = max(W max_k u_k / b_ak, sum_k s_k u_k / b_ak),    sum_k s_k u_k = M

Fast workers need another split than slow ones, so no split is best for all.

*Servers of one kind hold the same*: K_a is convex and the same for all orders of them, so the mean
of all orders is no worse.

*Which times a split can give*, so that workers of rate b_a wait y_a at most, for all a: just those
that pass ``holds``. Each server may hold cap_k = min_a b_ak y_a / W at most, by the first term. By
the second one the sum over k of s_k u_k / b_ak is to be y_a at most, for each a. Of all u below the
caps with M in all one makes these sums least *for all a at once*: fastest servers first, each up to
its cap. For 1 / b_ak does not rise with b_k, whatever a: bytes that go to a faster server add to no
sum. So this one u decides, in K A steps, and no linear program is needed.

*The best split.* For given items d_a in n_a exchanges the best split is a linear program (T least,
with y_a = (T - c_a d_a) / n_a): the least T whose y pass. Where items are free it is not even
quasi-convex. Cut anywhere, an epoch is D / sum_a w_a / (c_a + y_a / B), and the sum is convex: a y
between two equally good y is no better, and mostly worse. Whole items add steps.
``published_search`` therefore divides the times y.

*How little and how much* (``transfer_ranges``). For one a alone K_a is the time of ``server`` with
rates b_ak: M W over the sum of the W greatest. And K_a, which is convex, is greatest where one kind
holds all: max_k max(W / s_k, 1) M / b_ak.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.shapes.kinds import MachineKinds
from warren.solve.shapes.model_split import holding, workers_C

_CLOSE: Final = 1e-13
"""Largest part of the model, or of a time, that counts as rounding."""


def worker_rates(kinds: MachineKinds) -> tuple[FloatArray, IntArray]:
    """Return the A different rates of kinds that can work, and which is that of each kind (K,).

    Workers of one rate wait equally long. Kinds that cannot work are given the first rate.
    """
    rate_A = np.unique(kinds.rate_K[kinds.works_K])
    rate_of_K = np.where(kinds.works_K, np.searchsorted(rate_A, kinds.rate_K), 0)
    return rate_A, rate_of_K.astype(np.int64)


def transfer_ranges(
    kinds: MachineKinds, servers_CK: IntArray, model_bytes: float
) -> tuple[FloatArray, FloatArray]:
    """Compute the limits of T_pull = T_push of workers of each rate, in each case (C, A) twice.

    The least is that of the best split for this rate alone. Of rates without workers it is the
    greatest, so that they limit no other rate.
    """
    rate_A, rate_of_K = worker_rates(kinds)
    working_CK = (kinds.count_K - servers_CK) * kinds.works_K
    holding_CK, workers = holding(kinds, servers_CK), workers_C(kinds, servers_CK)
    # A kind that does not serve has no term.
    part_CK = np.where(servers_CK > 0, np.maximum(workers[:, None] / servers_CK.clip(1), 1.0), 0.0)
    least_CA, most_CA = (
        np.empty((len(servers_CK), len(rate_A))),
        np.empty((len(servers_CK), len(rate_A))),
    )
    for at, rate in enumerate(rate_A.tolist()):
        between_K = np.minimum(rate, kinds.rate_K)
        most_CA[:, at] = model_bytes * (part_CK / between_K).max(axis=1)
        least_C = model_bytes * workers / (holding_CK * between_K).sum(axis=1)
        works_C = working_CK[:, rate_of_K == at].any(axis=1)
        least_CA[:, at] = np.where(works_C, least_C, most_CA[:, at])
    return least_CA, most_CA


def published_transfer_s(
    kinds: MachineKinds, servers_K: IntArray, split_K: FloatArray
) -> FloatArray:
    """Compute T_pull = T_push of a worker of each kind (K,), for bytes of each server by kind."""
    workers = int(workers_C(kinds, servers_K[None])[0])
    each_KK = np.where(servers_K > 0, split_K, 0.0) / np.minimum(
        kinds.rate_K[:, None], kinds.rate_K
    )
    transfer_K: FloatArray = np.maximum(
        workers * each_KK.max(axis=1), (servers_K * each_KK).sum(axis=1)
    )
    return transfer_K


@kernel
def holds(
    rate_K: FloatArray, rate_A: FloatArray, servers_K: IntArray, workers: Int, model_bytes: Float,
    transfer_s_A: FloatArray, held_K: FloatArray,
) -> bool:  # fmt: skip
    """Return whether a split of the model lets workers wait no longer than their rate's time.

    ``rate_K`` ascends. ``held_K`` is written: the bytes that each server of a kind holds then.
    """
    left, servers = model_bytes, 0
    for kind in range(len(rate_K) - 1, -1, -1):
        held_K[kind] = 0.0
        if servers_K[kind] == 0:
            continue
        servers += servers_K[kind]
        cap = np.inf
        for at in range(len(rate_A)):
            cap = min(cap, min(rate_A[at], rate_K[kind]) * transfer_s_A[at])
        held_K[kind] = min(left / servers_K[kind], cap / workers)
        left -= servers_K[kind] * held_K[kind]
    if left > _CLOSE * model_bytes:
        return False
    if workers >= servers:
        # No sum is above W times its greatest term.
        return True
    for at in range(len(rate_A)):
        sum_s = 0.0
        for kind in range(len(rate_K)):
            sum_s += servers_K[kind] * held_K[kind] / min(rate_A[at], rate_K[kind])
        if sum_s > transfer_s_A[at] * (1 + _CLOSE):
            return False
    return True
