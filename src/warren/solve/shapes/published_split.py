"""How a model is split over servers where b_ij is min(b_i, b_j): the reading ``published``.

*What.* Of workers of kind a, K_a(m) = max(W max_k u_k / b_ak, sum_k s_k u_k / b_ak), where a server
of kind k holds u_k bytes, s_k of them, and b_ak = min(b_a, b_k). Fast workers want what slow ones
do not, so no split is best for all.

*How.* Servers of one kind hold the same: K_a is convex and the same for all orders of them, so the
mean of all orders is no worse. Where data and mini-batches may be cut anywhere, an epoch is
D / sum_a w_a / (c_a + K_a / B), and what is to be made greatest is convex wherever all K_a are
linear: on a cell between the planes on which two terms of some K_a are equal. So a corner of a cell
is the best, and all are tried: K - 1 planes each, of u_k = 0 and of such ties, with
sum_k s_k u_k = M.

*Differs.* With whole items a split between corners may be better. From the best corners
``split_for`` then goes on: the best split for the items that workers have there, by a linear
program; who can do more by it is given more; and so on, as long as that helps. This is no proof:
``tests/solve/test_solve_shapes.py`` has an instance whose optimum is missed.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.shapes.kinds import MachineKinds
from warren.solve.shapes.model_split import workers_C

_CLOSE: Final = 1e-9


def corner_splits(kinds: MachineKinds, servers_K: IntArray, model_bytes: float) -> FloatArray:
    """Compute the corners of all cells: bytes of each server, by kind, of each corner (G, K)."""
    serving, working = np.flatnonzero(servers_K), np.flatnonzero(kinds.count_K - servers_K)
    planes = list(np.eye(len(serving)))
    for terms_QK in _terms(kinds, servers_K, working)[:, :, serving]:
        planes += [one - other for one, other in combinations(terms_QK, 2)]
    planes_VK = _different(np.array(planes))
    count_K = servers_K[serving].astype(float)
    systems_GKK = np.array(
        [
            np.vstack([count_K, planes_VK[list(chosen)]])
            for chosen in combinations(range(len(planes_VK)), len(serving) - 1)
        ]
    )
    usable_G = np.abs(np.linalg.det(systems_GKK)) > _CLOSE
    right_KG = np.zeros((len(serving), 1))
    right_KG[0] = model_bytes
    found_GK = np.linalg.solve(systems_GKK[usable_G], right_KG[None])[:, :, 0]
    found_GK = found_GK[(found_GK >= -_CLOSE * model_bytes).all(axis=1)]
    corners_GK = np.zeros((len(found_GK), len(servers_K)))
    corners_GK[:, serving] = np.maximum(found_GK, 0.0)
    return corners_GK


def published_transfer_s(
    kinds: MachineKinds, servers_K: IntArray, split_GK: FloatArray
) -> FloatArray:
    """Compute T_pull = T_push of a worker of each kind, for each split (G, K)."""
    terms_KQK = _terms(kinds, servers_K, np.arange(len(servers_K)))
    transfer_GK: FloatArray = np.einsum("aqk,gk->gaq", terms_KQK, split_GK).max(axis=2)
    return transfer_GK


def split_for(
    kinds: MachineKinds, servers_K: IntArray, model_bytes: float, comp_s_K: FloatArray,
    exchanges_K: FloatArray,
) -> FloatArray:  # fmt: skip
    """Compute the split by which workers that are given so much all end soonest (K,)::

        min T: comp_s_a + exchanges_a K_a(u) <= T for all kinds a that work

    ``exchanges_K``: how often a worker of each kind waits for T_pull, or T_push.
    """
    from scipy.optimize import linprog

    serving, working = np.flatnonzero(servers_K), np.flatnonzero(kinds.count_K - servers_K)
    terms_AQK = _terms(kinds, servers_K, working)[:, :, serving]
    rows_RK = (exchanges_K[working, None, None] * terms_AQK).reshape(-1, len(serving))
    most_R = np.repeat(-comp_s_K[working], terms_AQK.shape[1])
    # In parts of the model, so that all numbers are of one size.
    found = linprog(
        np.append(np.zeros(len(serving)), 1.0),
        A_ub=np.column_stack([model_bytes * rows_RK, -np.ones(len(rows_RK))]),
        b_ub=most_R,
        A_eq=np.append(servers_K[serving].astype(float), 0.0)[None],
        b_eq=[1.0],
    )
    split_K = np.zeros(len(servers_K))
    split_K[serving] = np.maximum(np.asarray(found.x)[:-1], 0.0)
    whole_K: FloatArray = split_K * (model_bytes / float((split_K * servers_K).sum()))
    return whole_K


def _terms(kinds: MachineKinds, servers_K: IntArray, workers: IntArray) -> FloatArray:
    """Return the terms of K_a as coefficients of u, for some kinds a (A, K + 1, K)."""
    count = int(workers_C(kinds, servers_K[None])[0])
    rows = []
    for kind in workers.tolist():
        between_K = np.minimum(kinds.rate_K, kinds.rate_K[kind])
        # Where no server of a kind is, its term does not count.
        most_KK = np.diag(count * (servers_K > 0) / between_K)
        rows.append(np.vstack([most_KK, servers_K / between_K]))
    return np.array(rows)


def _different(planes_VK: FloatArray) -> FloatArray:
    """Return planes through the origin, each once."""
    length_V = np.abs(planes_VK).max(axis=1)
    kept_VK = planes_VK[length_V > 0] / length_V[length_V > 0][:, None]
    first_V = np.abs(kept_VK) > _CLOSE
    sign_V = np.sign(kept_VK[np.arange(len(kept_VK)), first_V.argmax(axis=1)])
    different_VK: FloatArray = np.unique(np.round(kept_VK * sign_V[:, None], 12), axis=0)
    return different_VK
