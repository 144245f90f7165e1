"""The split of a model over servers, so that pulls and pushes of all workers end soonest.

*What.* The last factor of (3.4) of Cruise, by three readings of b_ij
(``warren.cost.parameter_server``). Symbols: W workers, servers j of rate b_j with m_j bytes of M.

*Why it is exact*, parts of a byte allowed.

nic
    max(max_j m_j W / b_j, g_i M / b_i), with g_i workers on the machine of i. Only the first term
    hangs on the split, and it is least where all m_j / b_j are equal: m_j = M b_j / sum b.
server
    max(W max_j x_j, sum_j x_j) with x_j = m_j / b_j. For a value K no x_j is above K / W, and all
    together are not above K, so at most M = (K / W) (the sum of the W greatest b_j) is held: K is
    M W over that sum. With more servers than workers the others hold nothing.
published
    Each worker has a value of its own; see ``published_split``.
"""

from __future__ import annotations

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.shapes.kinds import MachineKinds


def nic_transfer_s(kinds: MachineKinds, servers_CK: IntArray, model_bytes: float) -> FloatArray:
    """Compute T_pull = T_push of a worker of each kind in each case (C, K); reading ``nic``."""
    held_C = (servers_CK * kinds.rate_K).sum(axis=1)
    at_servers_C = workers_C(kinds, servers_CK) / held_C
    at_workers_K = kinds.devices_K / kinds.rate_K
    transfer_CK: FloatArray = model_bytes * np.maximum(at_servers_C[:, None], at_workers_K)
    return transfer_CK


def server_transfer_s(kinds: MachineKinds, servers_CK: IntArray, model_bytes: float) -> FloatArray:
    """Compute T_pull = T_push of every worker in each case (C, K); reading ``server``."""
    held_C = (holding(kinds, servers_CK) * kinds.rate_K).sum(axis=1)
    transfer_C = model_bytes * (workers_C(kinds, servers_CK) / held_C)
    return np.broadcast_to(transfer_C[:, None], servers_CK.shape).astype(float)


def workers_C(kinds: MachineKinds, servers_CK: IntArray) -> IntArray:
    """Return W of each case: the devices of all machines that work."""
    workers: IntArray = ((kinds.count_K - servers_CK) * kinds.devices_K).sum(axis=1)
    return workers


def holding(kinds: MachineKinds, servers_CK: IntArray) -> IntArray:
    """Return how many servers of each kind hold something by ``server``: the W fastest (C, K)."""
    left_C = np.minimum(servers_CK.sum(axis=1), workers_C(kinds, servers_CK))
    holding_CK = np.zeros_like(servers_CK)
    for kind in np.argsort(-kinds.rate_K, kind="stable").tolist():
        holding_CK[:, kind] = np.minimum(servers_CK[:, kind], left_C)
        left_C = left_C - holding_CK[:, kind]
    return holding_CK


def overlapped_shares(workers: int, extra: int) -> tuple[float, float]:
    """Return the shares of the model on each of n workers that serve, too, and on k extra servers.

    All machines are equal, and pulls of one round pass while updates of another do, so that each
    direction of a link carries both: of a worker (n - 1) f + 1 - f models, of an extra server n f'.
    Both are equal at f = (n - k) / (n (n + k) - 2 k), f' = 2 (n - 1) / (n (n + k) - 2 k), by n f +
    k f' = 1; with n extra ones or more workers hold nothing. Source: BytePS (OSDI'20), 4.1. If a
    barrier keeps pulls and pushes apart, ``task_rounds`` gives the time of a round.

    Raises ValueError if no machine serves others.
    """
    if workers < 1 or extra < 0 or (workers == 1 and extra == 0):
        raise ValueError("a worker needs another one, or a server")
    if extra >= workers:
        return 0.0, 1 / extra
    parts = workers * (workers + extra) - 2 * extra
    return (workers - extra) / parts, 2 * (workers - 1) / parts
